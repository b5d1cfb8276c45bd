"""One trial, or one group of sub-trials, to scored trials: the specification's per-run metrics."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from streamer.schemas.events import Measurements
from streamer.schemas.formulacode import SnapshotCounts, TestCounts
from streamer.schemas.plain import AnyTrial, PlainTrial
from streamer.schemas.scored_trial import TrialScore
from streamer.schemas.summary_fields import CostSource, VerdictSource
from streamer.score.formulacode.score import FormulaCodeScore, formulacode_score, is_formulacode
from streamer.score.formulacode.speedups import Entries, known_benchmarks, with_own
from streamer.score.infrastructure import is_infrastructure_failure
from streamer.score.scoring_rules import NOP, ORACLE, ScoringRules

NO_FAILURE = frozenset({None, "", "unset", "none"})
"""Failure modes of a trial that did not fail to end (G6)."""


MEASURED = tuple(Measurements.model_fields)
"""Names of what is taken over from the event as it is."""

if TYPE_CHECKING:

    class Scored(TrialScore):
        """The score of one trial: a `TrialScore`, and what is not published with it.

        Attributes:
            cache_read_tokens: as the event has it.
            cache_write_tokens: likewise.
            awaited: the success is not final: a verdict is missing, or the planned oracle's result.
            formulacode: speedups, advantages and failure flags; None where neither the trial nor its group
                carries any of FormulaCode's sections.
        """

        cost_of_pass: float | None  # Infinity where the trial failed
        cache_read_tokens: int | None
        cache_write_tokens: int | None
        awaited: bool
        formulacode: FormulaCodeScore | None

else:
    _names = [*TrialScore.model_fields, "cache_read_tokens", "cache_write_tokens", "awaited", "formulacode"]
    Scored = msgspec.defstruct("Scored", _names, module=__name__, frozen=True, gc=False, kw_only=True)


def fields_of(scored: Scored) -> dict[str, Any]:
    """The fields of a score by name."""
    struct: Any = scored
    return msgspec.structs.asdict(struct)


def score_trial(event: AnyTrial, rules: ScoringRules) -> Scored:
    """Score a trial of its own (R10): its tests and snapshot are judged absolutely."""
    if isinstance(event, PlainTrial):  # which has no section
        success = _success(event, pytest_failed=False, snapshot_failed=False)
        return _scored(event, success, None, rules, awaited=event.resolved is None)
    return _score(event, _Group([event], None), rules)


def score_trial_group(events: Sequence[AnyTrial], rules: ScoringRules) -> list[Scored]:
    """Score the sub-trials of one trial (R10), in the order given; the order changes no score.

    Test failures are judged relative to the oracle's, if the group has one (D8, D11, R9). A failed agent
    counts with the benchmarks that any sub-trial of the group knows (R21).
    """
    group = _Group(events, _oracle_failures(events))
    return [_score(event, group, rules) for event in events]


def deciding_sub_trial(events: Sequence[AnyTrial], is_baseline: Callable[[str], bool]) -> AnyTrial | None:
    """The sub-trial that stands for the whole trial (R10, D2), whatever the order; None: there is none.

    It is the one with the highest agent index that is no baseline or, where all are baselines, the
    highest of them.
    """
    return max(events, key=lambda e: (not is_baseline(e.agent), *position(e)), default=None)


def position(event: AnyTrial) -> tuple[int, str, str]:
    """Place in the trial; names break the tie of a mistaken equal index, so that order never matters."""
    return event.agent_index or 0, event.agent, event.model


class _Group:
    """What the scores of the sub-trials of one trial have in common.

    Attributes:
        allowed_failures: how many tests may fail, as many as the oracle's; None: no oracle, no failures.
        with_formulacode: any sub-trial carries FormulaCode's sections.
    """

    def __init__(self, events: Sequence[AnyTrial], allowed_failures: int | None) -> None:
        self._events = events
        self.allowed_failures = allowed_failures
        self.with_formulacode = any(map(is_formulacode, events))

    @cached_property
    def benchmarks(self) -> Entries:
        """The benchmarks that any sub-trial knows."""
        return known_benchmarks(self._events)


def _score(event: AnyTrial, group: _Group, rules: ScoringRules) -> Scored:
    pytest_failed = event.tests is not None and _tests_failed(event.tests, group.allowed_failures)
    snapshot_failed = event.snapshot is not None and _snapshot_failed(event.snapshot)
    success = _success(event, pytest_failed=pytest_failed, snapshot_failed=snapshot_failed)
    formulacode = None
    if group.with_formulacode:
        reverted = _changed_nothing(event, success)
        formulacode = formulacode_score(
            event,
            pytest_failed=pytest_failed,
            snapshot_failed=snapshot_failed,
            reverted_to=with_own(event, group.benchmarks) if reverted else None,
        )
    return _scored(event, success, formulacode, rules, awaited=_awaited(event, group, rules))


def _awaited(event: AnyTrial, group: _Group, rules: ScoringRules) -> bool:
    """Whether the success may still change without a correction: a verdict or the oracle's result is missing.

    The oracle decides how many failed tests are allowed (D8).
    """
    if event.tests is None and event.snapshot is None:
        return event.resolved is None
    in_group = event.agent_index is not None
    return rules.oracle_planned and in_group and event.tests is not None and group.allowed_failures is None


def _success(event: AnyTrial, *, pytest_failed: bool, snapshot_failed: bool) -> bool:
    """From tests and snapshot where there are any: a missing one does not apply. Else the verdict (R20)."""
    if event.tests is None and event.snapshot is None:
        return event.resolved is True
    return not (pytest_failed or snapshot_failed)


def _scored(
    event: AnyTrial,
    success: bool,
    formulacode: FormulaCodeScore | None,
    rules: ScoringRules,
    *,
    awaited: bool,
) -> Scored:
    pass_rate = 1.0 if success else 0.0
    impl_rate = _clamped(event.score)
    resolved, verdict_source = _verdict(event, success)
    cost, cost_source = _cost(event, rules)
    return Scored(
        resolved=resolved,
        verdict_source=verdict_source,
        success=success,
        pass_rate=pass_rate,
        impl_rate=impl_rate,
        composite_score=None if impl_rate is None else rules.profile.composite(pass_rate, impl_rate),
        cost_usd=cost,
        cost_source=cost_source,
        cost_of_pass=cost_of_pass(cost, int(success)),
        duration_seconds=_elapsed(event) if event.duration_seconds is None else event.duration_seconds,
        cache_read_tokens=event.cache_read_tokens,
        cache_write_tokens=event.cache_write_tokens,
        failure_mode=event.failure_mode,
        infrastructure_failure=not resolved
        and is_infrastructure_failure(
            event.harness or rules.harness, event.failure_mode, rules.infrastructure
        ),
        awaited=awaited,
        formulacode=formulacode,
        metrics=event.metrics,
        **{name: getattr(event, name) for name in MEASURED},
    )


def _verdict(event: AnyTrial, success: bool) -> tuple[bool | None, VerdictSource | None]:
    """The harness's verdict, else the success that tests or snapshot gave a trial without a failure (R27)."""
    if event.resolved is not None:
        return event.resolved, "reported"
    if (event.tests is None and event.snapshot is None) or event.failure_mode not in NO_FAILURE:
        return None, None
    return success, "derived"


