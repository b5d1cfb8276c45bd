"""The score of one trial, or of a group of sub-trials: the specification's per-run metrics."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from streamer.folding.prices import PriceTable
from streamer.folding.score.formulacode import (
    Entries,
    FormulaCodeScore,
    benchmarks_of,
    formulacode_score,
    is_formulacode,
    with_own,
)
from streamer.schemas.base import BASELINE_LABELS, SEMANTICS_VERSION, canonical_json, sha256_hex
from streamer.schemas.events import (
    INFRASTRUCTURE_FAILURES,
    NO_FAILURE,
    Measurements,
    SnapshotCounts,
    TestCounts,
    judges_score,
)
from streamer.schemas.summaries import CostSource, Grade, TrialScore, VerdictSource
from streamer.schemas.wire import Result

# -----------------------------------------------------------------------------
# The rules that score a run's trials: grading profiles (R12), the rules of its plan, a fingerprint.


MAX_WEIGHT = 1e6
_WEIGHTS = re.compile(r"(?P<pass>\d*\.?\d+(?:e[+-]?\d+)?):(?P<impl>\d*\.?\d+(?:e[+-]?\d+)?)", re.ASCII)


@dataclass(frozen=True, slots=True)
class GradingProfile:
    """How trials get a composite score, and groups a grade.

    Attributes:
        name: canonical name, as in every summary; `grading_profile(p.name) == p`.
        thresholds: (lower bound, grade), bounds descending and inclusive; a lower score is F. Empty: no
            grades.
        ddof: 0 for the variance of a population, 1 for the variance of a sample.
    """

    name: str
    thresholds: tuple[tuple[float, Grade], ...]
    ddof: int
    pass_weight: float = 0.5
    impl_weight: float = 0.5

    def grade(self, score: float | None) -> Grade | None:
        """Grade of a score (S5, R13), compared exactly. NaN is F, above 1 the best, None is None (R16).

        >>> [grading_profile("specified").grade(x) for x in (0.95, 0.925, 0.1, float("nan"), None)]
        ['A', 'B', 'F', 'F', None]
        """
        if score is None or not self.thresholds:
            return None
        for bound, grade in self.thresholds:
            if score >= bound:
                return grade
        return "F"

    def composite(self, pass_rate: float, impl_rate: float) -> float:
        """Weighted mean of both rates, each in [0, 1] (S2); 0.0 if the weights sum to 0 or less.

        >>> grading_profile("specified").composite(1.0, 0.85)
        0.925
        """
        if self.pass_weight == self.impl_weight and self.pass_weight > 0:
            return (pass_rate + impl_rate) / 2
        total = self.pass_weight + self.impl_weight
        if total <= 0:
            return 0.0
        return (pass_rate * self.pass_weight + impl_rate * self.impl_weight) / total


SPECIFIED = GradingProfile("specified", ((0.95, "A"), (0.85, "B"), (0.75, "C"), (0.65, "D")), ddof=0)
"""The default (R12): the specification's thresholds and population variance."""

SCYLLA_2026 = GradingProfile(
    "scylla-2026", ((1.0, "S"), (0.8, "A"), (0.6, "B"), (0.4, "C"), (0.2, "D")), ddof=1
)
"""ProjectScylla's later scale and sample variance (S17)."""

UNGRADED = GradingProfile("none", (), ddof=0)

PROFILES = {profile.name: profile for profile in (SPECIFIED, SCYLLA_2026, UNGRADED)}


class UnknownProfile(ValueError):
    def __init__(self, name: str) -> None:
        super().__init__(
            f"grading profile {name!r} is unknown; allowed: {', '.join([*PROFILES][:-1])} or "
            f"{[*PROFILES][-1]}, optionally followed by @PASS:IMPL with the two weights of the composite, "
            f"each a number from 0 to {MAX_WEIGHT:g} (for example specified@0.7:0.3); "
            "correct grading_profile, or leave it out for specified"
        )


@lru_cache(maxsize=1024)
def grading_profile(name: str | None) -> GradingProfile:
    """The profile with this name; None is `specified`. Raises UnknownProfile.

    Equal weights have one name, however they are written; the default weights have the plain name.

    >>> grading_profile("scylla-2026").grade(0.81)
    'A'
    >>> grading_profile("specified@.7:0.30").name
    'specified@0.7:0.3'
    >>> grading_profile("specified@1:1").name
    'specified'
    """
    if name is None:
        return SPECIFIED
    base, at, weights = name.partition("@")
    profile = PROFILES.get(base)
    if profile is None:
        raise UnknownProfile(name)
    if not at:
        return profile
    match = _WEIGHTS.fullmatch(weights)
    if match is None:
        raise UnknownProfile(name)
    pass_weight, impl_weight = float(match["pass"]), float(match["impl"])
    if max(pass_weight, impl_weight) > MAX_WEIGHT:
        raise UnknownProfile(name)
    if pass_weight == impl_weight > 0:
        return profile
    canonical = f"{base}@{_number(pass_weight)}:{_number(impl_weight)}"
    return replace(profile, name=canonical, pass_weight=pass_weight, impl_weight=impl_weight)


