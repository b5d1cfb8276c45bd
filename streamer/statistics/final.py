"""The interval of a run's final pass rate, or the reason why there is none (inference 5)."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from hashlib import sha256
from itertools import groupby, pairwise, takewhile
from math import comb, inf, lgamma, log
from typing import NamedTuple

from streamer.statistics.exact import StatsError, normal, quotient

# -----------------------------------------------------------------------------
# The interval of a run's final pass rate, valid however often you look (inference 5).
#
# A run plans N trials, in an order that is unrelated to their outcomes. M of them will pass. As trials end,
# you want to know which M are still possible. Each prefix of the order is evidence: with S passes among its s
# trials,
#
#     (N+1) * C(M,S) * C(N-M,s-S) / C(N+1,s+1)
#
# is how much better M explains the prefix than a prior under which every M from 0 to N is equally likely. For
# the true M this ratio is a martingale of mean 1. So the probability that it ever falls to alpha is alpha at
# most. Source: Waudby-Smith and Ramdas, "Confidence sequences for sampling without replacement", 2020, arXiv
# 2006.04347.
#
# The M above alpha are a range without gaps. A trial without a final value is counted both ways, as failed
# for the lower end and as passed for the upper end. So it does not matter which trials are still unknown, and
# why.


ALPHA = Fraction(1, 20)
"""Chance, exact, that an interval ever misses. Every published interval has the level 95 %."""

EACH = ALPHA / 2
"""Level of the ranks during a run, and again at its end; together they use alpha."""

PREFIXES = 64
"""The number of prefixes of the order that are tested: every ceil(jN/64) trials."""

_UNSURE = 1e-6
"""A logarithm this close to 0 is recomputed with integers; rounding errors are far smaller."""

_CACHED = 1 << 16

Outcome = bool | None
"""True: passed. False: failed. None: no final value, for any reason (inference 3)."""


@dataclass(frozen=True, slots=True)
class Passes:
    """The range of planned trials that may pass in the end, from `low` to `high`.

    If `low > high`, no number is possible: the assumptions do not hold.
    """

    low: int
    high: int
    planned: int

    @property
    def empty(self) -> bool:
        """Whether no number of passes fits every prefix; then show the hard bounds and the reason."""
        return self.low > self.high

    def rates(self) -> tuple[float, float]:
        """The ends as pass rates, 0 to 1.

        >>> Passes(13, 76, 89).rates()
        (0.14606741573033707, 0.8539325842696629)
        """
        return quotient(self.low, self.planned), quotient(self.high, self.planned)

    def grown(self, later: Sequence[Outcome]) -> Passes:
        """The range for a plan with these extra trials, counted both ways; an empty range stays empty.

        >>> Passes(13, 76, 89).grown([True, None])
        Passes(low=14, high=78, planned=91)
        """
        passed = later.count(True)
        perhaps = 0 if self.empty else later.count(None)
        return Passes(self.low + passed, self.high + passed + perhaps, self.planned + len(later))

    def within(self, bounds: Passes) -> Passes:
        """The intersection of two ranges for the same plan.

        >>> Passes(13, 76, 89).within(Passes(5, 60, 89))
        Passes(low=13, high=60, planned=89)
        """
        return Passes(max(self.low, bounds.low), min(self.high, bounds.high), self.planned)

    def with_unknown(self, trials: int) -> Passes:
        """The range for a plan with this many more trials of unknown outcome.

        >>> Passes(13, 76, 89).with_unknown(2)
        Passes(low=13, high=78, planned=91)
        """
        return Passes(self.low, self.high + trials, self.planned + trials)


def final(
    outcomes: Sequence[Outcome], planned: int, later: Sequence[Outcome] = (), alpha: Fraction = ALPHA
) -> Passes:
    """The possible final numbers of passes (inference 5).

    Args:
        outcomes: outcomes of the first plan's trials in order; the rest is unknown.
        planned: trials of the first plan, at least 1; StatsError if there are more outcomes.
        later: outcomes of all trials that joined the plan after the run began, counted both ways.
        alpha: chance, exact, that the interval misses at any look.

    Ten trials of a plan of 89, of which five passed, then one more with an unknown outcome:

    >>> final([True, False] * 5, planned=89).rates()
    (0.16853932584269662, 0.8539325842696629)
    >>> final([True, False] * 5, planned=89, later=[None])
    Passes(low=15, high=77, planned=90)
    >>> final([True, None, False, True], planned=4)
    Passes(low=2, high=3, planned=4)

    An order that has nothing to do with the outcomes does not give 20 passes and then 25 failures:

    >>> final([True] * 20 + [False] * 25, planned=89).empty
    True
    """
    if planned < max(1, len(outcomes)):
        raise StatsError.unfit("final", planned, f"a plan of at least {max(1, len(outcomes))} trials")
    return final_of_prefixes(planned, at_prefixes(outcomes, prefixes(planned)), alpha).grown(later)


def final_of_prefixes(
    planned: int, counts: Iterable[tuple[int, int, int]], alpha: Fraction = ALPHA
) -> Passes:
    """The possible final passes from trials, passes and unknowns of each prefix.

    >>> final_of_prefixes(89, [(10, 5, 0), (45, 20, 3)])
    Passes(low=27, high=59, planned=89)
    """
    chance = alpha.as_integer_ratio()
    low, high = 0, planned
    for seen, passed, unknown in counts:
        low = max(low, _lowest(planned, seen, passed, *chance))
        high = min(high, planned - _lowest(planned, seen, seen - passed - unknown, *chance))
    return Passes(low, high, planned)


def final_without_order(
    passed: int, failed: int, planned: int, concurrency: int, stopped: int = 0, alpha: Fraction = ALPHA
) -> Passes:
    """The possible final passes if only the concurrency is known (inference 3).

    Trials start in shuffled order, and at most `concurrency` of them still run. With these counted as
    unknown, one prefix is known without any order. `stopped` counts other started trials without a final
    value: crashed, cancelled, retracted, or not judged yet.

    >>> final_without_order(passed=20, failed=25, planned=89, concurrency=8)
    Passes(low=23, high=58, planned=89)
    """
    decided = passed + failed
    if planned < max(1, decided):
        raise StatsError.unfit("final_without_order", planned, f"a plan of at least {max(1, decided)} trials")
    unknown = min(min(concurrency, planned - decided) + stopped, planned - decided)
    low = max(passed, lowest(planned, decided + unknown, passed, alpha))
    high = min(planned - failed, highest(planned, decided + unknown, passed + unknown, alpha))
    return Passes(low, high, planned)


@lru_cache(maxsize=1024)
def prefixes(planned: int, looks: int = PREFIXES) -> tuple[int, ...]:
    """The number of trials in each prefix: ceil(jN/looks) for j = 1 to `looks`, without repeats.

    >>> prefixes(5), prefixes(130)[:6], len(prefixes(130)), prefixes(130)[-1]
    ((1, 2, 3, 4, 5), (3, 5, 7, 9, 11, 13), 64, 130)
    """
    return tuple(sorted({-(-number * planned // looks) for number in range(1, looks + 1)}))


def lowest(planned: int, seen: int, passed: int, alpha: Fraction = ALPHA) -> int:
    """L(S,s): the smallest possible final number of passes after `passed` of the first `seen` trials passed.

    >>> lowest(89, 10, 5), lowest(89, 45, 20), lowest(500, 400, 300), lowest(89, 0, 0), lowest(89, 89, 38)
    (13, 27, 357, 0, 38)
    """
    return _lowest(planned, seen, passed, *alpha.as_integer_ratio())


def highest(planned: int, seen: int, passed: int, alpha: Fraction = ALPHA) -> int:
    """U(S,s): the largest possible final number of passes.

    >>> highest(89, 10, 5), highest(89, 45, 20), highest(500, 400, 300), highest(89, 0, 0)
    (76, 54, 391, 89)
    """
    return planned - lowest(planned, seen, seen - passed, alpha)


def at_prefixes(outcomes: Sequence[Outcome], sizes: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """(trials, passes, unknowns) of each prefix; trials that are not listed are unknown."""
    passed = failed = 0
    for start, end in pairwise((0, *sizes)):
        block = outcomes[start:end]
        passed += block.count(True)
        failed += block.count(False)
        yield end, passed, end - passed - failed


@lru_cache(maxsize=_CACHED)
def _lowest(planned: int, seen: int, passed: int, numerator: int, denominator: int) -> int:
    """Bisection between the smallest possible M and the M that explains the prefix best.

    The ratio grows up to that M, where it is at least 1, since its mean over all M is 1.
    """
    failed = seen - passed
    best = passed if not seen else (planned + 1) * passed // seen
    best = max(passed, min(best, planned - failed))
    logs = _log_factorials((planned + 1).bit_length())
    level = log(denominator / numerator) + log(planned + 1) - logs[passed] - logs[failed]
    level -= logs[planned + 1] - logs[seen + 1] - logs[planned - seen]

    def is_possible(final_passes: int) -> bool:
        left = planned - final_passes
        ratio = level + logs[final_passes] - logs[final_passes - passed] + logs[left] - logs[left - failed]
        if abs(ratio) < _UNSURE:
            return _possible(planned, seen, passed, final_passes, numerator, denominator)
        return ratio > 0

    return passed + bisect_left(range(passed, best), True, key=is_possible)


def _possible(
    planned: int, seen: int, passed: int, final_passes: int, numerator: int, denominator: int
) -> bool:
    failed = seen - passed
    if not passed <= final_passes <= planned - failed:
        return False
    ways = comb(final_passes, passed) * comb(planned - final_passes, failed)
    return denominator * (planned + 1) * ways > numerator * comb(planned + 1, seen + 1)


@lru_cache(maxsize=32)
def _log_factorials(bits: int) -> list[float]:
    return [lgamma(number + 1) for number in range(1 << bits)]


# -----------------------------------------------------------------------------
# A shuffled list of tasks, the same for everyone with the seed (inference 3).


def hash_shuffled(tasks: Iterable[str], seed: str) -> list[str]:
    """The tasks in a random order that is the same for everyone with this seed.

    They are sorted by the sha256 of seed and task; repeats are separate trials. Neither the order of the
    input nor other tasks matter. Do not choose the seed by its result: use the run's name.

    >>> hash_shuffled(["a", "b", "c", "d", "e"], seed="nightly")
    ['e', 'a', 'c', 'b', 'd']
    >>> hash_shuffled(["e", "c", "d", "b"], seed="nightly")
    ['e', 'c', 'b', 'd']
    """
    copies = ((task, copy) for task, count in Counter(tasks).items() for copy in range(count))
    return [task for task, _ in sorted(copies, key=lambda trial: digest(seed, trial[0], str(trial[1])))]


def shuffled_rounds(tasks: Sequence[str], attempts: int, seed: str) -> list[tuple[str, int]]:
    """The trials in rounds: every task gets its first attempt before any gets its second.

    Each round has its own shuffle, the first one by :func:`hash_shuffled`.

    >>> shuffled_rounds(["a", "b", "c"], 2, seed="nightly")
    [('a', 1), ('c', 1), ('b', 1), ('b', 2), ('c', 2), ('a', 2)]
    """
    rounds = (seed if number == 1 else f"{seed} {number}" for number in range(1, attempts + 1))
    return [(task, number) for number, own in enumerate(rounds, 1) for task in hash_shuffled(tasks, own)]


def digest(*parts: str) -> bytes:
    """SHA-256 of texts, for an order that must not depend on their meaning."""
    return sha256("\0".join(parts).encode()).digest()


# -----------------------------------------------------------------------------
# The planned order of trials, the basis for the interval of the final pass rate (inference 3).
#
# The queue gives the order, never the results: failures run longer, so the trials that finish first pass too
# often.


class OrderKind(StrEnum):
    """The source of the order, as declared before the run's first trial started."""

    SHUFFLED = "shuffled"
    """At random, without a look at results."""
    CHOSEN = "chosen"
    """By known facts about the tasks: the longest first, by difficulty, by another agent's results."""
    UNKNOWN = "unknown"
    """Not declared. It may be alphabetical, or the order of a benchmark's list."""