def _changed_nothing(event: AnyTrial, success: bool) -> bool:
    """Whether the agent failed, so that it counts as one that changed nothing (R21); never nop (R4).

    Measured benchmarks stand where tests, snapshot, verdict and failure mode are all missing.
    """
    if success or event.agent == NOP:
        return False
    says_so = event.tests is not None or event.snapshot is not None or event.resolved is False
    return says_so or event.failure_mode not in NO_FAILURE or not is_formulacode(event)


def _clamped(score: float | None) -> float | None:
    """The judge's score within [0, 1] (R13, S2), never -0.0."""
    if score is None:
        return None
    return 0.0 if score <= 0 else 1.0 if score >= 1 else score


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
    oracle = min((e for e in events if e.agent.startswith(ORACLE)), key=position, default=None)
    if oracle is None:
        return None
    return 0 if oracle.tests is None else _failures(oracle.tests)


def _cost(event: AnyTrial, rules: ScoringRules) -> tuple[float | None, CostSource | None]:
    """The reported cost (0.0 is a value, R1), else tokens x price, else unknown (R2).

    An agent that is no baseline and has no tokens was not counted by anybody: its cost is unknown, not $0.
    """
    if event.cost_usd is not None:
        return event.cost_usd, "reported"
    counted = (event.input_tokens, event.output_tokens, event.cache_read_tokens, event.cache_write_tokens)
    if not any(counted) and not rules.is_baseline(event.agent):
        return None, None
    estimate = rules.prices.cost(
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


def cost_of_pass(cost_per_pass: float | None, passes: int) -> float | None:
    """Cost of one pass in USD: Infinity without a pass, whatever is known of the cost (R14).

    Args:
        cost_per_pass: the known costs, failed trials' included, over the passes among the trials with a
            known cost; None: no pass has a known cost.
        passes: how many trials passed, at a known cost or not.

    >>> cost_of_pass(0.5, 8), cost_of_pass(None, 8), cost_of_pass(None, 0)
    (0.5, None, inf)
    """
    return cost_per_pass if passes else math.inf