def _number(weight: float) -> str:
    return repr(weight).removesuffix(".0")


ORACLE = "oracle"
"""The agent that knows the human solution; `oracle-v2` is an ordinary agent (D8)."""

NOP = "nop"
"""The agent that changes nothing: the reference for the others' speedups."""


@dataclass(frozen=True, slots=True)
class ScoringRules:
    """The rules that score the trials of one run; equal rules give equal scores.

    Attributes:
        named_baselines: agents that the plan declares as baselines, besides nop and oracle (R10).
        infrastructure: failure modes that the plan blames on infrastructure; None: the table below decides.
        oracle_planned: the oracle's result decides how many failed tests others may have (D8).
        sole_agent: the plan has a single agent, so an oracle is judged alone (R20).
        verdicts: whether every trial has or awaits a verdict; None: judge by the trials (R31).
    """

    prices: PriceTable
    profile: GradingProfile = SPECIFIED
    named_baselines: frozenset[str] = frozenset()
    infrastructure: frozenset[str] | None = None
    harness: str | None = None
    oracle_planned: bool = False
    sole_agent: bool = False
    verdicts: bool | None = None

    def is_baseline(self, agent: str) -> bool:
        return agent in BASELINE_LABELS or agent in self.named_baselines


_DIGITS = 16
"""Hexadecimal digits of a fingerprint: short enough to read aloud, and long enough to avoid collisions."""


@lru_cache(maxsize=8)
def made_with(prices: PriceTable) -> str:
    """The fingerprint of a configuration: version of the formulas, prices, grading profiles.

    Workers with equal fingerprints compute equal numbers from equal events.

    >>> made_with(PriceTable.default()) == made_with(PriceTable.from_toml(""))
    True
    >>> dearer = PriceTable.from_toml('[models."gpt-4o"]\\ninput = 100\\noutput = 200\\n')
    >>> made_with(PriceTable.default()) == made_with(dearer)
    False
    """
    profiles = [asdict(profile) for _, profile in sorted(PROFILES.items())]
    return sha256_hex(canonical_json([SEMANTICS_VERSION, prices.digest(), profiles]))[:_DIGITS]


# -----------------------------------------------------------------------------
# Failures of the infrastructure: the container, the network or the model's provider, not the agent.
#
# Such a trial counts as a failure like any other (R19). Summaries give a second accuracy without it. The
# plan of a run replaces this table by `run_started.infrastructure_failures`.


INFRASTRUCTURE_ERROR = "infrastructure_error"
"""The failure mode of infrastructure for custom harnesses; it counts for every harness."""


def is_infrastructure_failure(
    harness: str | None, failure_mode: str | None, named: Collection[str] | None
) -> bool:
    """Whether a failure mode is the infrastructure's fault.

    >>> is_infrastructure_failure("terminal-bench", "unknown_agent_error", None)
    True
    >>> is_infrastructure_failure("terminal-bench", "agent_timeout", None)
    False
    >>> is_infrastructure_failure("terminal-bench", "agent_timeout", {"agent_timeout"})
    True
    """
    if failure_mode is None:
        return False
    if named is not None:
        return failure_mode in named
    return failure_mode == INFRASTRUCTURE_ERROR or failure_mode in INFRASTRUCTURE_FAILURES.get(
        harness or "", ()
    )


# -----------------------------------------------------------------------------
# One trial, or one group of sub-trials, to scored trials: the specification's per-run metrics.


MEASURED = tuple(Measurements.model_fields)
"""Names of the fields that are copied from the event."""

if TYPE_CHECKING:

    class Scored(TrialScore):
        """The score of one trial, including unpublished parts.

        A `pending` success still lacks a verdict or the planned oracle's result. `score_out_of_range` marks a
        judge's score outside 0 to 1, which counts as missing (R13).
        """

        cost_of_pass: float | None  # Infinity where the trial failed
        cache_read_tokens: int | None
        cache_write_tokens: int | None
        pending: bool
        score_out_of_range: bool
        formulacode: FormulaCodeScore | None