OrderEntry = str | tuple[str, int]

_WEAKEST = (OrderKind.CHOSEN, OrderKind.UNKNOWN, OrderKind.SHUFFLED)


class OrderPlan(NamedTuple):
    """The order in one complete plan; `at` is in microseconds since 1970, None if undated.

    Without `lists_trials` it has neither tasks nor an order, and can only weaken the kind.
    """

    at: int | None
    revision: int
    order: tuple[OrderEntry, ...] | None = None
    kind: OrderKind | None = None
    concurrency: int | None = None
    lists_trials: bool = True

    @property
    def place(self) -> tuple[bool, int, int]:
        """Key that sorts plans by precedence; undated ones come last."""
        return self.at is None, self.at or 0, self.revision


@dataclass(frozen=True, slots=True)
class DeclaredOrder:
    """The order that counts among all plans of a run (inference 3).

    It is `changed` if a later plan has another order. It is `contradicted`, and does not count, if the first
    plan is unknown.
    """

    entries: tuple[OrderEntry, ...] | None = None
    kind: OrderKind = OrderKind.UNKNOWN
    concurrency: int | None = None
    at: int | None = None
    changed: bool = False
    contradicted: bool = False

    def kind_at(self, began: int | None) -> OrderKind:
        """The kind of order in a run whose first trial started at `began`, microseconds since 1970. A shuffle
        counts only if declared by then. A negative time: results have no times. None: no start yet.
        """
        late = self.at is not None and began is not None and self.at > began
        return OrderKind.UNKNOWN if late and self.kind is OrderKind.SHUFFLED else self.kind


