"""The comparison of two sets of trials at the same tasks, as one pure function (inference 7).

Worker, readers, page, report and `streamer compare` all call `paired`. It needs only the numbers of known,
passed and unknown trials of each side per task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, combinations, takewhile
from math import isfinite
from typing import Any, NamedTuple, Protocol, TypeVar

from streamer.statistics.ability import Clusters, Interval, rate_interval
from streamer.statistics.exact import StatsError, quotient, root_of_quotient, sign_test
from streamer.statistics.final import ALPHA, EACH, Outcome, Passes, at_prefixes, final_of_prefixes, prefixes

# -----------------------------------------------------------------------------
# Two agents on the same tasks: the final difference, and evidence at any look (inference 7).
#
# A pair is the same task and attempt on both sides. The pairs are in the order of the side that began later.
# An unknown pair counts in every way that is still possible.


DIFFERENCE_PREFIXES = 16
"""Prefixes that the final difference tests; a margin has two sides, so each look is needed twice."""


class Pair(NamedTuple):
    """The outcomes of both sides; None without a final value."""

    ours: Outcome
    theirs: Outcome

    def won(self) -> Outcome:
        """Whether only our side passed; None while that is still possible.

        >>> Pair(True, False).won(), Pair(True, None).won(), Pair(None, True).won()
        (True, None, False)
        """
        if self.ours is False or self.theirs is True:
            return False
        return None if self.ours is None or self.theirs is None else True

    def lost(self) -> Outcome:
        return Pair(self.theirs, self.ours).won()


class Compared(Protocol):
    def won(self) -> Outcome: ...
    def lost(self) -> Outcome: ...


class Ends(NamedTuple):
    low: Fraction
    high: Fraction


class FinalDifference(NamedTuple):
    """Our final passes minus theirs over all planned pairs; if `low > high`, the assumptions do not hold."""

    low: int
    high: int
    planned: int

    @property
    def empty(self) -> bool:
        return self.low > self.high

    def ends(self) -> Ends:
        return Ends(Fraction(self.low, self.planned), Fraction(self.high, self.planned))


def final_difference(
    pairs: Sequence[Pair], planned: int, alpha: Fraction = ALPHA, every: Sequence[Compared] = ()
) -> FinalDifference:
    """The possible final differences, from wins and losses by section 5, each at half of alpha.

    Unlisted `pairs` are unknown. Raises StatsError if `planned` is below 1 or below their number. `every`
    adds pairs without a place in the order to the last prefix.

    >>> pairs = [Pair(False, True), Pair(True, True), Pair(False, False)] * 10
    >>> final_difference(pairs, planned=89), final_difference(pairs, planned=30)
    (FinalDifference(low=-54, high=2, planned=89), FinalDifference(low=-10, high=-10, planned=30))
    """
    if planned < max(1, len(pairs)):
        raise StatsError.unfit("final_difference", planned, f"a plan of at least {max(1, len(pairs))} pairs")
    sizes = prefixes(planned, DIFFERENCE_PREFIXES)
    won, lost = (
        final_of_prefixes(planned, at_prefixes(one, sizes), alpha / 2)
        for one in ([pair.won() for pair in pairs], [pair.lost() for pair in pairs])
    )
    hard_won, hard_lost = _hard_wins_and_losses(every, planned)
    return difference_of(won.within(hard_won), lost.within(hard_lost))


def hard_difference(pairs: Sequence[Compared], planned: int) -> FinalDifference:
    """The final differences that missing trials allow, in any order and without assumptions (inference 4).

    >>> hard_difference([Pair(True, False), Pair(None, True), Pair(None, None)], planned=4)
    FinalDifference(low=-2, high=3, planned=4)
    """
    return difference_of(*_hard_wins_and_losses(pairs, planned))


def difference_of(won: Passes, lost: Passes) -> FinalDifference:
    """The final differences from the possible wins and losses of one plan.

    >>> difference_of(Passes(2, 7, 10), Passes(1, 3, 10))
    FinalDifference(low=-1, high=6, planned=10)
    """
    planned = won.planned
    if won.empty or lost.empty:
        return FinalDifference(planned + 1, -planned - 1, planned)
    return FinalDifference(won.low - lost.high, won.high - lost.low, planned)


def _hard_wins_and_losses(pairs: Sequence[Compared], planned: int) -> tuple[Passes, Passes]:
    won, lost = [pair.won() for pair in pairs], [pair.lost() for pair in pairs]
    return (
        Passes(won.count(True), planned - won.count(False), planned),
        Passes(lost.count(True), planned - lost.count(False), planned),
    )


class GateVerdict(StrEnum):
    """The answer of a gate. `undecided` at the end: the evidence is too weak either way."""

    PASS = "pass"  # noqa: S105 (no password)
    FAIL = "fail"
    UNDECIDED = "undecided"


def no_further_behind(ends: Ends | Interval | None, margin: Fraction) -> GateVerdict:
    """Whether a number between the ends is at least `-margin`.

    >>> answers = [no_further_behind(Ends(Fraction(low, 100), Fraction(high, 100)), Fraction("0.02"))
    ...     for low, high in ((-2, 5), (-9, -3), (-9, 5))]
    >>> [str(answer) for answer in answers], str(no_further_behind(None, Fraction(0)))
    (['pass', 'fail', 'undecided'], 'undecided')
    """
    if ends is None or ends.low > ends.high:
        return GateVerdict.UNDECIDED
    if ends.low >= -margin:
        return GateVerdict.PASS
    return GateVerdict.FAIL if ends.high < -margin else GateVerdict.UNDECIDED


def evidence_worse(pairs: Sequence[Compared], planned: int) -> float:
    """The evidence that we are worse: the largest `e_value`, at least 1, over the prefixes of the order.

    If no task favours a side, it ever reaches 1/alpha with probability alpha at most. Reject at 1/alpha for a
    fixed direction, and at 2/alpha for either. An unknown pair counts as a win as long as that is possible.

    >>> evidence_worse([Pair(False, True)] * 7, planned=50), evidence_worse([], planned=50)
    (31.875, 1.0)
    """
    wins = list(accumulate((pair.won() is not False for pair in pairs), initial=0))
    losses = list(accumulate((pair.lost() is True for pair in pairs), initial=0))
    seen = (size for size in (0, *prefixes(planned)) if size <= len(pairs))
    return max(e_value(wins[size], losses[size]) for size in seen)


def at_worst(pairs: Sequence[Compared], planned: int) -> tuple[int, int]:
    """The possible wins and the certain losses, from pairs in any order.

    >>> at_worst([Pair(False, True), Pair(None, True), Pair(True, None)], planned=4)
    (2, 1)
    """
    lost = sum(pair.lost() is True for pair in pairs)
    return planned - sum(pair.won() is False for pair in pairs), lost


def is_behind(ordered: Sequence[Compared], every: Sequence[Compared], planned: int) -> bool:
    """Whether we may be called worse: we lose more than we win, so far or in any case. If the two contradict
    each other, we may not. Of the `ordered` pairs, the longest prefix without an unknown pair counts.

    >>> loss, win, unknown = Pair(False, True), Pair(True, False), Pair(None, False)
    >>> is_behind([loss, unknown, win, win], [], 9), is_behind([unknown, loss], [loss] * 3, 5)
    (True, True)
    """
    decided = list(takewhile(lambda pair: None not in (pair.won(), pair.lost()), ordered))
    (wins, losses), (most, sure) = at_worst(decided, len(decided)), at_worst(every, planned)
    won, can_lose = (
        sum(pair.won() is True for pair in every),
        planned - sum(pair.lost() is False for pair in every),
    )
    return (wins < losses or most < sure) and not (wins > losses or won > can_lose)


MOST_EVIDENCE = 1e300


@lru_cache(maxsize=1 << 16)
def e_value(wins: int, losses: int) -> float:
    """One-sided evidence that a coin with these wins and losses is against us.

    It is the likelihood of chances from 1/2 to 1 against us, weighted equally, over the likelihood of 1/2.
    With n = wins + losses that is sum_{j <= losses} C(n+1, j) / ((n+1) C(n, losses)).

    Floats give 12 digits on every machine, because all terms are positive. It exceeds 1 only if we lose more
    than we win, and is capped near 1e300.

    >>> round(e_value(10, 30), 9), round(e_value(0, 8), 9), e_value(0, 0)
    (63.227923732, 56.777777778, 1.0)
    """
    total = term = 1.0  # the sum from its last term backwards, in units of this term
    for fewer in range(losses):
        term *= (losses - fewer) / (wins + 2 + fewer)
        total += term
        if term < 1e-17 * total or total > MOST_EVIDENCE:
            break
    return total / (wins + 1)


# -----------------------------------------------------------------------------
# The pairing of trials, and the comparison of both sides of a task (inference 7).


Task = tuple[str | None, str | None, str]
K = TypeVar("K")
V = TypeVar("V")


class Pairing(NamedTuple):
    """The key of trials that form a pair; `repeat` counts equal numbers that differ only in their shards."""

    task_id: str
    attempt: int
    tier: str | None
    subtest: str | None
    repeat: int = 0

    @property
    def task(self) -> Task:
        return (self.tier, self.subtest, self.task_id)


def pairings_of(keys: Sequence[Any], attempts: int | None = None) -> tuple[list[Pairing], set[Pairing]]:
    """The pairing of each trial of one agent, and those whose number is still unknown (inference 3).

    Repeats that differ only in their shards are numbered by the shards' names. A missing name may come first,
    so the numbers are open until all planned `attempts` are known.
    """
    are_named = any(key.shard for key in keys) and all(key.attempt == 1 for key in keys)
    pairings = [Pairing(key.task_id, key.attempt, key.tier, key.subtest) for key in keys]
    repeats: Counter[Pairing] = Counter()
    are_unique = len(set(pairings)) == len(pairings)
    for row in () if are_unique else sorted(range(len(keys)), key=lambda row: keys[row].shard):
        pairing = pairings[row]
        number = repeats[pairing]
        pairings[row] = pairing._replace(attempt=1 + number) if are_named else pairing._replace(repeat=number)
        repeats[pairing] += 1
    if not are_named:
        return pairings, set()
    times = Counter(pairing.task for pairing in pairings)
    return pairings, {pairing for pairing in pairings if times[pairing.task] < (attempts or 1)}


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Each key with its values, both in the order in which they come."""
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


