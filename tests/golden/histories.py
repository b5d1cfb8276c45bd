"""Seeded random histories of runs: everything that may happen to a run, in any order.

The golden digests are digests of these histories, so this module must not change what it gives.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

HISTORIES = 50
EVENTS = 120

Event = dict[str, Any]

_WHO = (("nop", "nop"), ("oracle", "Oracle"), ("terminus", "openai/gpt-5"), ("open:hands", "@openai/gpt-5"))
_TIERS = (None, None, "T0", "T1", "T2")
_EXTREMES = (0.0, 5e-324, 1e-320, 0.1, 0.25, 3.3, 7.0, 1e15, 1e300, 1.7e308)
_COUNTS = (0, 1, 17, 4_096, 10**9, 2**53)
_RATIOS = (0.3, 1.0, 1.2, 1.5, 2.0, 1e-300, 1e300, 0.0, -1.0, None, "fast", True)
_MODES = (None, "unset", "agent_timeout", "test_timeout", "unknown_agent_error", "infrastructure_error")


def history(seed: int) -> list[Event]:
    """The events of one history: one run, some of them late, twice, corrected or withdrawn."""
    rng = random.Random(seed)
    tiered, grouped = rng.random() < 0.5, rng.random() < 0.5
    kinds: list[tuple[float, Callable[[], Event]]] = [
        (0.80, lambda: _trial(rng, tiered, grouped)),
        (0.08, lambda: _retraction(rng, tiered)),
        (0.06, lambda: _plan(rng, tiered)),
        (0.03, lambda: _finish(rng)),
        (0.01, lambda: {"type": "run_deleted", "revision": rng.randrange(0, 2)}),
    ]
    events: list[Event] = []
    while len(events) < EVENTS:
        dice = rng.random()
        for share, make in kinds:
            dice -= share
            if dice < 0:
                events.append(make())
                break
        else:
            events.append(rng.choice(events) if events else _trial(rng, tiered, grouped))
    return [{"run_id": f"history-{seed}"} | event for event in events]


def _slot(rng: random.Random, tiered: bool) -> Event:
    agent, model = rng.choice(_WHO)
    return {
        "task_id": f"task-{rng.randrange(6)}",
        "attempt": rng.randrange(1, 4),
        "agent": agent,
        "model": model,
        "tier": rng.choice(_TIERS) if tiered else None,
        "subtest": rng.choice((None, "01", "02")) if tiered else None,
        "shard": rng.choice(("", "", "", "shard|1")),
    }


def _trial(rng: random.Random, tiered: bool, grouped: bool) -> Event:
    slot = _slot(rng, tiered)
    places = [agent for agent, _ in _WHO]
    return slot | {
        "type": "trial_result",
        "agent_index": places.index(slot["agent"]) + 1 if grouped and rng.random() < 0.8 else None,
        "revision": rng.choice((0, 0, 0, 1, 2, 3)),
        "harness": rng.choice((None, "fc-eval", "terminal-bench")),
        "resolved": rng.choice((True, True, False, None)),
        "failure_mode": rng.choice(_MODES),
        "score": _maybe(rng, lambda: rng.choice((-0.5, 0.0, 0.35, 0.7, 0.85, 1.0, 1.3))),
        "cost_usd": _maybe(rng, lambda: rng.choice(_EXTREMES)),
        "duration_seconds": _maybe(rng, lambda: rng.choice(_EXTREMES)),
        "input_tokens": _maybe(rng, lambda: rng.choice(_COUNTS)),
        "output_tokens": _maybe(rng, lambda: rng.choice(_COUNTS)),
        "cache_read_tokens": _maybe(rng, lambda: rng.choice(_COUNTS)),
        "cache_write_tokens": _maybe(rng, lambda: rng.choice(_COUNTS)),
        "trajectory_length": _maybe(rng, lambda: rng.choice(_COUNTS)),
        "started_at": _maybe(rng, lambda: f"2026-01-{rng.randrange(1, 28):02}T00:00:00Z"),
        "finished_at": _maybe(rng, lambda: f"2026-02-{rng.randrange(1, 28):02}T01:00:00+01:00"),
        "tests": _maybe(rng, lambda: _tests(rng)),
        "snapshot": _maybe(rng, lambda: {"status": rng.choice(("passed", "passed", "failed", "missing"))}),
        "benchmarks": _maybe(rng, lambda: _benchmarks(rng)),
        "claimed": rng.choice((None, None, None, {"agent_advantage": 0.25, "total_benchmarks": 3})),
        "speedup_percentage": rng.choice((None, None, None, -12.5, 40.0)),
    }


def _tests(rng: random.Random) -> Event:
    failed, error = rng.choice((0, 0, 1, 3)), rng.choice((0, 0, 0, 1))
    status = rng.choice(("ok", "missing", "unparsable")) if not failed + error else "failed"
    return {"status": status, "passed": 40, "failed": failed, "error": error, "skipped": 0, "total": 44}


def _benchmarks(rng: random.Random) -> Event:
    names = ("m.C.f(1)", "m.C.f(2)", "m.D.g", "n.h", "x")
    return {
        name: rng.choice((None, 5, {"agent/nop": rng.choice(_RATIOS), "oracle/nop": rng.choice(_RATIOS)}))
        if rng.random() < 0.3
        else {"agent/nop": rng.choice(_RATIOS[:5]), "oracle/nop": rng.choice(_RATIOS[:5])}
        for name in names[: rng.randrange(0, len(names) + 1)]
    }


def _retraction(rng: random.Random, tiered: bool) -> Event:
    return _slot(rng, tiered) | {"type": "trial_retracted", "revision": rng.randrange(0, 3)}


def _plan(rng: random.Random, tiered: bool) -> Event:
    return {
        "type": "run_started",
        "revision": rng.randrange(0, 4),
        "tasks": rng.choice((None, 6, [f"task-{number}" for number in range(6)])),
        "attempts": rng.choice((None, 3)),
        "agent_models": rng.choice(
            (None, ["nop:nop", "oracle:oracle", "terminus:openai/gpt-5", "late:gpt-5"])
        ),
        "tiers": rng.choice((None, ["T0", "T1", "T2"])) if tiered else None,
        "baseline_tier": rng.choice((None, "T1")) if tiered else None,
        "baselines": rng.choice((None, None, ["terminus"])),
        "judged": rng.choice((None, None, True, False)),
        "infrastructure_failures": rng.choice((None, None, ["agent_timeout"])),
        "grading_profile": rng.choice((None, None, "specified", "scylla-2026", "specified@0.7:0.3")),
        "labels": rng.choice((None, {"night": "1"}, {"night": "2", "team": "blue"})),
        "display_name": rng.choice((None, "A run")),
    }


def _finish(rng: random.Random) -> Event:
    return {"type": "run_finished", "revision": rng.randrange(0, 2), "status": rng.choice((None, "done"))}


def _maybe(rng: random.Random, make: Callable[[], Any]) -> Any:
    return make() if rng.random() < 0.6 else None
