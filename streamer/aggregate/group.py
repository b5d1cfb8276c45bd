"""One group of trials: an agent:model, a tier, an agent:model within a tier.

Trials come in columns, so that many are counted at once. Counting them in and out is inverse.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, Protocol, TypeVar

from streamer.aggregate.formulacode import FormulaCodeSums, FormulaCodeTrials
from streamer.aggregate.keys import SlotKey
from streamer.aggregate.named_values import NamedMetrics, named_values, together
from streamer.schemas.summary_fields import GradeBasis
from streamer.score import FormulaCodeScore, Scored, cost_of_pass
from streamer.stats.distribution import Distribution, Shares
from streamer.stats.exact_sum import ExactSum
from streamer.stats.held import Values
from streamer.stats.pass_at_k import Attempts, PassAtK

T = TypeVar("T")
V_contra = TypeVar("V_contra", contravariant=True)

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

METRICS = (*DISTRIBUTED, *SUMMED)
"""Every number of a score that groups count."""

_COLUMNS = (*METRICS, "resolved", "success", "infrastructure_failure", "failure_mode", "formulacode")


class Trials(NamedTuple):
    """Some scored trials, column by column; a column has no entry for a trial that lacks the value.

    Attributes:
        number: how many.
        attempts: task and whether it is resolved, of each.
        resolved: how many are resolved.
        no_verdict: how many have no verdict (R19).
        infrastructure_failures: how many are unresolved because the infrastructure failed.
        passes_with_cost: how many succeeded at a known cost (R14).
        values: metric to its values.
        named: named metric to its values (R30).
        failure_modes: one for each trial that has one.
        subtests: likewise.
        formulacode: those that carry its sections; None: no trial does.
    """

    number: int
    attempts: Attempts
    resolved: int
    no_verdict: int
    infrastructure_failures: int
    passes_with_cost: int
    values: dict[str, Values]
    named: dict[str, Values]
    failure_modes: list[str]
    subtests: list[str]
    formulacode: FormulaCodeTrials | None

    @property
    def unmeasured_failures(self) -> int:
        """How many failed and have no FormulaCode section, nor has their trial group (R21)."""
        failures, _ = self.values["pass_rate"].zeros_and_ones
        return failures - (self.formulacode.failures if self.formulacode else 0)

    @classmethod
    def of(cls, trials: Sequence[tuple[SlotKey, Scored]]) -> Trials:
        """The columns of at least one trial."""
        keys, scores = zip(*trials, strict=True)
        columns = _columns(scores)
        costs, resolved = columns["cost_usd"], columns["resolved"]
        tasks = [key.task_id for key in keys]
        return cls(
            len(scores),
            Attempts.of(zip(tasks, [verdict is True for verdict in resolved], strict=True)),
            resolved.count(True),
            resolved.count(None),
            columns["infrastructure_failure"].count(True),
            sum(success for success, cost in zip(columns["success"], costs, strict=True) if cost is not None),
            {metric: Values(_known(columns[metric])) for metric in METRICS},
            named_values(scores),
            _known(columns["failure_mode"]),
            _known([key.subtest for key in keys]),
            _with_formulacode([(s, s.formulacode) for s in scores if s.formulacode is not None]),
        )

    @classmethod
    def together(cls, parts: Sequence[Trials]) -> Trials:
        """All trials of at least one part."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            sum(part.number for part in parts),
            Attempts.together([part.attempts for part in parts]),
            sum(part.resolved for part in parts),
            sum(part.no_verdict for part in parts),
            sum(part.infrastructure_failures for part in parts),
            sum(part.passes_with_cost for part in parts),
            {metric: Values.together([part.values[metric] for part in parts]) for metric in parts[0].values},
            together([part.named for part in parts]),
            _chained(part.failure_modes for part in parts),
            _chained(part.subtests for part in parts),
            _with_formulacode(_chained(part.formulacode.pairs for part in parts if part.formulacode)),
        )


def _with_formulacode(pairs: list[tuple[Scored, FormulaCodeScore]]) -> FormulaCodeTrials | None:
    return FormulaCodeTrials(pairs) if pairs else None


def _columns(scores: Sequence[Scored]) -> dict[str, Any]:
    """What is counted of each score, by name."""
    return {name: list(map(attrgetter(name), scores)) for name in _COLUMNS}