class Attempts(NamedTuple):
    """One side's trials at one task; `unknown` are planned trials without a final value (inference 3)."""

    known: int
    passed: int
    unknown: int = 0

    @property
    def planned(self) -> int:
        return self.known + self.unknown

    def settled(self, *, passes: bool) -> Attempts:
        return Attempts(self.planned, self.passed + self.unknown * passes)


class PairedTask(NamedTuple):
    ours: Attempts
    theirs: Attempts

    @property
    def even(self) -> bool:
        return self.ours.planned == self.theirs.planned

    def won(self) -> bool | None:
        """Whether we pass it more often in equally many attempts; None while that is open.

        Neither side wins a task with unequal attempts, which favour one of two equal sides. At a pass rate of
        20 %, one trial beats five in 20 % of cases, and loses in 54 %.

        >>> one = PairedTask(Attempts(1, 1), Attempts(1, 0))
        >>> other = PairedTask(Attempts(1, 1), Attempts(0, 0, 1))
        >>> one.won(), other.won()
        (True, None)
        """
        ours, theirs = self
        if not self.even or ours.passed + ours.unknown <= theirs.passed:
            return False
        return True if ours.passed > theirs.passed + theirs.unknown else None

    def lost(self) -> bool | None:
        return PairedTask(self.theirs, self.ours).won()


