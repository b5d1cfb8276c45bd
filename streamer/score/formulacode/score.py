"""FormulaCode's score of one trial: failure flags, fallback to baseline, metrics (R3, R4, R21, R22)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from streamer.schemas.formulacode import ADVANTAGES
from streamer.schemas.limits import MAX_BENCHMARKS_PER_TRIAL
from streamer.schemas.plain import AnyTrial
from streamer.score.formulacode.reverted import Entries, known_benchmarks
from streamer.score.formulacode.task_metrics import task_metrics


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
    benchmarks = event.benchmarks
    claims = _claims(event.claimed) if not benchmarks else None
    percentage = event.speedup_percentage
    if benchmarks is None:
        return FormulaCodeScore(
            pytest_failed,
            snapshot_failed,
            False,
            None,
            claims,
            claims is not None,
            *_claimed_counts(event.claimed),
            percentage,
        )
    metrics = task_metrics(benchmarks, fallback=False)
    measured = metrics.advantages and (metrics.advantages[-1], *metrics.advantages)
    counts = (metrics.num_benchmarks, metrics.num_valid_benchmarks)
    return FormulaCodeScore(
        pytest_failed,
        snapshot_failed,
        False,
        metrics.task_speedup,
        claims or measured,
        claims is not None,
        *(_claimed_counts(event.claimed) if claims else counts),
        _percentage(metrics.task_speedup) if benchmarks or percentage is None else percentage,
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
    if not known:
        percentage = 0.0 if percentage is None else percentage
        return FormulaCodeScore(pytest_failed, snapshot_failed, False, 1.0, None, False, 0, 0, percentage)
    metrics = task_metrics(known, fallback=True)
    return FormulaCodeScore(
        pytest_failed,
        snapshot_failed,
        True,
        metrics.task_speedup,
        metrics.advantages and (metrics.advantages[-1], *metrics.advantages),
        False,
        metrics.num_benchmarks,
        metrics.num_valid_benchmarks,
        _percentage(metrics.task_speedup),
    )


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