else:
    _names = [
        *TrialScore.model_fields,
        *("cache_read_tokens", "cache_write_tokens", "pending", "score_out_of_range", "formulacode"),
    ]
    Scored = msgspec.defstruct("Scored", _names, module=__name__, frozen=True, gc=False, kw_only=True)


def fields_of(scored: Scored) -> dict[str, Any]:
    struct: Any = scored
    return msgspec.structs.asdict(struct)


def score_trial(event: Result, rules: ScoringRules) -> Scored:
    """Score a single trial (R10): its tests and snapshot are judged absolutely."""
    if type(event) is Result:  # a usual one, which has no section
        success = _success(event, rules, pytest_failed=False, snapshot_failed=False)
        return _scored(event, success, None, rules, pending=event.resolved is None)
    return _score(event, _Group([event], None), rules)


def score_trial_group(events: Sequence[Result], rules: ScoringRules, *, ended: bool = False) -> list[Scored]:
    """Score the sub-trials of one trial (R10), in the given order, which changes no score.

    Test failures are judged relative to the oracle's, if the group has one (D8, D11, R9). A failed agent
    counts with all benchmarks that any sub-trial of the group has (R21).

    With `ended`, no more sub-trials come, and an oracle without others is judged absolutely (R20).
    """
    alone = len(events) == 1 and (ended or rules.sole_agent)
    group = _Group(events, None if alone else _oracle_failures(events))
    return [_score(event, group, rules) for event in events]


def deciding_sub_trial(events: Sequence[Result], is_baseline: Callable[[str], bool]) -> Result | None:
    """The sub-trial that decides the whole trial (R10, D2), regardless of their order, if there is one.

    It is the one with the highest agent index among those that are not baselines, else among baselines.
    """
    return max(events, key=lambda e: (not is_baseline(e.agent), *position(e)), default=None)


def position(event: Result) -> tuple[int, str, str]:
    return event.agent_index or 0, event.agent, event.model


class _Group:
    """Facts that one trial's sub-trials share; without an oracle no failed test is allowed (R20)."""

    def __init__(self, events: Sequence[Result], allowed_failures: int | None) -> None:
        self._events = events
        self.allowed_failures = allowed_failures
        self.with_formulacode = any(map(is_formulacode, events))
        oracle = None if allowed_failures is None else _oracle(events)
        self.has_no_reference = oracle is not None and not _has_counts(oracle.tests)

    @cached_property
    def benchmarks(self) -> Entries:
        return benchmarks_of(self._events)


def _score(event: Result, group: _Group, rules: ScoringRules) -> Scored:
    pytest_failed = event.tests is not None and _tests_failed(event.tests, group.allowed_failures)
    snapshot_failed = event.snapshot is not None and _snapshot_failed(event.snapshot)
    success = _success(event, rules, pytest_failed=pytest_failed, snapshot_failed=snapshot_failed)
    formulacode = None
    if group.with_formulacode:
        reverted = _changed_nothing(event, success)
        formulacode = formulacode_score(
            event,
            pytest_failed=pytest_failed,
            snapshot_failed=snapshot_failed,
            reverted_to=with_own(event, group.benchmarks) if reverted else None,
        )
        if group.has_no_reference and event.agent != ORACLE and event.tests is not None:
            formulacode = replace(formulacode, has_no_reference=True)
    return _scored(event, success, formulacode, rules, pending=_is_pending(event, group, rules))


def _is_pending(event: Result, group: _Group, rules: ScoringRules) -> bool:
    """Whether the success still lacks a verdict, or the oracle's result (D8)."""
    if event.tests is None and event.snapshot is None:
        return event.resolved is None
    in_group = event.agent_index is not None
    return rules.oracle_planned and in_group and event.tests is not None and group.allowed_failures is None


def _success(
    event: Result, rules: ScoringRules, *, pytest_failed: bool, snapshot_failed: bool
) -> bool | None:
    """Success by tests and snapshot; a missing one does not apply. With neither, by the verdict (R20).

    None: the scorer gives only numbers, so no verdict will come (R31).
    """
    if event.tests is not None or event.snapshot is not None:
        return not (pytest_failed or snapshot_failed)
    if event.resolved is None and event.metrics and event.failure_mode in NO_FAILURE and not rules.verdicts:
        return None
    return event.resolved is True