class Totals(NamedTuple):
    trials: int
    total: Fraction

    @classmethod
    def of(cls, values: Sequence[float]) -> Totals:
        if not all(map(isfinite, values)):
            raise StatsError.unfit("mean_differences", list(values), "finite values")
        return cls(len(values), sum(map(Fraction, values), Fraction()))


class Outcomes(NamedTuple):
    """The trials of one side by task. Each of the `unnamed` tasks has this many planned `attempts`."""

    tasks: Mapping[str, Attempts]
    unnamed: int = 0
    attempts: int = 1


class CommonTasks(NamedTuple):
    """The tasks of two sides.

    Attributes:
        pairs: both sides of each common task by name. Planned tasks without a name have a number, and count
            if they may be common.
        total: all tasks of each side, including planned ones.
    """

    pairs: dict[str | int, PairedTask]
    total: tuple[int, int]
    differ: bool


def outcomes_of(
    tasks: Mapping[str, Mapping[str, tuple[int, int, int]]],
    labels: Collection[str],
    planned: int | None = None,
) -> Outcomes:
    seen = {
        task: Attempts(*map(sum, zip(*chosen, strict=True)))
        for task, counts in tasks.items()
        if (chosen := [counts[label] for label in labels if label in counts])
    }
    [(attempts, _)] = Counter(one.planned for one in seen.values()).most_common(1) or [(1, 0)]
    missing = (planned or 0) - sum(one.planned for one in seen.values())
    return Outcomes(seen, max(0, -(-missing // attempts)), attempts)


def common_tasks(a: Outcomes, b: Outcomes) -> CommonTasks:
    only_a = [task for task in a.tasks if task not in b.tasks]
    only_b = [task for task in b.tasks if task not in a.tasks]
    pairs: dict[str | int, PairedTask] = {
        task: PairedTask(one, b.tasks[task]) for task, one in a.tasks.items() if task in b.tasks
    }
    total = (len(a.tasks) + a.unnamed, len(b.tasks) + b.unnamed)
    if len(only_a) > b.unnamed or len(only_b) > a.unnamed:
        return CommonTasks(pairs, total, differ=True)
    none, other_none = Attempts(0, 0, a.attempts), Attempts(0, 0, b.attempts)
    pairs |= {task: PairedTask(a.tasks[task], other_none) for task in only_a}
    pairs |= {task: PairedTask(none, b.tasks[task]) for task in only_b}
    unseen = min(a.unnamed - len(only_b), b.unnamed - len(only_a))
    pairs |= {number: PairedTask(none, other_none) for number in range(unseen)}
    return CommonTasks(pairs, total, differ=len(pairs) < max(total))


@dataclass(frozen=True, slots=True)
class Paired:
    """The comparison of two sides, ours minus theirs.

    `uneven` tasks have unequal attempts, and the test leaves them out. The `difference` of pass rates is
    biased while trials are missing. The `p_value` is the largest p-value of the exact two-sided sign test
    that missing trials allow.
    """

    tasks: int
    ahead: int
    behind: int
    equal: int
    open: int
    uneven: int
    difference: float | None
    reachable: tuple[float, float] | None
    ended: bool
    interval: Interval | None
    p_value: float | None

    @property
    def agrees(self) -> bool:
        """Whether the signs of the tasks and the mean agree: only then is a side ahead."""
        return (self.ahead - self.behind) * (self.difference or 0.0) > 0

    @property
    def over(self) -> bool:
        """Whether no more trials come: only then is there a test or an interval."""
        return self.ended or self.p_value is not None or self.interval is not None

    @property
    def certain(self) -> bool:
        """Whether one side is ahead at the end: the sign test shows it, and the mean agrees."""
        return self.p_value is not None and self.p_value <= ALPHA and self.agrees


def paired(
    pairs: Sequence[PairedTask],
    alpha: Fraction = ALPHA,
    *,
    complete: bool = True,
    over: bool = False,
    tested: Sequence[PairedTask] | None = None,
) -> Paired:
    """Compare two sides over their common tasks.

    Args:
        complete: false if more pairs are planned, so that no task has ended.
        over: no more trials come, so missing ones stay missing.
        tested: the same tasks with common attempts only; None: as in `pairs`.

    Both sides of three tasks, where the last one is still running on our side:

    >>> done = [PairedTask(Attempts(1, 1), Attempts(1, 0)), PairedTask(Attempts(1, 1), Attempts(1, 1))]
    >>> running = paired([*done, PairedTask(Attempts(0, 0, 1), Attempts(1, 1))])
    >>> running.ahead, running.equal, running.open, running.difference, running.ended, running.p_value
    (1, 1, 1, 0.5, False, None)
    >>> ended = paired([*done, PairedTask(Attempts(1, 0), Attempts(1, 1))])
    >>> ended.difference, ended.p_value, ended.interval
    (0.0, 1.0, None)
    """
    even = [pair for pair in (pairs if tested is None else tested) if pair.even and pair.ours.planned]
    won, lost = [pair.won() for pair in even], [pair.lost() for pair in even]
    ahead, behind = won.count(True), lost.count(True)
    equal = sum(one is False and other is False for one, other in zip(won, lost, strict=True))
    open_ = len(even) - ahead - behind - equal
    ended = complete and bool(pairs) and all(not a.unknown and not b.unknown for a, b in pairs)
    is_last = ended or (complete and over)
    more, fewer = max(ahead, behind), min(ahead, behind)
    return Paired(
        tasks=len(pairs),
        ahead=ahead,
        behind=behind,
        equal=equal,
        open=open_,
        uneven=len(pairs) - len(even),
        difference=_difference_at_end(pairs) if is_last else rate_differences(pairs).mean(),
        reachable=_rates(reachable(pairs)) if complete else None,
        ended=ended,
        interval=possible_interval(pairs, alpha) if is_last else None,
        p_value=sign_test(more, min(more, fewer + open_)) if is_last and even else None,
    )


LEAST_TASKS = 5
"""Minimum number of tasks for an interval of the difference of pass rates."""

LEAST_TASKS_OF_A_MEAN = 10
"""Minimum number of tasks for an interval of the difference of other means."""


def possible_interval(pairs: Sequence[PairedTask], alpha: Fraction = ALPHA) -> Interval | None:
    """The interval; it covers the one with all missing trials against us, and the one with all for us."""
    if not any(a.unknown or b.unknown for a, b in pairs):
        return difference_interval(pairs, alpha)
    worst = [PairedTask(a.settled(passes=False), b.settled(passes=True)) for a, b in pairs]
    best = [PairedTask(a.settled(passes=True), b.settled(passes=False)) for a, b in pairs]
    first, last = difference_interval(worst, alpha), difference_interval(best, alpha)
    if first is None or last is None:
        return None
    return Interval(min(first.low, last.low), max(first.high, last.high))


def difference_interval(pairs: Sequence[PairedTask], alpha: Fraction = ALPHA) -> Interval | None:
    """The interval of the difference of two pass rates on similar tasks; None with fewer than five tasks.

    It joins the intervals of both rates with their correlation on the same task. Source: Newcombe, "Improved
    confidence intervals for the difference between binomial proportions based on paired data", 1998, method
    10. Rates and correlation are clustered by task, and attempts may be unequal. Equal differences still have
    a width. Tasks without a result on both sides are left out.

    >>> difference_interval([PairedTask(Attempts(1, 1), Attempts(1, 0))] * 5)
    Interval(low=0.142184579535095, high=1.0)
    """
    tasks = Counter((*a[:2], *b[:2]) for a, b in pairs if a.known and b.known)
    if tasks.total() < LEAST_TASKS:
        return None
    ours = Clusters.of_counts((n, passed, times) for (n, passed, _, _), times in tasks.items())
    theirs = Clusters.of_counts((k, passed, times) for (_, _, k, passed), times in tasks.items())
    first, second = rate_interval(ours, alpha), rate_interval(theirs, alpha)
    assert first and second, "rates have intervals from two tasks on"  # noqa: PT018
    rate, other = Fraction(ours.total, ours.trials), Fraction(theirs.total, theirs.trials)
    likeness = Fraction(_correlation(tasks, ours, theirs))
    down, up = rate - Fraction(first.low), Fraction(first.high) - rate
    other_down, other_up = other - Fraction(second.low), Fraction(second.high) - other
    low = rate - other - _joined(down, other_up, likeness)
    high = rate - other + _joined(up, other_down, likeness)
    return Interval(max(-1.0, _rounded(low)), min(1.0, _rounded(high)))


def _joined(one: Fraction, other: Fraction, likeness: Fraction) -> Fraction:
    """The distance from the difference to its end, given both rates' distances to their ends."""
    square = max(Fraction(), one * one - 2 * likeness * one * other + other * other)
    return Fraction(root_of_quotient(square.numerator, square.denominator))


def _correlation(tasks: Mapping[tuple[int, int, int, int], int], ours: Clusters, theirs: Clusters) -> float:
    residuals = [
        (passed * ours.trials - n * ours.total, other * theirs.trials - k * theirs.total, times)
        for (n, passed, k, other), times in tasks.items()
    ]
    products = Fraction(sum(one * other * times for one, other, times in residuals))
    ours_squared = sum(one * one * times for one, _, times in residuals)
    spread = ours_squared * sum(other * other * times for _, other, times in residuals)
    if not spread:
        return 0.0
    if products > 0:  # half of the geometric mean of both sides' trials for each task, squared
        correction = Fraction((ours.trials * theirs.trials) ** 2, 2 * ours.tasks**2)
        products = max(Fraction(), products - correction)
    size = root_of_quotient(products.numerator**2, products.denominator**2 * spread)
    return size if products > 0 else -size


def _difference_at_end(pairs: Sequence[PairedTask]) -> float | None:
    """Our pass rate minus theirs, over all trials at tasks with results on both sides; None without any."""
    known = [
        PairedTask(a._replace(unknown=0), b._replace(unknown=0)) for a, b in pairs if a.known and b.known
    ]
    ends = reachable(known)
    return ends and _rounded(ends.low)


def rate_differences(pairs: Sequence[PairedTask]) -> Clusters:
    decided = [(ours, theirs) for ours, theirs in pairs if ours.known and theirs.known]
    return _differences(
        [(Totals(a.known, Fraction(a.passed)), Totals(b.known, Fraction(b.passed))) for a, b in decided]
    )


def mean_differences(tasks: Iterable[tuple[Sequence[float], Sequence[float]]]) -> Clusters:
    """The paired differences of a metric, over the tasks with values on both sides.

    `tasks` has the values of both sides' trials; StatsError if they are not finite.

    >>> mean_differences([([0.5, 0.5], [0.25, 0.5]), ([1.0, 0.0], [0.0, 0.0]), ([1.0], [])]).mean()
    0.3125
    """
    return _differences([(Totals.of(ours), Totals.of(theirs)) for ours, theirs in tasks if ours and theirs])


def _differences(tasks: Sequence[tuple[Totals, Totals]]) -> Clusters:
    if all(ours.trials == theirs.trials for ours, theirs in tasks):
        return Clusters.of_sums((a.trials, a.total - b.total) for a, b in tasks)
    return Clusters.of_sums((1, a.total / a.trials - b.total / b.trials) for a, b in tasks)


def reachable(pairs: Sequence[PairedTask]) -> Ends | None:
    """The differences of final pass rates that missing trials allow, without assumptions (inference 4).

    They cover all planned trials of the tasks. None without tasks, or if a side plans no trial.

    >>> one, other = PairedTask(Attempts(1, 1), Attempts(1, 0)), PairedTask(Attempts(0, 0, 1), Attempts(1, 1))
    >>> reachable([one, other])
    Ends(low=Fraction(0, 1), high=Fraction(1, 2))
    """
    sides = list(zip(*pairs, strict=True))
    if not sides or not all(sum(one.planned for one in side) for side in sides):
        return None
    (low, high), (other_low, other_high) = map(_ends, sides)
    return Ends(low - other_high, high - other_low)


def _ends(side: Sequence[Attempts]) -> tuple[Fraction, Fraction]:
    planned, passed = sum(one.planned for one in side), sum(one.passed for one in side)
    unknown = sum(one.unknown for one in side)
    return Fraction(passed, planned), Fraction(passed + unknown, planned)


def _rates(ends: Ends | None) -> tuple[float, float] | None:
    return ends and (_rounded(ends.low), _rounded(ends.high))


def _rounded(value: Fraction) -> float:
    return quotient(value.numerator, value.denominator)


# -----------------------------------------------------------------------------
# The places that agents may truly have: all ranges hold together (inference 7).
#
# During a run, evidence shows at some level that one of two agents is worse, however often you look. At the
# end `least_losses_at_end` gives the number of lost tasks that shows it, at a separate level.


Direction = tuple[str, str]


class ComparisonMissing(StrEnum):
    """The reason why agents are not compared, or not ranked."""

    NO_PLAN = "no_plan"
    """The run did not declare its number of trials, and has not ended with all of them in."""
    PLAN_EXCEEDED = "plan_exceeded"
    """There are more trials than planned, and the run has not ended with all of them in."""
    TOO_MANY_AGENTS = "too_many_agents"
    TOO_MANY_TRIALS = "too_many_trials"
    """More trials than can be compared twice a second, or more tasks than can be ranked."""
    NO_VERDICTS = "no_verdicts"


class Place(NamedTuple):
    best: int
    worst: int


def holm(
    hypotheses: int, shown: Callable[[Fraction], Collection[Direction]], alpha: Fraction
) -> Collection[Direction]:
    """The directions that are shown, all together at level alpha.

    Some of m are shown at alpha/m, then perhaps more at alpha/(m-1), and so on. Source: Holm, "A simple
    sequentially rejective multiple test procedure", 1979.
    """
    result: Collection[Direction] = ()
    while len(result) < hypotheses:
        more = set(shown(alpha / (hypotheses - len(result))))
        if len(more) <= len(result):
            break
        result = more
    return result


def places(
    agents: Iterable[str], shown: Callable[[Fraction], Collection[Direction]], alpha: Fraction = ALPHA
) -> dict[str, Place]:
    """The best and the worst place that each agent may truly have.

    An agent is behind every agent that it is shown to be worse than. Two agents that were each shown to be
    worse than the other, at different looks, are level. `shown` returns at least the same directions at a
    higher level. `alpha` is the chance that any range is ever wrong.

    >>> p_values = {("c", "a"): 0.001, ("c", "b"): 0.002, ("b", "a"): 0.04}
    >>> places("abc", lambda level: [pair for pair, p in p_values.items() if p <= level])
    {'a': Place(best=1, worst=2), 'b': Place(best=1, worst=2), 'c': Place(best=3, worst=3)}
    """
    ranked = list(agents)
    directions_shown = holm(len(ranked) * (len(ranked) - 1), shown, alpha)
    certain = [
        (behind, ahead) for behind, ahead in directions_shown if (ahead, behind) not in directions_shown
    ]
    best = Counter(behind for behind, _ in certain)
    worst = Counter(ahead for _, ahead in certain)
    return {agent: Place(1 + best[agent], len(ranked) - worst[agent]) for agent in ranked}


def places_at_end(
    tasks: Mapping[str, Mapping[str, Sequence[Attempts]]],
    alpha: Fraction = EACH,
    common: Callable[[str, str, Collection[str]], Collection[str]] = lambda _, __, tasks: tasks,
) -> dict[str, Place]:
    """The places of agents whose runs are over, by the one-sided sign test of every two.

    A task goes to the agent that passes it more often in equal attempts. An agent that passes at least as
    often in all trials of the common tasks is never behind. For each task the newest runs count, as many as
    give both agents equally many trials.

    Args:
        tasks: each agent's trials by task, newest run first. Open tasks count against either claim.
        alpha: chance of a wrong range at one fixed look. Live ranks have the other half.
        common: chooses which common tasks of two agents count.

    >>> passed, failed = [Attempts(1, 1)], [Attempts(1, 0)]
    >>> places_at_end({"a": dict.fromkeys("abcdefgh", passed), "b": dict.fromkeys("abcdefgh", failed)})
    {'a': Place(best=1, worst=1), 'b': Place(best=2, worst=2)}
    """
    pools = {
        agent: {task: _pools(runs) for task, runs in tasks_of_agent.items()}
        for agent, tasks_of_agent in tasks.items()
    }
    counts: dict[Direction, tuple[int, int]] = {}
    for one, other in combinations(tasks, 2):
        both = common(one, other, tasks[one].keys() & tasks[other].keys())
        means = [_mean(trials for task in both for trials in tasks[agent][task]) for agent in (one, other)]
        if means[0] == means[1]:
            continue
        behind, ahead = (one, other) if means[0] < means[1] else (other, one)
        pairs = Counter(_of_equal_attempts(pools[behind][task], pools[ahead][task]) for task in both)
        counts[behind, ahead] = (
            sum(times for pair, times in pairs.items() if pair and pair.won() is not False),
            sum(times for pair, times in pairs.items() if pair and pair.lost() is True),
        )
    most = max((sum(count) for count in counts.values()), default=0)

    def shown(level: Fraction) -> list[Direction]:
        least = least_losses_at_end(most, level)
        return [pair for pair, (wins, losses) in counts.items() if losses >= least[wins + losses]]

    return places(tasks, shown, alpha)


def _mean(trials: Iterable[Attempts]) -> Fraction:
    sides = list(trials)
    return Fraction(sum(one.passed for one in sides), max(1, sum(one.planned for one in sides)))


def _pools(runs: Iterable[Attempts]) -> dict[int, Attempts]:
    pools, total = dict[int, Attempts](), Attempts(0, 0)
    for run in runs:
        total = Attempts(*map(sum, zip(total, run, strict=True)))
        pools[total.planned] = total
    return pools


def _of_equal_attempts(ours: Mapping[int, Attempts], theirs: dict[int, Attempts]) -> PairedTask | None:
    planned = next((planned for planned in reversed(theirs) if planned in ours), None)
    return None if planned is None else PairedTask(ours[planned], theirs[planned])


@lru_cache(maxsize=256)
def least_losses_at_end(tasks: int, level: Fraction) -> tuple[int, ...]:
    """The fewest losses for the one-sided sign test to show that we are worse, once all tasks are in.

    There is one entry for each number n of differing tasks, from 0 to `tasks`; n + 1: even n losses are too
    few. `level` is exact. Five losses in a row have p = 1/32. Of eight tasks, seven losses have p = 9/256,
    and six have 37/256:

    >>> least_losses_at_end(8, Fraction(1, 20))
    (1, 2, 3, 4, 5, 5, 6, 7, 7)
    """
    numerator, denominator = level.as_integer_ratio()
    least = [1]
    losses, ways, above = 1, 0, 0  # C(n, losses), and the sum of all C(n, j) from j = losses on
    for n in range(1, tasks + 1):
        fewer = 1 if losses == n else ways * losses // (n - losses)  # C(n-1, losses-1)
        above = 2 * above + fewer
        ways += fewer
        if denominator * above > numerator * 2**n:
            above -= ways
            ways = ways * (n - losses) // (losses + 1)
            losses += 1
        least.append(losses)
    return tuple(least)


# -----------------------------------------------------------------------------
# The answer of a gate: whether one side ends, or is, at most a margin behind (inference 7). Exact.


def ends_of(values: Clusters) -> Ends | None:
    """The mean of complete differences, as two equal ends; None when empty.

    >>> ends_of(Clusters.of_sums([(1, -1.0), (1, 0.0)]))
    Ends(low=Fraction(-1, 2), high=Fraction(-1, 2))
    """
    if not values.trials:
        return None
    mean = Fraction(values.total, values.trials * values.unit)
    return Ends(mean, mean)


def ability(
    worse: float, interval: Interval | None, margin: Fraction, alpha: Fraction, *, behind: bool = True
) -> GateVerdict:
    """Whether the agent is at most `margin` worse on similar tasks.

    Args:
        worse: evidence that it is worse, which fails the gate at 1/alpha at any time.
        interval: of the paired differences at the end; None before, and below five tasks.
        behind: the mean agrees; otherwise the evidence cannot fail the gate.

    >>> shown = ability(31.9, None, Fraction("0.02"), Fraction("0.05"))
    >>> close = ability(1.0, Interval(-0.01, 0.04), Fraction("0.02"), Fraction("0.05"))
    >>> wide = ability(1.0, Interval(-0.09, 0.04), Fraction("0.02"), Fraction("0.05"))
    >>> str(shown), str(close), str(wide)
    ('fail', 'pass', 'undecided')
    """
    if behind and Fraction(worse) >= 1 / alpha:
        return GateVerdict.FAIL
    passes = interval is not None and Fraction(interval.low) >= -margin
    return GateVerdict.PASS if passes else GateVerdict.UNDECIDED


def reaches(ends: Ends, target: Fraction) -> GateVerdict:
    """Whether the final pass rate reaches a target, given its remaining range (inference 4).

    >>> reach = Ends(Fraction(2, 10), Fraction(6, 10))
    >>> [str(reaches(reach, Fraction(tenths, 10))) for tenths in (2, 6, 7)]
    ['pass', 'undecided', 'fail']
    """
    return no_further_behind(Ends(ends.low - target, ends.high - target), Fraction())


def together(parts: Iterable[GateVerdict]) -> GateVerdict:
    """One verdict from several: fail if any part fails, pass if all pass.

    >>> str(together([GateVerdict.PASS, GateVerdict.UNDECIDED]))
    'undecided'
    """
    verdicts = set(parts)
    if GateVerdict.FAIL in verdicts:
        return GateVerdict.FAIL
    return GateVerdict.PASS if verdicts == {GateVerdict.PASS} else GateVerdict.UNDECIDED
