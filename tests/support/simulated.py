r"""A simulated benchmark: two runs of invented agents, with everything that happens to real ones.

A tiered run in the manner of ProjectScylla (judged, T0 to T6), an untiered one in the manner of
Terminal-Bench (with nop and oracle); among the results are corrections, copies, a retraction, trials
without a verdict, and lines that are no events. The same seed and start give the same bytes.

>>> lines = simulate(seed=1, start=datetime(2026, 1, 1, tzinfo=UTC))
>>> len(lines), lines == simulate(seed=1, start=datetime(2026, 1, 1, tzinfo=UTC))
(339, True)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import product
from random import Random
from typing import Any

from streamer.schemas.base import agent_model_label, canonical_json

TIERED_RUN, PLAIN_RUN = "demo-tiers", "demo-terminal"
BENCHMARK = "demo-bench"
TIERS = tuple(f"T{number}" for number in range(7))
SECONDS_BETWEEN_TRIALS = 40

BROKEN = (
    b"not JSON at all",
    b'{"type":"trial_result","run_id":"demo-terminal","task_id":"task-1","resolved":"yes"}',
    b'{"type":"trial_result","run_id":"demo-terminal"}',
    b'{"type":"trial_resullt","run_id":"demo-tiers","task_id":"task-1"}',
    b'{"type":"trial_result","run_id":"demo-tiers","task_id":"task-1","cost_usd":-1}',
)
"""What harnesses with bugs send."""


@dataclass(frozen=True, slots=True)
class _Agent:
    """One invented contestant.

    Attributes:
        skill: chance to resolve a task of medium difficulty, 0 to 1.
        reports_cost: whether it says what it cost, or leaves that to the price table (R2).
    """

    agent: str
    model: str
    skill: float
    reports_cost: bool = True

    @property
    def label(self) -> str:
        return agent_model_label(self.agent, self.model)


_CONTESTANTS = (
    _Agent("claude-code", "anthropic/claude-opus-4-5", 0.78),
    _Agent("codex", "openai/gpt-4o", 0.55),
    _Agent("terminus", "anthropic/claude-sonnet-4", 0.66, reports_cost=False),
)
_BASELINES = (_Agent("nop", "nop", 0.0), _Agent("oracle", "oracle", 1.0))

Event = dict[str, Any]


def simulate(seed: int, start: datetime) -> list[bytes]:
    """The events of both runs as they would come in, one JSON object (or a broken line) each.

    Args:
        seed: of everything random.
        start: when the first trial ended; a time with a zone.
    """
    random = Random(seed)
    trials = [*_tiered_trials(random), *_plain_trials(random)]
    random.shuffle(trials)
    for number, trial in enumerate(trials):
        _finish(trial, start + timedelta(seconds=SECONDS_BETWEEN_TRIALS * number))
    lines = [canonical_json(trial) for trial in trials]
    late = [*_corrections(random, trials), *random.sample(lines, 8), *BROKEN, _retraction(trials)]
    for line in late:
        lines.insert(random.randrange(len(lines) // 2, len(lines)), line)
    end = start + timedelta(seconds=SECONDS_BETWEEN_TRIALS * len(trials))
    return [*map(canonical_json, _plans(start)), *lines, *map(canonical_json, _ends(end))]


def _plans(start: datetime) -> Iterator[Event]:
    shared = {"type": "run_started", "benchmark": BENCHMARK, "started_at": start.isoformat()}
    labels = [contestant.label for contestant in _CONTESTANTS]
    yield shared | {
        "run_id": TIERED_RUN,
        "harness": "simulated-scylla",
        "display_name": "Demo: prompt tiers",
        "tasks": 5,
        "attempts": 2,
        "tiers": list(TIERS),
        "agent_models": labels,
    }
    yield shared | {
        "run_id": PLAIN_RUN,
        "harness": "simulated-terminal-bench",
        "display_name": "Demo: terminal tasks",
        "tasks": 10,
        "attempts": 2,
        "agent_models": [*labels, *(baseline.label for baseline in _BASELINES)],
        "labels": {"purpose": "demo"},
    }


def _ends(end: datetime) -> Iterator[Event]:
    for run_id in (TIERED_RUN, PLAIN_RUN):
        yield {
            "type": "run_finished",
            "run_id": run_id,
            "finished_at": end.isoformat(),
            "status": "completed",
        }


def _tiered_trials(random: Random) -> Iterator[Event]:
    """Tiers help, the later ones cost more, and the judge is stricter than the tests."""
    for contestant, (step, tier), task, attempt in product(
        _CONTESTANTS, enumerate(TIERS), range(1, 6), (1, 2)
    ):
        chance = min(0.97, contestant.skill * (0.75 + 0.08 * step))
        trial = _trial(random, contestant, TIERED_RUN, task, attempt, chance, effort=1 + 0.25 * step)
        judged = random.betavariate(8, 2) if trial["resolved"] else random.betavariate(3, 4)
        yield trial | {"tier": tier, "subtest": "01", "score": round(judged, 3)}


def _plain_trials(random: Random) -> Iterator[Event]:
    for contestant, task, attempt in product((*_CONTESTANTS, *_BASELINES), range(1, 11), (1, 2)):
        chance = contestant.skill if contestant in _BASELINES else contestant.skill * (1.25 - 0.07 * task)
        yield _trial(random, contestant, PLAIN_RUN, task, attempt, chance, effort=0.5 + 0.1 * task)


def _trial(
    random: Random, who: _Agent, run_id: str, task: int, attempt: int, chance: float, effort: float
) -> Event:
    resolved = random.random() < chance
    verdict = None if who not in _BASELINES and random.random() < 0.04 else resolved
    trial: Event = {
        "type": "trial_result",
        "run_id": run_id,
        "task_id": f"task-{task:02}",
        "attempt": attempt,
        "agent": who.agent,
        "model": who.model,
        "resolved": verdict,
        "failure_mode": "unset" if verdict is not None else "agent_timeout",
        "duration_seconds": round(random.lognormvariate(4, 0.6) * effort, 3),
    }
    if who in _BASELINES:
        return trial
    trial["input_tokens"] = int(random.lognormvariate(10.5, 0.5) * effort)
    trial["output_tokens"] = int(random.lognormvariate(8, 0.5) * effort)
    trial["trajectory_length"] = random.randrange(4, int(40 * effort) + 5)
    if who.reports_cost:
        trial["cost_usd"] = round(random.lognormvariate(-1.2, 0.5) * effort, 6)
    return trial


def _finish(trial: Event, at: datetime) -> None:
    """Say when it ended, and stamp its revision with that, as connectors do (R17)."""
    trial["started_at"] = (at - timedelta(seconds=trial["duration_seconds"])).isoformat()
    trial["finished_at"] = at.isoformat()
    trial["revision"] = _nanoseconds(at)


def _corrections(random: Random, trials: list[Event]) -> Iterator[bytes]:
    """Re-runs of some trials without a verdict or without success: the later result counts."""
    wanting = [trial for trial in trials if not trial["resolved"] and trial["agent"] != "nop"]
    for trial in random.sample(wanting, 11):
        again = datetime.fromisoformat(trial["finished_at"]) + timedelta(hours=5)
        corrected = trial | {"resolved": random.random() < 0.7, "failure_mode": "unset"}
        _finish(corrected, again)
        yield canonical_json(corrected)


def _retraction(trials: list[Event]) -> bytes:
    """One result is withdrawn: its task was broken."""
    trial = next(t for t in trials if t["run_id"] == PLAIN_RUN and t["agent"] == "codex" and t["resolved"])
    slot = {name: trial[name] for name in ("run_id", "task_id", "attempt", "agent", "model")}
    later = datetime.fromisoformat(trial["finished_at"]) + timedelta(hours=6)
    event = {"type": "trial_retracted", "revision": _nanoseconds(later), "reason": "the task was broken"}
    return canonical_json(slot | event)


def _nanoseconds(at: datetime) -> int:
    return round((at - datetime.fromtimestamp(0, UTC)) / timedelta(microseconds=1)) * 1000