def declared_order(plans: Iterable[OrderPlan], *, too_many: bool = False) -> DeclaredOrder:
    """The order of the first plan; later plans can only weaken its kind (inference 3).

    With `too_many` plans the first one is unknown.

    >>> first = OrderPlan(5, 1, ("a", "b"), OrderKind.SHUFFLED)
    >>> resumed = OrderPlan(9, 2, ("b", "a"), OrderKind.SHUFFLED)
    >>> order = declared_order([resumed, first])
    >>> order.entries, order.kind, order.changed, order.contradicted
    (('a', 'b'), <OrderKind.SHUFFLED: 'shuffled'>, True, False)
    >>> order.kind_at(5), order.kind_at(4)
    (<OrderKind.SHUFFLED: 'shuffled'>, <OrderKind.UNKNOWN: 'unknown'>)
    >>> declared_order([resumed, first._replace(at=None)]).contradicted
    True
    """
    every = sorted(plans, key=lambda plan: plan.place)
    listing = [plan for plan in every if plan.lists_trials]
    if not listing:
        return DeclaredOrder()
    first = [plan for plan in every if plan.place == listing[0].place]
    entries = next((plan.order for plan in first if plan.order is not None), None)
    others = [plan for plan in listing if plan.order is not None and not _same_order(plan.order, entries)]
    undated = entries is not None and any(plan.at is None for plan in others)
    kinds = {plan.kind for plan in every if plan.kind is not None}
    declared = any(plan.kind is not None for plan in first)
    return DeclaredOrder(
        entries,
        min(kinds if declared else {*kinds, OrderKind.UNKNOWN}, key=_WEAKEST.index),
        max((plan.concurrency for plan in first if plan.concurrency is not None), default=None),
        listing[0].at,
        changed=bool(others),
        contradicted=too_many or undated or any(plan.place == listing[0].place for plan in others),
    )