def _scored(
    event: Result,
    success: bool | None,
    formulacode: FormulaCodeScore | None,
    rules: ScoringRules,
    *,
    pending: bool,
) -> Scored:
    pass_rate = None if success is None else float(success)
    impl_rate = judges_score(event.score)
    resolved, verdict_source = _verdict(event, success)
    cost, cost_source = _cost(event, rules)
    return Scored(
        resolved=resolved,
        verdict_source=verdict_source,
        success=success,
        pass_rate=pass_rate,
        impl_rate=impl_rate,
        composite_score=None
        if impl_rate is None or pass_rate is None
        else rules.profile.composite(pass_rate, impl_rate),
        cost_usd=cost,
        cost_source=cost_source,
        cost_of_pass=None if success is None else cost_of_pass(cost, int(success)),
        duration_seconds=_elapsed(event) if event.duration_seconds is None else event.duration_seconds,
        cache_read_tokens=event.cache_read_tokens,
        cache_write_tokens=event.cache_write_tokens,
        failure_mode=event.failure_mode,
        infrastructure_failure=not resolved
        and is_infrastructure_failure(
            event.harness or rules.harness, event.failure_mode, rules.infrastructure
        ),
        pending=pending,
        score_out_of_range=event.score is not None and impl_rate is None,
        formulacode=formulacode,
        metrics=event.metrics,
        **{name: getattr(event, name) for name in MEASURED},
    )


def _verdict(event: Result, success: bool | None) -> tuple[bool | None, VerdictSource | None]:
    if event.resolved is not None:
        return event.resolved, "reported"
    if (event.tests is None and event.snapshot is None) or event.failure_mode not in NO_FAILURE:
        return None, None
    return success, "derived"


def _changed_nothing(event: Result, success: bool | None) -> bool:
    """Whether the agent failed, and so counts as if it had changed nothing (R21); never for nop (R4).

    Without tests, snapshot, verdict and failure mode, measured benchmarks count as they are.
    """
    if success is not False or event.agent == NOP:
        return False
    says_so = event.tests is not None or event.snapshot is not None or event.resolved is False
    return says_so or event.failure_mode not in NO_FAILURE or not is_formulacode(event)


def _tests_failed(tests: TestCounts, allowed_failures: int | None) -> bool:
    """Whether there are more failures than the oracle's `allowed_failures` (D8); None: no oracle."""
    if tests.status in ("missing", "unparsable"):
        return True  # (R5), in a group too (differs from D9)
    if tests.failed is None and tests.error is None:
        return tests.status == "failed"
    if allowed_failures is None:
        return tests.status == "failed" or _failures(tests) > 0  # (B7)
    return _failures(tests) > allowed_failures


def _snapshot_failed(snapshot: SnapshotCounts) -> bool:
    return snapshot.status != "passed" or (snapshot.pass_to_fail or 0.0) > 0


def _failures(tests: TestCounts) -> int:
    return (tests.failed or 0) + (tests.error or 0)


def _oracle_failures(events: Sequence[Result]) -> int | None:
    """Failed and errored tests of the group's oracle (D8): 0 without counts; None if there is no oracle."""
    oracle = _oracle(events)
    if oracle is None:
        return None
    return 0 if oracle.tests is None else _failures(oracle.tests)


def _oracle(events: Sequence[Result]) -> Result | None:
    return min((event for event in events if event.agent == ORACLE), key=position, default=None)


def _has_counts(tests: TestCounts | None) -> bool:
    return tests is not None and (tests.failed is not None or tests.error is not None)


def _cost(event: Result, rules: ScoringRules) -> tuple[float | None, CostSource | None]:
    """The reported cost (0.0 is a value, R1), else tokens x price, else unknown (R2).

    An agent without tokens was not measured, so its cost is unknown, not $0; baselines are an exception.
    """
    if event.cost_usd is not None:
        return event.cost_usd, "reported"
    counted = (event.input_tokens, event.output_tokens, event.cache_read_tokens, event.cache_write_tokens)
    if not any(counted) and not rules.is_baseline(event.agent):
        return None, None
    estimate = rules.prices.cost(event.model, *counted)
    return (None, None) if estimate is None else (estimate, "estimated")


def _elapsed(event: Result) -> float | None:
    if event.started_at is None or event.finished_at is None:
        return None
    seconds = (event.finished_at - event.started_at).total_seconds()
    return seconds if seconds >= 0 else None


def cost_of_pass(cost_per_pass: float | None, passes: int) -> float | None:
    """Cost of one pass in USD: Infinity without a pass, whatever costs are known (R14).

    `cost_per_pass` divides all known costs, including failed trials', by the passes with a known cost. None:
    no pass has one.

    >>> cost_of_pass(0.5, 8), cost_of_pass(None, 8), cost_of_pass(None, 0)
    (0.5, None, inf)
    """
    return cost_per_pass if passes else math.inf
