"""What the publisher sends: runs of several kinds at once, with everything that real harnesses do to them.

And a ledger of what must come out, in a few lines that know nothing of streamer's state.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from streamer.storage.kafka import partition_of

AGENTS = (("claude-code", "claude-opus-4-5"), ("codex", "gpt-5"), ("terminus", "gemini-2.5-pro"))
BASELINES = (("nop", "nop"), ("oracle", "oracle"))
TIERS = ("T0", "T1", "T2", "T3")
TASKS = 60
PROBE = ("probe", "probe")
FORMULACODE = {"status": "ok", "passed": 3, "failed": 0, "error": 0, "skipped": 0, "total": 3}
MISPLACED_SHARE = 0.01

Event = dict[str, Any]
SlotName = tuple[Any, ...]


class Message(NamedTuple):
    """One record to publish: where, with what key, and whether it must be rejected."""

    partition: int
    key: bytes
    value: bytes
    poison: bool = False


@dataclass(slots=True)
class Ledger:
    """Slots of one run: what came, and what was withdrawn. Revisions are unique, so the greatest stands."""

    results: dict[SlotName, tuple[int, bool | None]] = field(default_factory=dict)
    floors: dict[SlotName, int] = field(default_factory=dict)
    deleted_to: int = -1

    def note(self, event: Event) -> None:
        """Take an event in."""
        revision, slot = int(event.get("revision", 0)), slot_of(event)
        if event["type"] == "run_deleted":
            self.deleted_to = max(self.deleted_to, revision)
        elif event["type"] == "trial_retracted":
            self.floors[slot] = max(self.floors.get(slot, -1), revision)
        elif event["type"] == "trial_result" and revision >= self.results.get(slot, (-1, None))[0]:
            self.results[slot] = revision, event["resolved"]

    def current(self) -> list[bool | None]:
        """Verdicts of the results that count."""
        return [
            resolved
            for slot, (revision, resolved) in self.results.items()
            if revision > max(self.floors.get(slot, -1), self.deleted_to)
        ]


def slot_of(event: Event) -> SlotName:
    """The place that a result fills."""
    names = ("task_id", "agent", "model", "tier", "subtest")
    return (event.get("attempt", 1), *(event.get(name) for name in names))


class Traffic:
    """Invents events, seeded; remembers what must come out of them.

    Attributes:
        ledgers: by run.
        history: values sent, for duplicates.
    """

    def __init__(self, seed: int, partitions: int) -> None:
        self._random = random.Random(seed)
        self._partitions = partitions
        self._revision = 0
        self._probes = 0
        self.ledgers: dict[str, Ledger] = {}
        self.history: list[tuple[str, bytes]] = []
        self.runs = [f"tiered {n}" for n in range(3)] + [f"plain/{n}" for n in range(3)]
        self.runs += ["groups|1", "groups:2", "doomed"]
        self._planned: set[str] = set()

    def events(self, count: int) -> list[Message]:
        """So many further events, some of them copies of earlier ones or in the wrong partition."""
        return [message for _ in range(count) for message in self._next()]

    def probes(self) -> dict[str, Message]:
        """One result per run that fills a slot of its own; every one must show."""
        self._probes += 1
        return {run: self.of(self._probe(run), stray=False) for run in self.runs}

    def of(self, event: Event, *, stray: bool = True) -> Message:
        """Publish this event; it is noted in the ledger."""
        run = event["run_id"]
        self.ledgers.setdefault(run, Ledger()).note(event)
        value = orjson.dumps(event)
        self.history.append((run, value))
        return self.message(run, value, stray=stray)

    def once(self, event: Event) -> Message:
        """Publish this event, and never a copy of it."""
        self.ledgers.setdefault(event["run_id"], Ledger()).note(event)
        return self.message(event["run_id"], orjson.dumps(event), stray=False)

    def poison(self, run: str, task: str) -> Event:
        """A result like a probe, of a task that poisoned workers cannot compute."""
        return self._probe(run) | {"task_id": task}

    def deletion(self, run: str) -> Event:
        """Everything of the run so far is deleted."""
        return {"type": "run_deleted", "run_id": run, "revision": self._next_revision()}

    def message(self, run: str, value: bytes, *, stray: bool = True) -> Message:
        """A value in the partition of its run; one in a hundred with a wrong key in another, if it may."""
        partition = partition_of(run, self._partitions)
        if stray and self._random.random() < MISPLACED_SHARE:
            return Message((partition + 1) % self._partitions, b"wrong key", value)
        return Message(partition, run.encode(), value)

    def copies(self, count: int) -> list[Message]:
        """Earlier events again, in disorder."""
        chosen = self._random.choices(self.history, k=count) if self.history else []
        return [self.message(run, value) for run, value in chosen]

    def _next(self) -> Iterator[Message]:
        run, random = self._random.choice(self.runs), self._random
        dice = random.random()
        if run not in self._planned and dice < 0.03:  # plans come late
            self._planned.add(run)
            yield self.of(self._plan(run))
        elif dice < 0.10:
            yield from self.copies(1)
        elif dice < 0.12:
            yield self.of(self._retraction(run))
        elif run == "doomed" and dice < 0.14:
            yield self.of(self.deletion(run))
        elif run.startswith("groups"):
            yield from (self.of(event) for event in self._sub_trials(run))
        else:
            yield self.of(self._result(run))

    def _next_revision(self) -> int:
        self._revision += 1
        return self._revision

    def _plan(self, run: str) -> Event:
        event: Event = {
            "type": "run_started",
            "run_id": run,
            "revision": self._next_revision(),
            "tasks": TASKS,
            "attempts": 2,
            "benchmark": f"bench {run[:3]}",
            "agent_models": [f"{agent}:{model}" for agent, model in AGENTS],
        }
        return event | ({"tiers": list(TIERS)} if run.startswith("tiered") else {})

    def _result(self, run: str) -> Event:
        random = self._random
        agent, model = random.choice(AGENTS if random.random() < 0.9 else BASELINES)
        resolved = None if random.random() < 0.04 else random.random() < 0.6
        event: Event = self._slot(run, agent, model) | {
            "type": "trial_result",
            "revision": self._next_revision(),
            "resolved": resolved,
            "failure_mode": "unset" if resolved is not None else "agent_timeout",
            "duration_seconds": round(random.lognormvariate(4, 0.6), 3),
            "trial_name": f"trial-{self._revision}",
            "finished_at": f"2026-01-{1 + self._revision % 28:02}T10:{self._revision % 60:02}:00Z",
        }
        if agent not in ("nop", "oracle"):
            event |= {
                "input_tokens": random.randrange(10**6),
                "output_tokens": random.randrange(10**5),
                "cost_usd": round(random.random(), 6),
                "score": round(random.random(), 3),
            }
        return event

    def _slot(self, run: str, agent: str, model: str) -> Event:
        random = self._random
        slot: Event = {
            "run_id": run,
            "task_id": f"task-{random.randrange(TASKS):02}",
            "attempt": random.randint(1, 2),
            "agent": agent,
            "model": model,
        }
        if run.startswith("tiered"):
            slot |= {"tier": random.choice(TIERS), "subtest": f"{random.randint(1, 2):02}"}
        return slot

    def _retraction(self, run: str) -> Event:
        agent, model = self._random.choice(AGENTS)
        slot = self._slot(run, agent, model)
        return slot | {"type": "trial_retracted", "revision": self._next_revision()}

    def _sub_trials(self, run: str) -> Iterator[Event]:
        """One or more sub-trials of a multi-agent trial; the oracle may come late, or correct itself."""
        random, task = self._random, f"task-{self._random.randrange(TASKS):02}"
        contestants = [*BASELINES, *AGENTS]
        for agent, model in random.sample(contestants, random.randint(1, 3)):
            failed = random.randrange(2)
            yield {
                "type": "trial_result",
                "run_id": run,
                "task_id": task,
                "agent": agent,
                "model": model,
                "agent_index": contestants.index((agent, model)) + 1,
                "revision": self._next_revision(),
                "resolved": random.random() < 0.5,
                "tests": FORMULACODE | {"status": "failed" if failed else "ok", "failed": failed},
                "snapshot": {"status": "passed", "passed": 1, "failed": 0, "skipped": 0, "total": 1},
                "benchmarks": {
                    f"b{n}": {"agent/nop": round(0.5 + random.random(), 4), "oracle/nop": 1.5}
                    for n in range(random.randint(1, 4))
                },
            }

    def _probe(self, run: str) -> Event:
        agent, model = PROBE
        return {
            "type": "trial_result",
            "run_id": run,
            "task_id": f"probe-{self._probes}",
            "agent": agent,
            "model": model,
            "revision": self._next_revision(),
            "resolved": True,
        }