def _same_order(one: Sequence[OrderEntry], other: Sequence[OrderEntry] | None) -> bool:
    if other is None:
        return False
    ours, theirs = _numbered(one), _numbered(other)
    common = set(ours) & set(theirs)
    return [entry for entry in ours if entry in common] == [entry for entry in theirs if entry in common]


def _numbered(order: Sequence[OrderEntry]) -> list[OrderEntry]:
    seen: Counter[str] = Counter()
    entries: list[OrderEntry] = []
    for entry in order:
        if isinstance(entry, str):
            seen[entry] += 1
            entries.append((entry, seen[entry]))
        else:
            entries.append(entry)
    return entries


class Trial(NamedTuple):
    """A trial that has started, or that has a place in the queue.

    Attributes:
        slot: a key that is unique within an agent:model.
        outcome: None: waiting, running, cancelled, retracted, not judged, or to be retried.
        place: number in the queue from 0, or the smallest position in a start or result.
    """

    slot: str
    task: str
    outcome: Outcome = None
    place: int | None = None


def in_order(run: str, trials: Iterable[Trial]) -> list[Trial]:
    """The trials by place; those without a place come last.

    Ties are broken by sha256(run, slot), not by the slot's key, because keys may follow difficulty.

    >>> trials = [Trial("x", "x"), Trial("y", "y", place=7), Trial("z", "z", place=0)]
    >>> [trial.slot for trial in in_order("nightly", trials)]
    ['z', 'y', 'x']
    """
    ordered = sorted(trials, key=_place)
    times = Counter(trial.place for trial in ordered)
    if len(times) < len(ordered):
        ordered.sort(
            key=lambda trial: (_place(trial), digest(run, trial.slot) if times[trial.place] > 1 else b"")
        )
    return ordered


