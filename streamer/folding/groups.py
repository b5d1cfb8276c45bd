"""One group of trials: an agent:model, a tier, or an agent:model within a tier.

A group is a value with `of`, `merge` and the inverse `unmerge`. Trials that arrive together form one group.
Its counts are merged into every group of the run that they count in, its values only into their cell: the
trials of one agent, model and tier. So the groups of a run hold each value once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import chain
from operator import add, attrgetter
from typing import Any, Protocol, Self, TypeVar

from streamer.folding.score import NOP, Scored, cost_of_pass
from streamer.folding.score.formulacode import FormulaCodeScore
from streamer.folding.slots import SlotKey
from streamer.schemas.base import GroupId, groups_of
from streamer.schemas.events import ADVANTAGES, NO_FAILURE
from streamer.schemas.summaries import GradeBasis
from streamer.statistics.ability import PassAtK
from streamer.statistics.distribution import Distribution, ExactSum, join

# -----------------------------------------------------------------------------
# FormulaCode's running sums of one group: the specification's run-level table, exact and removable.


_FORMULACODE_COUNTS = (
    "trials",
    "failures",
    "fallbacks",
    "claimed",
    "num_benchmarks",
    "num_valid_benchmarks",
    "with_benchmarks",
)


class FormulaCodeSums:
    """Sums over trials with FormulaCode sections: advantages a, and log(1 + a) if a > -1 (F7)."""

    def __init__(self) -> None:
        self.trials = 0
        self.failures = 0
        self.fallbacks = 0
        self.claimed = 0
        self.num_benchmarks = 0
        self.num_valid_benchmarks = 0
        self.with_benchmarks = 0
        self.speedup = ExactSum()
        self.speedup_percentage = ExactSum()
        self.advantages = {name: ExactSum() for name in ADVANTAGES}
        self.logs = {name: ExactSum() for name in ADVANTAGES}

    @classmethod
    def of(cls, scores: Sequence[FormulaCodeScore], *, failures: int) -> FormulaCodeSums:
        if not scores:
            return _NOTHING_MEASURED
        sums = cls()
        sums.trials, sums.failures = len(scores), failures
        sums.fallbacks = sum(score.fallback for score in scores)
        sums.claimed = sum(score.claimed for score in scores)
        sums.num_benchmarks = sum(score.num_benchmarks for score in scores)
        sums.num_valid_benchmarks = sum(score.num_valid_benchmarks for score in scores)
        sums.with_benchmarks = sum(score.num_benchmarks > 0 for score in scores)
        sums.speedup.extend([score.task_speedup for score in scores if score.task_speedup is not None])
        percentages = [score.speedup_percentage for score in scores]
        sums.speedup_percentage.extend([value for value in percentages if value is not None])
        levels = zip(*(score.advantages for score in scores if score.advantages is not None), strict=True)
        for name, level in zip(ADVANTAGES, levels, strict=False):  # without advantages there are no levels
            advantages = [advantage for advantage in level if advantage is not None]
            sums.advantages[name].extend(advantages)
            sums.logs[name].extend(
                [math.log(1.0 + advantage) for advantage in advantages if advantage > -1.0]
            )
        return sums

    def merge(self, other: FormulaCodeSums) -> None:
        self._change(other, 1)

    def unmerge(self, other: FormulaCodeSums) -> None:
        self._change(other, -1)

    def _change(self, other: FormulaCodeSums, sign: int) -> None:
        for name in _FORMULACODE_COUNTS:
            setattr(self, name, getattr(self, name) + sign * getattr(other, name))
        join(self._speedups(), other._speedups(), sign)
        join(self.advantages, other.advantages, sign)
        join(self.logs, other.logs, sign)

    def _speedups(self) -> dict[str, ExactSum]:
        return {"ratio": self.speedup, "percentage": self.speedup_percentage}

    def plus(self, other: FormulaCodeSums, unmeasured_failures: int) -> FormulaCodeSums:
        total = FormulaCodeSums()
        for sums in (self, other):
            total.merge(sums)
        total.speedup.extend([1.0] * unmeasured_failures)
        return total

    def minus(self, other: FormulaCodeSums) -> FormulaCodeSums:
        rest = FormulaCodeSums()
        rest.merge(self)
        rest.unmerge(other)
        return rest

    def gmean(self, name: str) -> float | None:
        """gmean(1 + a) - 1 if every 1 + a is positive, else the arithmetic mean (F7)."""
        mean_log = self.logs[name].mean()
        if mean_log is None or self.logs[name].count < self.advantages[name].count:
            return self.advantages[name].mean()
        return math.exp(mean_log) - 1.0


_NOTHING_MEASURED = FormulaCodeSums()


# -----------------------------------------------------------------------------
# One group of trials: an agent:model, a tier, an agent:model within a tier.


T = TypeVar("T")
S = TypeVar("S", bound="Statistic")

Owner = tuple[str, str, str | None]

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

ESTIMATED = "estimated_cost_usd"
"""Costs computed as tokens x price, because the harness reported none (R2)."""

_TOKENS = {
    "input_tokens": "input",
    "output_tokens": "output",
    "cache_read_tokens": "cache_read",
    "cache_write_tokens": "cache_write",
}

SUMMED = ("cache_read_tokens", "cache_write_tokens", "trajectory_length", ESTIMATED)
"""Numbers with only a sum and a count, without a distribution."""

_GROUP_COUNTS = (
    *("trials", "resolved", "no_verdict", "numeric", "infrastructure_failures", "passes"),
    *("passes_with_cost", "unscored", "scores_out_of_range"),
)

MEASURES = (*DISTRIBUTED, *SUMMED[:-1])
"""Numbers of a score that a group distributes or sums; estimated costs have their own sum."""

_COUNTERS = ("failure_modes", "subtests", "owners", "numeric_tasks")


class Tally:
    """Counts that a run and each of its groups share.

    `numeric` trials have only numbers, and are not in `trials` (R31). `incomplete` multi-agent trials still
    lack a planned agent (R10). `owners` counts trials by agent, model and tier: pass@k needs a single owner
    (R11).
    """

    __slots__ = ()

    trials: int
    resolved: int
    no_verdict: int
    numeric: int
    incomplete = 0
    infrastructure_failures: int
    scores_out_of_range: int
    has_verdicts: bool
    failure_modes: Counter[str]
    owners: Counter[Owner]
    numeric_tasks: Counter[str]
    pass_at_k: PassAtK
    sums: dict[str, ExactSum]

    def as_ruled(self, verdicts: bool | None) -> Self:
        """The tally without verdict-based numbers, if no verdict counts (R31).

        `verdicts` is what the plan says; None: judge by the trials.
        """
        seen = self.resolved > 0 or not self.numeric
        if not self.trials or (seen if verdicts is None else verdicts):
            return self
        ruled = copy(self)
        changed = {"has_verdicts": False, "resolved": 0, "numeric": self.trials - self.incomplete}
        for name, value in changed.items():
            setattr(ruled, name, value)
        return ruled

    @property
    def verdict_trials(self) -> int:
        """Trials that have a verdict or may get one (R31): the denominator of accuracy."""
        return self.trials - self.numeric - self.incomplete

    def total_of(self, metric: str) -> ExactSum:
        return self.sums[metric]

    @property
    def costs(self) -> ExactSum:
        return self.total_of("cost_usd")

    @property
    def tokens(self) -> dict[str, ExactSum]:
        return {kind: self.total_of(metric) for metric, kind in _TOKENS.items()}


class GroupState(Tally):
    """State of one group; :data:`~streamer.folding.summaries.GROUP` computes its summary.

    `passes_with_cost` succeeded at a known cost (R14). `unscored` trials may still get a judge's score (R13).
    `superseded`, `conflicts`, `impoverished` and `failures_rerun` are set, not merged.
    """

    __slots__ = (
        *_GROUP_COUNTS,
        *_COUNTERS,
        "conflicts",
        "distributions",
        "failures_rerun",
        "formulacode",
        "has_verdicts",
        "impoverished",
        "named",
        "pass_at_k",
        "sums",
        "superseded",
    )

    def __init__(self) -> None:
        self.trials = 0
        self.resolved = 0
        self.no_verdict = 0
        self.numeric = 0
        self.infrastructure_failures = 0
        self.passes = self.passes_with_cost = 0
        self.unscored = 0
        self.scores_out_of_range = 0
        self.has_verdicts = True
        self.superseded = self.conflicts = self.impoverished = self.failures_rerun = 0
        self.failure_modes: Counter[str] = Counter()
        self.subtests: Counter[str] = Counter()
        self.owners: Counter[Owner] = Counter()
        self.numeric_tasks: Counter[str] = Counter()
        self.sums = {metric: ExactSum() for metric in SUMMED}
        self.pass_at_k = PassAtK()
        self.formulacode = _NOTHING_MEASURED
        self._hold()

    def _hold(self) -> None:
        self.distributions: Mapping[str, Distribution] = {metric: Distribution() for metric in DISTRIBUTED}
        self.named: Mapping[str, Distribution] = {}

    @classmethod
    def of(cls, trials: Sequence[tuple[SlotKey, Scored]], measures: Collection[str] = MEASURES) -> Self:
        """The state of these trials.

        A restricted choice of `measures` also leaves out failure modes, owners and attempts.
        """
        group = cls()
        keys, scores = [key for key, _ in trials], [scored for _, scored in trials]
        group.trials = len(trials)
        group.resolved = sum(scored.resolved is True for scored in scores)
        numeric = [key.task_id for key, scored in trials if scored.success is None]
        group.numeric, group.numeric_tasks = len(numeric), Counter(numeric)
        group.no_verdict = sum(scored.resolved is None for scored in scores) - group.numeric
        group.unscored = sum(
            scored.impl_rate is None and scored.failure_mode in NO_FAILURE for scored in scores
        )
        group.scores_out_of_range = sum(scored.score_out_of_range for scored in scores)
        group.infrastructure_failures = sum(scored.infrastructure_failure for scored in scores)
        group.passes = sum(scored.success is True for scored in scores)
        group.passes_with_cost = sum(
            scored.success is True and scored.cost_usd is not None for scored in scores
        )
        group.subtests.update(_values(keys, "subtest"))
        columns = {metric: _values(scores, metric) for metric in measures}
        priced = [scored for scored in scores if scored.cost_source == "estimated"]
        columns[ESTIMATED] = _values(priced, "cost_usd")
        for metric, values in columns.items():
            of = group.distributions if metric in group.distributions else group.sums
            of[metric].extend(values)
        named: dict[str, list[float]] = {}
        for measured in _values(scores, "metrics"):
            for name, value in measured.items():
                named.setdefault(name, []).append(value)
        group.named = {name: Distribution.of(values) for name, values in named.items()}
        group.formulacode = FormulaCodeSums.of(
            _values(scores, "formulacode"),
            failures=sum(scored.success is False for scored in scores if scored.formulacode is not None),
        )
        if measures is MEASURES:
            group.failure_modes.update(_values(scores, "failure_mode"))
            group.owners.update((key.agent, key.model, key.tier) for key in keys)
            group.pass_at_k = PassAtK.of(
                (key.task_id, scored.resolved is True) for key, scored in trials if scored.success is not None
            )
        return group

    def merge(self, other: GroupState) -> None:
        self.change_counts(other, 1)
        self.change_values(other, 1)

    def unmerge(self, other: GroupState) -> None:
        self.change_counts(other, -1)
        self.change_values(other, -1)

    def change_values(self, other: GroupState, sign: int) -> None:
        """Merge (`sign` 1) or unmerge (-1) the distributions of the other group."""
        join(self.distributions, other.distributions, sign)
        if other.named:
            named = {name: Distribution() for name in other.named.keys() - self.named} | dict(self.named)
            join(named, other.named, sign)
            self.named = {name: part for name, part in named.items() if part}

    def change_counts(self, other: GroupState, sign: int) -> None:
        """Merge (`sign` 1) or unmerge (-1) all but the distributions of the other group."""
        for name in _GROUP_COUNTS:
            setattr(self, name, getattr(self, name) + sign * getattr(other, name))
        for name in _COUNTERS:
            count_all(getattr(self, name), getattr(other, name), sign)
        join(self.sums, other.sums, sign)
        change(self.pass_at_k, other.pass_at_k, sign)
        if other.formulacode.trials:
            if self.formulacode is _NOTHING_MEASURED:
                self.formulacode = FormulaCodeSums()
            change(self.formulacode, other.formulacode, sign)

    def as_ruled(self, verdicts: bool | None) -> Self:
        ruled = super().as_ruled(verdicts)
        if ruled is not self:
            ruled.passes = ruled.passes_with_cost = 0
            without = ("pass_rate", COMPOSITE, "cost_of_pass")
            ruled.distributions = {**self.distributions, **{metric: Distribution() for metric in without}}
        return ruled

    @property
    def tasks(self) -> int:
        return distinct_tasks(self.pass_at_k, self.numeric_tasks)

    @property
    def failures(self) -> int:
        """Trials that failed, out of those that could pass (R20)."""
        return self.verdict_trials - self.passes

    def grade_basis(self, judged: bool | None) -> GradeBasis | None:
        """What the grade is based on (R13); None if no trial has a verdict (R31).

        `judged` is what the plan says; None: judge by the trials.
        """
        if not self.trials or not self.has_verdicts:
            return None
        seen = self.distributions["impl_rate"].count > 0
        return "composite_median" if (seen if judged is None else judged) else "mean_pass_rate"

    def grade_score(self, judged: bool | None) -> float | None:
        """The number behind the grade (R13); None while a judged group has no score."""
        basis = self.grade_basis(judged)
        if basis == "composite_median":
            return self.distributions[COMPOSITE].median()
        return self.distributions["pass_rate"].mean() if basis else None

    def total_of(self, metric: str) -> ExactSum:
        return self.sums.get(metric) or self.distributions[metric].finite

    @property
    def coverage(self) -> dict[str, int]:
        counted = {metric: part.count for metric, part in self.distributions.items()}
        return counted | {metric: total.count for metric, total in self.sums.items()}

    def cost_of_pass(self) -> float | None:
        """Known cost per pass in USD, rounded once (R14); None if no trial has a verdict."""
        if not self.trials or not self.has_verdicts:
            return None
        paid = self.passes_with_cost
        return cost_of_pass(self.distributions["cost_usd"].total_over(paid) if paid else None, self.passes)


class Pool(GroupState):
    """A group of a run. The values of its trials lie in cells, which several groups share."""

    __slots__ = ("_views",)

    def _hold(self) -> None:
        self._views = Joined(attrgetter("distributions")), Joined(attrgetter("named"))
        self.distributions, self.named = self._views

    def change_in(self, cell: GroupState, part: GroupState, sign: int) -> None:
        """Note that `part` was merged into a cell of this group (`sign` 1), or unmerged (-1)."""
        for view in self._views:
            view.change(cell, part, sign)

    def change_values(self, other: GroupState, sign: int) -> None:
        raise TypeError("the values of a pool lie in cells, which others share: change one of them")

    def let_go(self) -> None:
        for view in self._views:
            view.let_go()


class Joined(Mapping[str, Distribution]):
    """Distributions of several cells, by name.

    If all values lie in one cell, its distribution is returned. Others are joined when they are first asked
    for. From then on they change with the cells, until `let_go` forgets the large ones.
    """

    def __init__(self, which: Callable[[GroupState], Mapping[str, Distribution]]) -> None:
        self._which = which
        self._cells: dict[GroupState, None] = {}
        self._joined: dict[str, Distribution] = {}

    def change(self, cell: GroupState, part: GroupState, sign: int) -> None:
        self._cells[cell] = None
        parts = self._which(part)
        for name in self._joined.keys() & parts.keys():
            change(self._joined[name], parts[name], sign)
            if not self._joined[name]:
                del self._joined[name]

    def let_go(self) -> None:
        for name in [name for name, joined in self._joined.items() if joined.count > _MOST_JOINED]:
            del self._joined[name]

    def __getitem__(self, name: str) -> Distribution:
        if (joined := self._joined.get(name)) is not None:
            return joined
        cells = list(map(self._which, self._cells))
        if len(cells) == 1:
            return cells[0][name]
        found = [cell[name] for cell in cells if name in cell]
        parts = list(filter(None, found)) or found[:1]
        if len(parts) > 1:
            joined = self._joined[name] = Distribution.joined(parts)
            return joined
        if not parts:
            raise KeyError(name)
        return parts[0]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(chain.from_iterable(map(self._which, self._cells))))

    def __len__(self) -> int:
        return sum(1 for _ in self)


_MOST_JOINED = 4_096
"""The most values of one metric that stay joined after a summary, 32 KiB; they lie in their cells, too."""


def _values(items: Sequence[Any], name: str) -> list[Any]:
    column = list(map(attrgetter(name), items))
    return [value for value in column if value is not None] if None in column else column


class Statistic(Protocol):
    def merge(self, other: Self, /) -> None:
        """Add the other group's counts."""

    def unmerge(self, other: Self, /) -> None:
        """Undo one `merge` of the other group."""


