"""One trial, or one group of sub-trials, to scored trials: the specification's per-run metrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Literal, NamedTuple

from schemas.events import SnapshotCounts, TestCounts
from schemas.plain import AnyTrial, PlainTrial
from streamer.score.formulacode.score import FormulaCodeScore, formulacode_score
from streamer.score.prices import PriceTable
from streamer.score.profiles import GradingProfile

CostSource = Literal["reported", "estimated"]
_REPORTED: CostSource | None = "reported"


class Scored(NamedTuple):
    """The numbers of one trial. None means unknown, never 0 (R1).

    Attributes:
        resolved: the harness's verdict; None: no verdict (R19).
        success: from tests and snapshot where there are any, else `resolved is True` (R20).
        pass_rate: 1.0 or 0.0, from `success`.
        impl_rate: the judge's weighted score in [0, 1]; None while the judge is awaited (R13).
        composite: weighted mean of both rates; None while the judge is awaited (R13).
        cost_usd: US dollars.
        cost_source: whether the harness reported the cost or it is tokens x price (R2).
        formulacode: speedups, advantages and failure flags; None where the trial carries none of them.
        cost_of_pass: cost_usd / pass_rate: US dollars, Infinity where the trial failed (R14).
        duration_seconds: as reported, else from start to end; a negative difference is missing.
    """

    resolved: bool | None
    success: bool
    pass_rate: float
    impl_rate: float | None
    composite: float | None
    cost_usd: float | None
    cost_source: CostSource | None
    cost_of_pass: float | None
    duration_seconds: float | None
    input_tokens: int | None
    output_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    trajectory_length: int | None
    failure_mode: str | None
    formulacode: FormulaCodeScore | None = None


Measured = tuple[
    str,
    str | None,
    bool | None,
    float | None,
    float | None,
    CostSource | None,
    float | None,
    int | None,
    int | None,
    int | None,
    int | None,
    int | None,
    str | None,
]
"""What the score of a trial without sections follows from: :data:`MEASURED`."""

MEASURED = (
    "task_id",
    "subtest",
    "resolved",
    "score",
    "cost_usd",
    "cost_source",
    "duration_seconds",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "trajectory_length",
    "failure_mode",
)
"""Names of its parts: the event's, but that cost and duration are those of :class:`Scored`.

