"""FormulaCode's score of one trial: failure flags, fallback to baseline, metrics (R3, R4, R21, R22)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from streamer.schemas.formulacode import ADVANTAGES
from streamer.schemas.limits import MAX_BENCHMARKS_PER_TRIAL
from streamer.schemas.plain import AnyTrial
from streamer.score.formulacode.speedups import Entries, known_benchmarks
from streamer.score.formulacode.task_metrics import TaskMetrics, task_metrics


@dataclass(frozen=True, slots=True)
class FormulaCodeScore:
    """What FormulaCode says of one agent on one task.

    Attributes:
        pytest_failed: the test suite failed, relative to the oracle's where there is one (D8, R5).
        snapshot_failed: the snapshot comparison failed (D10).
        fallback: the agent failed and counts with the known benchmarks, each at 1.0 (R21). False without
            known benchmarks, though its speedup is 1.0 all the same (C3).
        task_speedup: None if not measured (R21).
        advantages: in the order of :data:`ADVANTAGES`; None if unknown (R21, R22), also one by one where
            a log claims only some.
        claimed: True if the advantages are those that a log states without speedups (R3).
        num_benchmarks: 0 if not measured.
        num_valid_benchmarks: 0 if not measured.
        speedup_percentage: (task_speedup - 1) x 100, None where that is beyond the range of floats;
            without benchmarks as the old result format gives it.
    """

    pytest_failed: bool
    snapshot_failed: bool
    fallback: bool
    task_speedup: float | None
    advantages: tuple[float | None, ...] | None
    claimed: bool
    num_benchmarks: int
    num_valid_benchmarks: int
    speedup_percentage: float | None


def formulacode_score(
    event: AnyTrial, *, pytest_failed: bool, snapshot_failed: bool, reverted_to: Entries | None
) -> FormulaCodeScore:
    """Score a trial of which it, or another sub-trial of its group, carries any of FormulaCode's sections.

    Args:
        pytest_failed: see :class:`FormulaCodeScore`.
        snapshot_failed: likewise.
        reverted_to: the benchmarks that a failed agent counts with, each unchanged; None: it did not fail.
    """
    if reverted_to is not None:
        return _reverted(reverted_to, pytest_failed, snapshot_failed, event.speedup_percentage)
    benchmarks, percentage = event.benchmarks, event.speedup_percentage
    claims = None if benchmarks else _claims(event.claimed)
    metrics = None if benchmarks is None else task_metrics(benchmarks, fallback=False)
    if metrics is not None and claims is None:
        counts = metrics.num_benchmarks, metrics.num_valid_benchmarks
    else:
        counts = _claimed_counts(event.claimed)
    if metrics is not None and (benchmarks or percentage is None):
        percentage = _percentage(metrics.task_speedup)
    return FormulaCodeScore(
        pytest_failed=pytest_failed,
        snapshot_failed=snapshot_failed,
        fallback=False,
        task_speedup=None if metrics is None else metrics.task_speedup,
        advantages=claims or (None if metrics is None else _measured(metrics)),
        claimed=claims is not None,
        num_benchmarks=counts[0],
        num_valid_benchmarks=counts[1],
        speedup_percentage=percentage,
    )


def missing_score(group: Sequence[AnyTrial]) -> FormulaCodeScore:
    """Score of a planned agent that has no sub-trial in a trial: it changed nothing (R21)."""
    return _reverted(known_benchmarks(group), False, False, None)


def _reverted(
    known: Mapping[str, JsonValue], pytest_failed: bool, snapshot_failed: bool, percentage: float | None
) -> FormulaCodeScore:
    """Score of an agent that failed: 1.0 for each known benchmark; without any, unknown advantages (R21).

    Args:
        percentage: what the old result format says; it stands where no benchmark is known (F8).
    """
    metrics = task_metrics(known, fallback=True)
    is_old = not known and percentage is not None
    return FormulaCodeScore(
        pytest_failed=pytest_failed,
        snapshot_failed=snapshot_failed,
        fallback=bool(known),
        task_speedup=metrics.task_speedup,
        advantages=_measured(metrics),
        claimed=False,
        num_benchmarks=metrics.num_benchmarks,
        num_valid_benchmarks=metrics.num_valid_benchmarks,
        speedup_percentage=percentage if is_old else _percentage(metrics.task_speedup),
    )


def _measured(metrics: TaskMetrics) -> tuple[float, ...] | None:
    """The advantages in the order of :data:`ADVANTAGES`: the overall one is level 4, and comes first."""
    return metrics.advantages and (metrics.advantages[-1], *metrics.advantages)


def is_formulacode(event: AnyTrial) -> bool:
    """True if the event carries any of FormulaCode's sections."""
    return not (
        event.benchmarks is None
        and event.tests is None
        and event.snapshot is None
        and event.claimed is None
        and event.speedup_percentage is None
    )


def _percentage(task_speedup: float) -> float | None:
    percentage = (task_speedup - 1.0) * 100.0
    return percentage if math.isfinite(percentage) else None


def _claims(claimed: Mapping[str, JsonValue] | None) -> tuple[float | None, ...] | None:
    """The advantages that a log claims, None where it claims none; None if it claims no advantage at all."""
    values = tuple(_number((claimed or {}).get(name)) for name in ADVANTAGES)
    return values if any(value is not None for value in values) else None


def _claimed_counts(claimed: Mapping[str, JsonValue] | None) -> tuple[int, int]:
    """Claimed numbers of benchmarks and of valid ones; 0 where there is no claim, or no possible one."""
    counts = claimed or {}
    total, valid = _number(counts.get("total_benchmarks")), _number(counts.get("num_valid_benchmarks"))
    return _possible(total), _possible(valid)


def _possible(count: float | None) -> int:
    """A claimed count within what a trial can have, else 0."""
    return int(count) if count is not None and 0 <= count <= MAX_BENCHMARKS_PER_TRIAL else 0


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)