def change(total: S, part: S, sign: int) -> None:
    if sign > 0:
        total.merge(part)
    else:
        total.unmerge(part)


def count(counter: Counter[T], item: T, times: int) -> None:
    """Add `times` to the count of an item; drop it at zero."""
    counter[item] += times
    if not counter[item]:
        del counter[item]


def count_all(counter: Counter[T], others: Counter[T], sign: int) -> None:
    """Add another counter (`sign` 1) or subtract it (-1); drop counts of zero."""
    for item, times in list(others.items()):
        count(counter, item, sign * times)


def distinct_tasks(attempts: PassAtK, others: Collection[str]) -> int:
    return attempts.tasks + (sum(task not in attempts for task in others) if others else 0)


# -----------------------------------------------------------------------------
# Counting: scored trials in the groups and the totals of a run, many at once.


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of one trial: a single slot, or all sub-trials of a trial group (R10).

    Attributes:
        speedup_percentage: FormulaCode's, from the deciding sub-trial; None if not measured (F8).
        compared: false if only baselines took part; pass@k leaves out such a trial (R4).
        unmeasured_failure: the deciding sub-trial failed, and no sub-trial has FormulaCode's sections.
        incomplete: a planned agent has not reported, so the trial has no verdict yet (R10).
    """

    task_id: str
    tier: str | None
    resolved: bool | None
    failure_mode: str | None
    speedup_percentage: float | None
    compared: bool
    infrastructure_failure: bool
    with_benchmarks: bool
    unmeasured_failure: bool
    numeric: bool = False
    incomplete: bool = False


SEVERAL = ("", "")
"""Agent and model of a trial with several agents; real agents never have an empty name."""

_SUMMED = ("cost_usd", ESTIMATED, *_TOKENS)
_COVERED = ("impl_rate", "duration_seconds", "trajectory_length")


class RunTotals(Tally):
    """The counts of the run summary, without baselines. With sign -1, each `count_*` undoes a count with 1.

    Trials with several agents are under the owner :data:`SEVERAL`.
    """

    def __init__(self) -> None:
        self.has_verdicts = True
        self.trials = 0
        self.resolved = 0
        self.no_verdict = 0
        self.numeric = 0
        self.incomplete = 0
        self.infrastructure_failures = 0
        self.scores_out_of_range = 0
        self.with_benchmarks = 0
        self.unmeasured_failures = 0
        self.slots = 0
        self.with_formulacode = 0
        self.failure_modes: Counter[str] = Counter()
        self.owners: Counter[Owner] = Counter()
        self.covered = Counter(dict.fromkeys(_COVERED, 0))
        self.numeric_tasks: Counter[str] = Counter()
        self.attempts = PassAtK()
        self.pass_at_k = PassAtK()
        self.speedup_percentage = ExactSum()
        self.sums = {metric: ExactSum() for metric in _SUMMED}

    def count_outcome(self, outcome: Outcome, sign: int) -> None:
        self.trials += sign
        self.incomplete += sign * outcome.incomplete
        if outcome.incomplete:
            count(self.numeric_tasks, outcome.task_id, sign)
            return
        self.resolved += sign * (outcome.resolved is True)
        self.no_verdict += sign * (outcome.resolved is None and not outcome.numeric)
        self.numeric += sign * outcome.numeric
        self.infrastructure_failures += sign * outcome.infrastructure_failure
        self.with_benchmarks += sign * outcome.with_benchmarks
        self.unmeasured_failures += sign * outcome.unmeasured_failure
        if outcome.failure_mode is not None:
            count(self.failure_modes, outcome.failure_mode, sign)
        if outcome.speedup_percentage is not None:
            change(self.speedup_percentage, ExactSum.of([outcome.speedup_percentage]), sign)
        if outcome.numeric:
            count(self.numeric_tasks, outcome.task_id, sign)
        else:
            attempts = PassAtK.of([(outcome.task_id, outcome.resolved is True)])
            self._count_attempts(attempts, sign, compared=outcome.compared)
        if outcome.compared:
            count(self.owners, (*SEVERAL, outcome.tier), sign)

    def count_trials(self, group: GroupState, sign: int, owner: Owner, *, compared: bool) -> None:
        self.trials += sign * group.trials
        self.resolved += sign * group.resolved
        self.no_verdict += sign * group.no_verdict
        self.numeric += sign * group.numeric
        self.infrastructure_failures += sign * group.infrastructure_failures
        self.with_benchmarks += sign * group.formulacode.with_benchmarks
        if owner[0] != NOP:
            self.unmeasured_failures += sign * (group.failures - group.formulacode.failures)
        count_all(self.failure_modes, group.failure_modes, sign)
        count_all(self.numeric_tasks, group.numeric_tasks, sign)
        change(self.speedup_percentage, group.formulacode.speedup_percentage, sign)
        self._count_attempts(group.pass_at_k, sign, compared=compared)
        if compared:
            count(self.owners, owner, sign * group.trials)

    def count_spent(self, group: GroupState, sign: int) -> None:
        self.slots += sign * group.trials
        self.scores_out_of_range += sign * group.scores_out_of_range
        self.with_formulacode += sign * group.formulacode.trials
        finite = {name: of.finite for name, of in group.distributions.items() if name in self.sums}
        join(self.sums, finite | {name: of for name, of in group.sums.items() if name in self.sums}, sign)
        for metric in _COVERED:
            counted = group.sums.get(metric) or group.distributions[metric]
            self.covered[metric] += sign * counted.count

    def _count_attempts(self, attempts: PassAtK, sign: int, *, compared: bool) -> None:
        change(self.attempts, attempts, sign)
        if compared:
            change(self.pass_at_k, attempts, sign)

    @property
    def tasks(self) -> int:
        return distinct_tasks(self.attempts, self.numeric_tasks)

    @property
    def coverage(self) -> dict[str, int]:
        return {metric: total.count for metric, total in self.sums.items()} | self.covered

    def mean_speedup_percentage(self) -> float | None:
        """Mean over the trials that have one (F8).

        In a run with benchmarks, a failure without measurements counts as 0 %, a speedup of 1.0 (R21). In a
        run without benchmarks, only the percentages of the old result format count.
        """
        total = ExactSum()
        total.merge(self.speedup_percentage)
        if self.with_benchmarks:
            total.extend([0.0] * self.unmeasured_failures)
        return total.mean()


Cell = tuple[str, str, str | None, bool]
"""(agent, model, tier, single trial): trials that count in the same groups and totals."""

Waiting = dict[Cell, list[tuple[SlotKey, Scored]]]

_MOST_WAITING = 16_384
"""The most trials that wait to be counted, at 500 bytes each: 8 MB for a large run."""


_UNMARKED = (0, 0, 0, 0)


class Counts:
    """Groups and totals, and the scored trials that wait to be counted.

    Trials wait until `count`, because counting them in batches costs a tenth of counting each on arrival.
    """

    def __init__(self) -> None:
        self.measures: Collection[str] = MEASURES
        self.clear()

    def clear(self) -> None:
        self.groups: dict[GroupId, Pool] = {}
        self.totals = RunTotals()
        self._cells: dict[tuple[str, str, str | None], GroupState] = {}
        self._entered: Waiting = {}
        self._left: Waiting = {}
        self.waiting = 0
        self._marks: dict[GroupId, tuple[int, ...]] = {}

    def enter(self, key: SlotKey, scored: Scored, *, single: bool) -> bool:
        """Count a single trial or a sub-trial; true if it is time to call `count`."""
        return self._wait(self._entered, key, scored, single=single)

    def leave(self, key: SlotKey, scored: Scored, *, single: bool) -> bool:
        return self._wait(self._left, key, scored, single=single)

    def _wait(self, waiting: Waiting, key: SlotKey, scored: Scored, *, single: bool) -> bool:
        waiting.setdefault((key.agent, key.model, key.tier, single), []).append((key, scored))
        self.waiting += 1
        return self.waiting >= _MOST_WAITING

    def mark(self, group_id: GroupId, *more: int) -> None:
        marks = self._marks[group_id] = tuple(map(add, self._marks.get(group_id, _UNMARKED), more))
        group = self.groups.get(group_id)
        if group is not None:
            group.superseded, group.conflicts, group.impoverished, group.failures_rerun = marks

    def count(self, is_baseline: Callable[[str], bool]) -> set[GroupId]:
        entered, left = self._entered, self._left
        self._entered, self._left, self.waiting = {}, {}, 0
        return self._count(entered, 1, is_baseline) | self._count(left, -1, is_baseline)

    def _count(self, waiting: Waiting, sign: int, is_baseline: Callable[[str], bool]) -> set[GroupId]:
        changed: set[GroupId] = set()
        for (agent, model, tier, single), trials in waiting.items():
            part, baseline = GroupState.of(trials, self.measures), is_baseline(agent)
            if single:
                self.totals.count_trials(part, sign, (agent, model, tier), compared=not baseline)
            self.totals.count_spent(part, sign)
            cell = self._cells.get((agent, model, tier))
            if cell is None:
                cell = self._cells[(agent, model, tier)] = GroupState()
            cell.change_values(part, sign)
            for group_id in groups_of(agent, model, tier, baseline=baseline):
                self._count_in(group_id, part, cell, sign)
                changed.add(group_id)
        return changed

    def _count_in(self, group_id: GroupId, part: GroupState, cell: GroupState, sign: int) -> None:
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = Pool()
            marks = self._marks.get(group_id, _UNMARKED)
            group.superseded, group.conflicts, group.impoverished, group.failures_rerun = marks
        group.change_counts(part, sign)
        group.change_in(cell, part, sign)
        if not group.trials:
            del self.groups[group_id]