def sequence(ordered: Sequence[Trial], planned: int, others: Collection[int] = ()) -> list[Outcome]:
    """The outcomes for the interval, in order, with an unknown trial at each free place.

    A trial may have started unnoticed, so missing trials fill the gaps, the first gaps first. This only
    widens the interval. `others` are places of other agents' or withdrawn trials, which are not gaps.

    >>> ordered = [Trial("a", "a", True, place=0), Trial("b", "b", False, place=3)]
    >>> sequence(ordered, planned=9)
    [True, None, None, False]
    >>> sequence(ordered, planned=9, others={2}), sequence(ordered, planned=2)
    ([True, None, False], [True, False])
    """
    places = with_gaps([trial.place for trial in ordered], planned, others)
    return [None if row is None else ordered[row].outcome for row in places]


def with_gaps(places: Sequence[int | None], planned: int, others: Collection[int] = ()) -> list[int | None]:
    """The indices of ascending places, with None for an unknown trial in a gap.

    >>> with_gaps([0, 3], planned=9)
    [0, None, None, 1]
    """
    indexes: list[int | None] = []
    expected, spare = 0, planned - len(places)
    for index, place in enumerate(places):
        if place is not None:
            while spare > 0 and expected < place:
                if expected not in others:
                    indexes.append(None)
                    spare -= 1
                expected += 1
            expected = max(expected, place + 1)
        indexes.append(index)
    return indexes


def attempts_together(tasks: Sequence[str]) -> bool:
    """Whether all attempts at a task follow one another, so that early results cover few tasks.

    An order with one attempt per task does not count.

    >>> [attempts_together(order) for order in ("abc", "aabbc", "abcabc", "abacbc")]
    [False, True, False, False]
    """
    different = len(set(tasks))
    return len([task for task, _ in groupby(tasks)]) == different < len(tasks)


def _place(trial: Trial) -> float:
    return inf if trial.place is None else trial.place


# -----------------------------------------------------------------------------
# Checks of an order against difficulty and outcomes (inference 5, checks).
#
# Both checks compare the square of a normal score with the square of its quantile, in integers and fractions.
# So no rounding decides. An order that passes them may still not be shuffled: the interval relies on the
# declared shuffle.


DIFFICULTY_LEVEL = Fraction(1, 100)
"""How often a shuffled order fails the check against difficulty, which runs once."""

LOOKS = (4, 2, 1)
"""The check against outcomes runs when a quarter, a half and all of the plan are in."""

OUTCOME_LEVEL = Fraction(1, 100) / len(LOOKS)
"""How often a shuffled order fails the check against outcomes, at each of the three looks."""


def follows_difficulty(tasks: Sequence[str], difficulty: Mapping[str, float]) -> bool:
    """Whether the order of the tasks follows their difficulty, in either direction.

    Spearman's rank correlation rho of first places and difficulty, with mean ranks for ties; rho * sqrt(m-1)
    is compared with the normal distribution, two-sided, at `DIFFICULTY_LEVEL`.

    Args:
        tasks: the whole planned order; each task counts at its first place.
        difficulty: 0 to 1 by task; others are left out. With fewer than two, or equal ones, the answer is no.

    >>> tasks = [f"t{number}" for number in range(20)]
    >>> follows_difficulty(tasks, {task: number / 20 for number, task in enumerate(tasks)})
    True
    >>> follows_difficulty(tasks, {task: number % 3 / 3 for number, task in enumerate(tasks)})
    False
    """
    listed = [difficulty[task] for task in dict.fromkeys(tasks) if task in difficulty]
    places, ranks = _centred(list(range(len(listed)))), _centred(listed)
    together = sum(place * rank for place, rank in zip(places, ranks, strict=True))
    spread = sum(place * place for place in places) * sum(rank * rank for rank in ranks)
    return together**2 * (len(listed) - 1) > Fraction(normal(DIFFICULTY_LEVEL)) ** 2 * spread


