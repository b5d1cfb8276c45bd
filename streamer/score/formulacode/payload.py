"""The per-agent task payload of the specification, as a scored trial carries it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamer.schemas.canonical import canonical_json
from streamer.schemas.formulacode import ADVANTAGES
from streamer.schemas.plain import AnyTrial
from streamer.score.formulacode.score import FormulaCodeScore
from streamer.score.formulacode.speedups import Speedup, known_benchmarks, speedups, with_own

MAX_PAYLOAD_BYTES = 240 * 1024
"""So that a scored trial with all its names stays within 256 KiB."""

KEPT_AT_EACH_END = (100, 50, 25, 10, 3, 1, 0)
"""Beyond the size limit the hundred slowest and fastest benchmarks are kept, and a count of the rest;
fewer where names of thousands of characters make even those too large."""


def task_payload(
    event: AnyTrial,
    group: Sequence[AnyTrial],
    score: FormulaCodeScore,
    *,
    success: bool,
    cost_usd: float | None,
    trajectory_length: int | None,
) -> dict[str, Any]:
    """Payload of one agent on one task; `per_benchmark_speedups` is null where not measured (R21).

    Args:
        group: all sub-trials of the trial, this one too; needed only for a fallback.
    """
    advantages = score.advantages or (None,) * len(ADVANTAGES)
    payload: dict[str, Any] = {
        "per_benchmark_speedups": None,
        "benchmarks_left_out": 0,
        "pytest_summary": _pytest_summary(event),
        "snapshot_summary": None if event.snapshot is None else event.snapshot.model_dump(mode="json"),
        "pytest_failed": score.pytest_failed,
        "snapshot_failed": score.snapshot_failed,
        "success": success,
        "fallback_to_baseline": score.fallback,
        "claimed": score.claimed,
        "num_benchmarks": score.num_benchmarks,
        "num_valid_benchmarks": score.num_valid_benchmarks,
        "task_speedup": score.task_speedup,
        "task_cost_usd": cost_usd,
        "trajectory_length": trajectory_length,
    } | dict(zip(ADVANTAGES, advantages, strict=True))
    benchmarks = with_own(event, known_benchmarks(group)) if score.fallback else event.benchmarks
    if benchmarks is not None:
        effective = speedups(benchmarks, fallback=score.fallback)
        payload["per_benchmark_speedups"] = _details(effective, score.fallback)
        for ends in KEPT_AT_EACH_END:
            if len(canonical_json(payload)) <= MAX_PAYLOAD_BYTES:
                break
            kept = _extremes(effective, ends)
            payload["per_benchmark_speedups"] = _details(kept, score.fallback)
            payload["benchmarks_left_out"] = len(effective) - len(kept)
    return payload


def _details(effective: list[Speedup], fallback: bool) -> dict[str, dict[str, Any]]:
    mark = {"fallback_to_baseline": True} if fallback else {}
    return {
        speedup.name: {
            "agent/nop": speedup.agent,
            "oracle/nop": speedup.oracle,
            "advantage": speedup.advantage,
        }
        | mark
        for speedup in effective
    }


def _extremes(effective: list[Speedup], ends: int) -> list[Speedup]:
    """The slowest and the fastest benchmarks of the agent, ties by name; invalid ones count as slowest."""
    ordered = sorted(effective, key=lambda speedup: (speedup.agent or 0.0, speedup.name))
    return ordered if len(ordered) <= 2 * ends else ordered[:ends] + ordered[len(ordered) - ends :]


def _pytest_summary(event: AnyTrial) -> dict[str, Any] | None:
    if event.tests is None:
        return None
    counts = event.tests.model_dump(mode="json")
    return counts | {"failed_total": (event.tests.failed or 0) + (event.tests.error or 0)}