def _known(column: Sequence[Any]) -> list[Any]:
    """The values of a column that are not None."""
    if None in column:
        return [value for value in column if value is not None]
    return list(column)


def _chained(lists: Iterable[list[Any]]) -> list[Any]:
    together: list[Any] = []
    for part in lists:
        together += part
    return together


class GroupState:
    """State of one group. Counting trials in and out is inverse; `group_body` says what its summary has.

    Attributes:
        owners: the trials by agent, model and tier; pass@k stands where those are all the same (R11).
    """

    __slots__ = (
        "conflicts",
        "distributions",
        "failure_modes",
        "formulacode",
        "infrastructure_failures",
        "named",
        "no_verdict",
        "owners",
        "pass_at_k",
        "passes_with_cost",
        "resolved",
        "subtests",
        "sums",
        "superseded",
        "trials",
    )

    def __init__(self) -> None:
        self.trials = 0
        self.resolved = 0
        self.no_verdict = 0
        self.infrastructure_failures = 0
        self.superseded = 0
        self.conflicts = 0
        self.passes_with_cost = 0
        self.failure_modes: Counter[str] = Counter()
        self.subtests: Counter[str] = Counter()
        self.owners: Counter[Owner] = Counter()
        self.formulacode = FormulaCodeSums()
        self.pass_at_k = PassAtK()
        self.distributions: dict[str, Distribution] = {
            metric: Shares() if metric == "pass_rate" else Distribution() for metric in DISTRIBUTED
        }
        self.sums = {metric: ExactSum() for metric in SUMMED}
        self.named = NamedMetrics()

    def add(self, key: SlotKey, scored: Scored) -> None:
        """Count one trial."""
        self.count([Trials.of([(key, scored)])], 1)

    def remove(self, key: SlotKey, scored: Scored) -> None:
        """Take back exactly what :meth:`add` counted."""
        self.count([Trials.of([(key, scored)])], -1)

    def count(self, parts: Sequence[Trials], sign: int = 1) -> None:
        """Count trials (`sign` 1), or take back exactly what was counted (-1)."""
        for trials in parts:
            self.trials += sign * trials.number
            self.resolved += sign * trials.resolved
            self.no_verdict += sign * trials.no_verdict
            self.infrastructure_failures += sign * trials.infrastructure_failures
            self.passes_with_cost += sign * trials.passes_with_cost
            tally_all(self.failure_modes, trials.failure_modes, sign)
            tally_all(self.subtests, trials.subtests, sign)
            if trials.formulacode:
                self.formulacode.count(trials.formulacode.sums, sign)
            for metric, held in self.distributions.items():
                if values := trials.values[metric]:
                    count_values(held, values, sign)
            for metric, total in self.sums.items():
                if values := trials.values[metric]:
                    (total.merge if sign > 0 else total.unmerge)(values.sums)
            self.named.count(trials.named, sign)
        attempts = Attempts.together([trials.attempts for trials in parts])
        count_values(self.pass_at_k, attempts, sign)

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


class Extending(Protocol[V_contra]):
    """A statistic that can count values in."""

    def extend(self, values: V_contra, /) -> None:
        """Count the values in."""

    def withdraw(self, values: V_contra, /) -> None:
        """Undo one `extend` of the values."""


def count_values(held: Extending[T], values: T, sign: int) -> None:
    """Count values in, or take them back."""
    if sign > 0:
        held.extend(values)
    else:
        held.withdraw(values)


def tally(counter: Counter[T], item: T, change: int) -> None:
    """Count an item up, or down where the change is negative; nothing is kept at zero."""
    counter[item] += change
    if not counter[item]:
        del counter[item]


def tally_all(counter: Counter[T], items: Sequence[T], sign: int) -> None:
    """Count several items up or down; nothing is kept at zero."""
    if not items:
        return
    if sign > 0:
        counter.update(items)
        return
    for item in items:
        tally(counter, item, sign)


def accuracies(resolved: int, trials: int, infrastructure_failures: int) -> dict[str, int | float | None]:
    """Share of resolved trials: of all, and of those that the infrastructure did not fail."""
    left = trials - infrastructure_failures
    return {
        "accuracy": resolved / trials if trials else None,
        "accuracy_excluding_infrastructure": resolved / left if left else None,
        "infrastructure_failures": infrastructure_failures,
    }
