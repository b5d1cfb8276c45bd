"""One group of trials: an agent:model, a tier, an agent:model within a tier.

A group is a value: `of` some trials, `merge` and its inverse `unmerge`. Trials that came together are one
group, which is merged into every group that they count in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Protocol, Self, TypeVar

from streamer.aggregate.formulacode import FormulaCodeSums
from streamer.aggregate.keys import SlotKey
from streamer.schemas.summary_fields import GradeBasis
from streamer.score import Scored, cost_of_pass
from streamer.stats.distribution import Distribution
from streamer.stats.exact_sum import ExactSum
from streamer.stats.pass_at_k import PassAtK

T = TypeVar("T")
S = TypeVar("S", bound="Statistic")

Owner = tuple[str, str, str | None]
"""(agent, model, tier)."""

COMPOSITE = "composite_score"

DISTRIBUTED = (
    "pass_rate",
    "impl_rate",
    COMPOSITE,
    "cost_usd",
    "cost_of_pass",
    "duration_seconds",
    "input_tokens",
    "output_tokens",
)
"""Numbers of a score that get statistics."""

SUMMED = ("cache_read_tokens", "cache_write_tokens", "trajectory_length")
"""Numbers of which only sum and count are kept."""

_GROUP_COUNTS = ("trials", "resolved", "no_verdict", "infrastructure_failures", "passes_with_cost")

_COUNTERS = ("failure_modes", "subtests", "owners")


class GroupState:
    """State of one group; `group_body` says what its summary has.

    Attributes:
        trials: how many.
        resolved: how many are resolved.
        no_verdict: how many have no verdict (R19).
        infrastructure_failures: how many are unresolved because the infrastructure failed.
        passes_with_cost: how many succeeded at a known cost (R14).
        superseded, conflicts: losers and conflicts of its slots; these are set, not merged.
        failure_modes: trials by failure mode.
        subtests: trials by subtest.
        owners: trials by agent, model and tier; pass@k stands where those are all the same (R11).
        distributions: metric to its values.
        sums: metric to its sum.
        named: named metric to its values (R30).
        pass_at_k: the attempts.
        formulacode: sums over the trials that carry FormulaCode's sections.
    """

    __slots__ = (
        *_GROUP_COUNTS,
        *_COUNTERS,
        "conflicts",
        "distributions",
        "formulacode",
        "named",
        "pass_at_k",
        "sums",
        "superseded",
    )

    def __init__(self) -> None:
        self.trials = 0
        self.resolved = 0
        self.no_verdict = 0
        self.infrastructure_failures = 0
        self.passes_with_cost = 0
        self.superseded = 0
        self.conflicts = 0
        self.failure_modes: Counter[str] = Counter()
        self.subtests: Counter[str] = Counter()
        self.owners: Counter[Owner] = Counter()
        self.distributions = {metric: Distribution() for metric in DISTRIBUTED}
        self.sums = {metric: ExactSum() for metric in SUMMED}
        self.named: dict[str, Distribution] = {}
        self.pass_at_k = PassAtK()
        self.formulacode = FormulaCodeSums()

    @classmethod
    def of(cls, trials: Sequence[tuple[SlotKey, Scored]]) -> Self:
        """The state of some trials."""
        group = cls()
        keys, scores = [key for key, _ in trials], [scored for _, scored in trials]
        group.trials = len(trials)
        group.resolved = sum(scored.resolved is True for scored in scores)
        group.no_verdict = sum(scored.resolved is None for scored in scores)
        group.infrastructure_failures = sum(scored.infrastructure_failure for scored in scores)
        group.passes_with_cost = sum(scored.success for scored in scores if scored.cost_usd is not None)
        group.failure_modes.update(_known(scores, "failure_mode"))
        group.subtests.update(_known(keys, "subtest"))
        group.owners.update((key.agent, key.model, key.tier) for key in keys)
        for metric, held in group.distributions.items():
            held.extend(_known(scores, metric))
        for metric, total in group.sums.items():
            total.extend(_known(scores, metric))
        named: dict[str, list[float]] = {}
        for measured in _known(scores, "metrics"):
            for name, value in measured.items():
                named.setdefault(name, []).append(value)
        group.named = {name: Distribution.of(values) for name, values in named.items()}
        group.pass_at_k = PassAtK.of((key.task_id, scored.resolved is True) for key, scored in trials)
        group.formulacode = FormulaCodeSums.of(
            _known(scores, "formulacode"),
            failures=sum(not scored.success for scored in scores if scored.formulacode is not None),
        )
        return group

    def merge(self, other: GroupState) -> None:
        """Count in all trials of another group, which stays as it is."""
        self._change(other, 1)

    def unmerge(self, other: GroupState) -> None:
        """Undo one `merge` of the other.

        Raises:
            StatsError: a trial is not there; the group is then of no use any more.
        """
        self._change(other, -1)

    def _change(self, other: GroupState, sign: int) -> None:
        for name in _GROUP_COUNTS:
            setattr(self, name, getattr(self, name) + sign * getattr(other, name))
        for name in _COUNTERS:
            count_all(getattr(self, name), getattr(other, name), sign)
        for metric, held in other.distributions.items():
            if held.count or held.nans:
                change(self.distributions[metric], held, sign)
        for metric, total in other.sums.items():
            if total.count:
                change(self.sums[metric], total, sign)
        for name, held in list(other.named.items()):
            change(self.named.setdefault(name, Distribution()), held, sign)
            if not (self.named[name].count or self.named[name].nans):
                del self.named[name]
        change(self.pass_at_k, other.pass_at_k, sign)
        if other.formulacode.trials:
            change(self.formulacode, other.formulacode, sign)

    @property
    def failures(self) -> int:
        """Trials that did not succeed (R20)."""
        return self.trials - self.passes

    @property
    def passes(self) -> int:
        """Trials that succeeded (R20)."""
        return int(self.distributions["pass_rate"].total())

    def grade_basis(self, judged: bool | None) -> GradeBasis | None:
        """What the grade rests on (R13); None: there is no trial.

        Args:
            judged: what the plan says; None: as seen.
        """
        if not self.trials:
            return None
        seen = self.distributions["impl_rate"].count > 0
        return "composite_median" if (seen if judged is None else judged) else "mean_pass_rate"

    def grade_score(self, judged: bool | None) -> float | None:
        """The number that the grade rests on (R13); None while a judged group has no score."""
        basis = self.grade_basis(judged)
        if basis == "composite_median":
            return self.distributions[COMPOSITE].median()
        return self.distributions["pass_rate"].mean() if basis else None

    def cost_of_pass(self) -> float | None:
        """Known cost per pass in USD, rounded once (R14); None of no trial."""
        if not self.trials:
            return None
        paid = self.passes_with_cost
        return cost_of_pass(self.distributions["cost_usd"].total_over(paid) if paid else None, self.passes)


def _known(items: Sequence[Any], name: str) -> list[Any]:
    """The values that the items have under a name, without those that are None."""
    column = list(map(attrgetter(name), items))
    return [value for value in column if value is not None] if None in column else column


class Statistic(Protocol):
    """A statistic that others of its kind can be merged into."""

    def merge(self, other: Self, /) -> None:
        """Count in all that the other holds."""

    def unmerge(self, other: Self, /) -> None:
        """Undo one `merge` of the other."""


def change(held: S, part: S, sign: int) -> None:
    """Merge a part (`sign` 1), or undo that (-1)."""
    if sign > 0:
        held.merge(part)
    else:
        held.unmerge(part)


def count(counter: Counter[T], item: T, times: int) -> None:
    """Count an item so many times more, or fewer where that is negative; nothing is kept at zero."""
    counter[item] += times
    if not counter[item]:
        del counter[item]


def count_all(counter: Counter[T], others: Counter[T], sign: int) -> None:
    """Count in what another counter has (`sign` 1), or take it back (-1); nothing is kept at zero."""
    for item, times in list(others.items()):
        count(counter, item, sign * times)


def accuracies(resolved: int, trials: int, infrastructure_failures: int) -> dict[str, int | float | None]:
    """Share of resolved trials: of all, and of those that the infrastructure did not fail."""
    left = trials - infrastructure_failures
    return {
        "accuracy": resolved / trials if trials else None,
        "accuracy_excluding_infrastructure": resolved / left if left else None,
        "infrastructure_failures": infrastructure_failures,
    }