A tuple of a class of its own would take twice as long to make."""


def measured(task_id: str, event: AnyTrial, prices: PriceTable) -> Measured:
    """What the event says of a trial; no profile enters it, so it can be scored later, with others.

    Args:
        task_id: the event's; where many are counted, equal ones had better be the same object.
    """
    cost, source, duration = event.cost_usd, _REPORTED, event.duration_seconds
    if cost is None:
        cost, source = _estimated(event, prices)
    return (
        task_id,
        event.subtest,
        event.resolved,
        event.score,
        cost,
        source,
        _elapsed(event) if duration is None else duration,
        event.input_tokens,
        event.output_tokens,
        event.cache_read_tokens,
        event.cache_write_tokens,
        event.trajectory_length,
        event.failure_mode,
    )


def score_measured(row: Measured, profile: GradingProfile) -> Scored:
    """Score a trial of its own without sections."""
    return _scored(row, row[2] is True, None, profile)  # (R20)


def score_trial(event: AnyTrial, profile: GradingProfile, prices: PriceTable) -> Scored:
    """Score a trial of its own (R10): its tests and snapshot are judged absolutely."""
    if isinstance(event, PlainTrial):
        return score_measured(measured(event.task_id, event, prices), profile)
    return _score(event, None, profile, prices)


def score_trial_group(
    events: Sequence[AnyTrial],
    profile: GradingProfile,
    prices: PriceTable,
    is_baseline: Callable[[str], bool],
) -> list[Scored]:
    """Score the sub-trials of one trial (R10), in the order given; the order changes no score.

    Test failures are judged relative to the oracle's, if the group has one (D8, D11, R9). The oracle is
    known by its name alone: `is_baseline` decides nothing here, and is taken as in the functions below.
    """
    allowed = _oracle_failures(events)
    return [_score(event, allowed, profile, prices) for event in events]


def group_resolved(events: Sequence[AnyTrial], is_baseline: Callable[[str], bool]) -> bool | None:
    """Verdict of a multi-agent trial: that of the deciding sub-trial; None: no verdict, or no sub-trials."""
    decider = deciding_sub_trial(events, is_baseline)
    return None if decider is None else decider.resolved


def deciding_sub_trial(events: Sequence[AnyTrial], is_baseline: Callable[[str], bool]) -> AnyTrial | None:
    """The sub-trial that stands for the whole trial (R10, D2), whatever the order; None: there is none.

    It is the one with the highest agent index that is no baseline or, where all are baselines, the
    highest of them.
    """
    return max(events, key=lambda e: (not is_baseline(e.agent), *_position(e)), default=None)


def _score(
    event: AnyTrial, allowed_failures: int | None, profile: GradingProfile, prices: PriceTable
) -> Scored:
    if event.tests is None and event.snapshot is None:
        pytest_failed = snapshot_failed = False
        success = event.resolved is True  # (R20): with no section at all the harness's verdict decides
    else:  # an absent section does not apply
        pytest_failed = event.tests is not None and _tests_failed(event.tests, allowed_failures)
        snapshot_failed = event.snapshot is not None and _snapshot_failed(event.snapshot)
        success = not (pytest_failed or snapshot_failed)
    formulacode = (
        None if isinstance(event, PlainTrial) else formulacode_score(event, pytest_failed, snapshot_failed)
    )
    return _scored(measured(event.task_id, event, prices), success, formulacode, profile)


def _scored(
    row: Measured, success: bool, formulacode: FormulaCodeScore | None, profile: GradingProfile
) -> Scored:
    _, _, resolved, score, cost, source, duration, fresh, output, read, written, steps, failure_mode = row
    pass_rate = 1.0 if success else 0.0
    # the judge's score within [0, 1] (R13, S2)
    impl_rate = None if score is None else 0.0 if score <= 0 else 1.0 if score >= 1 else score
    return tuple.__new__(  # which `Scored` itself does, with 16 arguments by name
        Scored,
        (
            resolved,
            success,
            pass_rate,
            impl_rate,
            None if impl_rate is None else profile.composite(pass_rate, impl_rate),
            cost,
            source,
            cost if success or cost is None else inf,  # cost / pass_rate (R14)
            duration,
            fresh,
            output,
            read,
            written,
            steps,
            failure_mode,
            formulacode,
        ),
    )


def _tests_failed(tests: TestCounts, allowed_failures: int | None) -> bool:
    """`allowed_failures` is the oracle's count (equal is fine, D8); None: there is no oracle."""
    if tests.status in ("missing", "unparsable"):
        return True  # (R5), in a group too (differs from D9)
    if tests.failed is None and tests.error is None:
        return tests.status == "failed"
    if allowed_failures is None:
        return tests.status == "failed" or _failures(tests) > 0  # (B7)
    return _failures(tests) > allowed_failures


def _snapshot_failed(snapshot: SnapshotCounts) -> bool:
    """Absolute, never relative to the oracle's snapshot (D10)."""
    return snapshot.status != "passed" or (snapshot.pass_to_fail or 0.0) > 0


def _failures(tests: TestCounts) -> int:
    return (tests.failed or 0) + (tests.error or 0)


def _oracle_failures(events: Sequence[AnyTrial]) -> int | None:
    """Failed and errored tests of the group's oracle (D8): 0 without counts; None: there is no oracle."""
    oracle = min((e for e in events if e.agent.startswith("oracle")), key=_position, default=None)
    if oracle is None:
        return None
    return 0 if oracle.tests is None else _failures(oracle.tests)


def _position(event: AnyTrial) -> tuple[int, str, str]:
    """Place in the trial; names break the tie of a mistaken equal index, so that order never matters."""
    return event.agent_index or 0, event.agent, event.model


def _estimated(event: AnyTrial, prices: PriceTable) -> tuple[float | None, CostSource | None]:
    """Tokens x price, else unknown, where no cost is reported (R2); a reported 0.0 is a value (R1)."""
    estimate = prices.cost(
        event.model,
        event.input_tokens,
        event.output_tokens,
        event.cache_read_tokens,
        event.cache_write_tokens,
    )
    return (None, None) if estimate is None else (estimate, "estimated")


def _elapsed(event: AnyTrial) -> float | None:
    """Seconds from start to end; None where one is missing or the end comes first."""
    if event.started_at is None or event.finished_at is None:
        return None
    seconds = (event.finished_at - event.started_at).total_seconds()
    return seconds if seconds >= 0 else None