def follows_outcome(outcomes: Sequence[Outcome], planned: int) -> bool:
    """Whether passes come early or late: a rank-sum test at a quarter, a half and all of the plan.

    Each look takes the first N/4, N/2 or N planned trials once all have a final value. Later ones are left
    out, because which of them finish first depends on their outcomes.

    >>> follows_outcome([True] * 20 + [False] * 20, planned=80)
    True
    >>> follows_outcome([True, False] * 40, planned=80)
    False
    """
    closed = list(takewhile(lambda outcome: outcome is not None, outcomes))
    sizes = [-(-planned // part) for part in LOOKS]
    return any(_passes_are_separated(closed[:size]) for size in sizes if len(closed) >= size)


def _passes_are_separated(outcomes: Sequence[Outcome]) -> bool:
    """Mann and Whitney's rank-sum test of the places of passes; normal approximation, no ties."""
    size, passed = len(outcomes), outcomes.count(True)
    places = _centred(list(range(size)))
    score = sum(place for place, outcome in zip(places, outcomes, strict=True) if outcome)
    variance = Fraction(passed * (size - passed) * (size + 1), 3)
    return score**2 > Fraction(normal(OUTCOME_LEVEL)) ** 2 * variance


def _centred(values: Sequence[float]) -> list[int]:
    """Twice the rank of each value minus the mean rank, always an integer; ties share a rank.

    >>> _centred([0.1, 0.7, 0.7, 0.2])
    [-3, 2, 2, -1]
    """
    ascending = sorted(range(len(values)), key=lambda at: values[at])
    centred = [0] * len(values)
    start = 0
    while start < len(values):
        end = start
        while end < len(values) and values[ascending[end]] == values[ascending[start]]:
            end += 1
        for at in ascending[start:end]:
            centred[at] = start + end - len(values)
        start = end
    return centred


# -----------------------------------------------------------------------------
# The conclusion about a run's final pass rate, or the reason why there is none (inference 5).


class FinalMissing(StrEnum):
    """The reason why the final pass rate has no interval: the first one that applies."""

    NO_PLAN = "no_plan"
    """The run did not declare its number of trials."""
    PLAN_UNDECLARED_TIERS = "plan_undeclared_tiers"
    PLAN_EXCEEDED = "plan_exceeded"
    ORDER_CHANGED = "order_changed"
    ORDER_CHOSEN = "order_chosen"
    ORDER_UNKNOWN_IN_PART = "order_unknown_in_part"
    """Some trials have no place in the order, and the run did not declare a shuffle with a concurrency."""
    STARTS_MISSING = "starts_missing"
    """Only the concurrency is known, and the starts do not fit it: some are missing, or too many run."""
    ATTEMPTS_TOGETHER = "attempts_together"
    """All trials of a task, its attempts or tiers, are adjacent in the order."""
    ORDER_FOLLOWS_DIFFICULTY = "order_follows_difficulty"
    """The order follows the declared difficulty."""
    ORDER_FOLLOWS_OUTCOME = "order_follows_outcome"
    NOTHING_YET = "nothing_yet"
    EMPTY = "empty"
    """No final pass rate fits all results: the order follows outcomes, or these changed over time."""
    ORDER_UNDECLARED = "order_undeclared"


@dataclass(frozen=True, slots=True)
class TrialPlan:
    """The plan of an agent:model, as far as declared.

    With a declared shuffle, `concurrency` replaces an unknown order. `others` are places of other agents' or
    withdrawn trials. `starts_fit` means that every result has a start, and at most `concurrency` trials run.
    `places` is the length of a declared order, and `order_flaw` what `flaw_of` finds in it. With at most half
    as many places as trials, the attempts at a task share one. With None, only the trials have places.
    """

    trials: int | None
    kind: OrderKind = OrderKind.UNKNOWN
    concurrency: int | None = None
    difficulty: Mapping[str, float] = field(default_factory=dict)
    others: Collection[int] = ()
    places: int | None = None
    starts_fit: bool = True
    contradicted: bool = False
    order_flaw: FinalMissing | None = None


@dataclass(frozen=True, slots=True)
class Conclusion:
    """An interval, or the reason why there is none; exactly one of both is set."""

    passes: Passes | None
    missing: FinalMissing | None


def conclude(
    run: str, plan: TrialPlan, trials: Iterable[Trial], later: Sequence[Outcome] = (), alpha: Fraction = ALPHA
) -> Conclusion:
    """The interval of the final pass rate, or the reason why there is none.

    `later` has the outcomes of all trials that joined the plan after the run began.

    >>> trials = [Trial(f"t{n}", f"t{n}", outcome=n % 2 == 0, place=n) for n in range(10)]
    >>> conclude("r", TrialPlan(89, OrderKind.SHUFFLED), trials).passes
    Passes(low=15, high=76, planned=89)
    >>> conclude("r", TrialPlan(89, OrderKind.CHOSEN), trials).missing
    <FinalMissing.ORDER_CHOSEN: 'order_chosen'>
    """
    ordered = in_order(run, trials)
    placed = _placed(ordered)
    missing = missing_in_plan(plan, len(ordered), placed=placed)
    if missing or plan.trials is None:
        return Conclusion(None, missing)
    if placed and plan.trials <= MOST_TRIALS and (failed := _failed_check(plan, plan.trials, ordered)):
        return Conclusion(None, failed)
    if all(trial.outcome is None for trial in ordered):
        return Conclusion(None, FinalMissing.NOTHING_YET)
    passes = _passes(plan, plan.trials, ordered, later, alpha)
    return Conclusion(None, FinalMissing.EMPTY) if passes.empty else Conclusion(passes, None)


MOST_TRIALS = 100_000
"""Trials of the largest plan with an interval. Factorials of more take too much memory."""


def missing_in_plan(plan: TrialPlan, trials: int, *, placed: bool) -> FinalMissing | None:
    """The reason why the plan rules out an interval for this many started trials, if it does.

    `placed`: all of them have a place in the order.
    """
    if not plan.trials:
        return FinalMissing.NO_PLAN
    if trials > plan.trials:
        return FinalMissing.PLAN_EXCEEDED
    if plan.contradicted:
        return FinalMissing.ORDER_CHANGED
    if plan.kind is OrderKind.CHOSEN:
        return FinalMissing.ORDER_CHOSEN
    if not placed and _only_concurrency(plan) and not plan.starts_fit:
        return FinalMissing.STARTS_MISSING
    if not placed and not _only_concurrency(plan):
        return FinalMissing.ORDER_UNKNOWN_IN_PART
    if plan.places is not None and plan.places < plan.trials:
        several = 2 * plan.places <= plan.trials
        return FinalMissing.ATTEMPTS_TOGETHER if several else FinalMissing.ORDER_UNKNOWN_IN_PART
    return None


def flaw_of(
    tasks: Sequence[str], difficulty: Mapping[str, float], *, whole: bool = True
) -> FinalMissing | None:
    """What is wrong with an order whatever the outcomes (inference 5, checks); None: nothing was found.

    Args:
        tasks: the task of each place.
        difficulty: 0 to 1 by task.
        whole: whether these are all places. Only a whole order is checked against difficulty.
    """
    if attempts_together(tasks):
        return FinalMissing.ATTEMPTS_TOGETHER
    if whole and follows_difficulty(tasks, difficulty):
        return FinalMissing.ORDER_FOLLOWS_DIFFICULTY
    return None


def _failed_check(plan: TrialPlan, planned: int, ordered: Sequence[Trial]) -> FinalMissing | None:
    flaw = plan.order_flaw
    if plan.places is None:
        tasks = [trial.task for trial in ordered]
        flaw = flaw_of(tasks, plan.difficulty, whole=len(ordered) == planned)
    if flaw:
        return flaw
    if follows_outcome(sequence(ordered, planned, plan.others), planned):
        return FinalMissing.ORDER_FOLLOWS_OUTCOME
    return None


def _passes(
    plan: TrialPlan, planned: int, ordered: Sequence[Trial], later: Sequence[Outcome], alpha: Fraction
) -> Passes:
    outcomes = [trial.outcome for trial in ordered]
    passed, failed, stopped = (outcomes.count(outcome) for outcome in (True, False, None))
    if planned > MOST_TRIALS:
        return Passes(passed, planned - failed, planned).grown(later)
    if _placed(ordered):
        return final(sequence(ordered, planned, plan.others), planned, later, alpha)
    return final_without_order(passed, failed, planned, plan.concurrency or 1, stopped, alpha).grown(later)


def _placed(ordered: Sequence[Trial]) -> bool:
    return all(trial.place is not None for trial in ordered)


def _only_concurrency(plan: TrialPlan) -> bool:
    return plan.kind is OrderKind.SHUFFLED and plan.concurrency is not None
