"""An agent's ability on similar tasks: the tasks of a run are a sample (inference 6).

Attempts at one task resemble each other, so every error is clustered by task (Miller, "Adding error bars to
evals", arXiv 2411.00640, 2024). Integers and fractions with one rounded root give the same bits on every
machine.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import comb, fsum, isfinite, lcm, sqrt
from operator import mul
from statistics import fmean, variance
from typing import Any, NamedTuple, Self, TypeVar

from streamer.statistics.exact import StatsError, middle_of, quotient, root_of_quotient, student_t, whole
from streamer.statistics.final import ALPHA

# -----------------------------------------------------------------------------
# The probability that at least one of k attempts at a task passes.


_ATTEMPT = 1 << 32
"""One attempt; passes are in the lower 32 bits of the same integer."""


class PassAtK:
    """pass@k over tasks with n attempts each, of which c passed (R11, F10).

    It is the mean over the tasks with n >= k of 1 - C(n - c, k) / C(n, k), rounded once. This is the unbiased
    estimate of Chen et al., "Evaluating Large Language Models Trained on Code" (2021).

    >>> attempts = PassAtK()
    >>> for task, passed in (("a", True), ("a", False), ("b", False), ("b", False), ("c", True)):
    ...     attempts.add(task, passed)
    ...     print({k: (v["value"], v["tasks_covered"], v["partial"]) for k, v in attempts.summary().items()})
    {'1': (1.0, 1, False)}
    {'1': (0.5, 1, False), '2': (1.0, 1, False)}
    {'1': (0.25, 2, False), '2': (1.0, 1, True)}
    {'1': (0.25, 2, False), '2': (0.5, 2, False)}
    {'1': (0.5, 3, False), '2': (0.5, 2, True)}
    """

    __slots__ = ("_counts", "_tasks")

    def __init__(self) -> None:
        self._tasks: dict[Hashable, int] = {}  # task: attempts * 2^32 + passes
        self._counts: list[tuple[int, int, int]] | None = None  # what `counts` says; None: to be counted

    @classmethod
    def of(cls, attempts: Iterable[tuple[Hashable, bool]]) -> Self:
        instance = cls()
        instance._count((task, _ATTEMPT + bool(passed)) for task, passed in attempts)
        return instance

    @property
    def tasks(self) -> int:
        return len(self._tasks)

    def __contains__(self, task: Hashable) -> bool:
        return task in self._tasks

    def add(self, task: Hashable, passed: bool) -> None:
        self._count([(task, _ATTEMPT + bool(passed))])

    def remove(self, task: Hashable, passed: bool) -> None:
        """Undo one `add`; raises StatsError if the task has no such attempt."""
        self._take_back([(task, _ATTEMPT + bool(passed))])

    def merge(self, *others: PassAtK) -> None:
        """Add all attempts of the others, which do not change; tasks are matched by key."""
        for attempts in [list(other._tasks.items()) for other in others]:
            self._count(attempts)

    def unmerge(self, *others: PassAtK) -> None:
        """Undo one `merge` of the others; raises StatsError if a task lacks their attempts."""
        self._take_back([item for other in others for item in other._tasks.items()])

    def summary(
        self, planned_attempts: int | None = None, planned_tasks: int | None = None
    ) -> dict[str, dict[str, Any]]:
        """pass@k for each k (as text, ascending): {"value", "tasks_covered", "partial"}; {} without attempts.

        k is 1, the powers of two, 5 and 10, up to the most planned or seen attempts at a task. The value is
        None while no task has k attempts, and partial until all planned and seen tasks do.
        """
        if not self._tasks:
            return {}
        counts = self.counts()
        most = max(max(attempts for attempts, _, _ in counts), planned_attempts or 0)
        expected = max(planned_tasks or 0, self.tasks)
        result: dict[str, dict[str, Any]] = {}
        for k in sizes(most):
            value, covered = pass_at_k(k, counts)
            result[str(k)] = {"value": value, "tasks_covered": covered, "partial": covered < expected}
        return result

    def counts(self) -> list[tuple[int, int, int]]:
        """(attempts, passes, number of such tasks) over all tasks; read-only."""
        if self._counts is None:
            alike = Counter(self._tasks.values())
            self._counts = [(*divmod(attempts, _ATTEMPT), tasks) for attempts, tasks in alike.items()]
        return self._counts

    def _count(self, attempts: Iterable[tuple[Hashable, int]]) -> None:
        self._counts = None
        tasks, before = self._tasks, self._tasks.get
        for task, more in attempts:
            tasks[task] = before(task, 0) + more

    def _take_back(self, attempts: Iterable[tuple[Hashable, int]]) -> None:
        left: dict[Hashable, int] = {}
        for task, count in attempts:
            before = left.get(task, self._tasks.get(task, 0))
            (tried, passed), (less, fewer) = divmod(before, _ATTEMPT), divmod(count, _ATTEMPT)
            if not 0 <= passed - fewer <= tried - less:
                raise StatsError.absent("PassAtK", (task, {"attempts": less, "passes": fewer}))
            left[task] = before - count
        self._counts = None
        for task, after in left.items():
            if after:
                self._tasks[task] = after
            else:
                del self._tasks[task]


Counts = Iterable[tuple[int, int, int]]
"""(attempts, passes, number of such tasks); a pair may occur more than once."""


def pass_at_k(k: int, counts: Counts) -> tuple[float | None, int]:
    """pass@k over the tasks with at least k attempts (R11), and the number of these tasks.

    >>> pass_at_k(2, [(4, 1, 1), (1, 1, 5)])
    (0.5, 1)
    """
    failed, of, covered = _all_of_k(k, [(n, n - c, tasks) for n, c, tasks in counts])
    return (quotient(of - failed, of), covered) if covered else (None, 0)


def pass_hat_k(k: int, counts: Counts) -> tuple[float | None, int]:
    """pass^k over the tasks with at least k attempts, and the number of these tasks.

    It is the probability that all of k attempts pass (Yao et al., "tau-bench", arXiv 2406.12045, 2024): the
    mean of C(c, k) / C(n, k), rounded once. It is None if no task has k attempts.

    >>> [pass_hat_k(k, [(4, 1, 1), (4, 4, 1)]) for k in (1, 4, 8)]
    [(0.625, 2), (0.5, 2), (None, 0)]
    """
    passed, of, covered = _all_of_k(k, list(counts))
    return (quotient(passed, of), covered) if covered else (None, 0)


def _all_of_k(k: int, counts: list[tuple[int, int, int]]) -> tuple[int, int, int]:
    draws = {n: comb(n, k) for n, _, _ in counts if n >= k}
    common = lcm(*draws.values())
    covered = ways = 0
    for n, c, tasks in counts:
        if n >= k:
            covered += tasks
            ways += tasks * comb(c, k) * (common // draws[n])
    return ways, covered * common, covered


def sizes(most: int) -> list[int]:
    """The values of k to report for `most` attempts: 1, powers of two, 5 and 10, ascending (R11).

    >>> sizes(12)
    [1, 2, 4, 5, 8, 10]
    """
    powers = {1 << exponent for exponent in range(most.bit_length())}
    return sorted(k for k in powers | {5, 10} if k <= most)


# -----------------------------------------------------------------------------
# The ability of an agent on similar tasks: the tasks are a sample (inference 6).


class Interval(NamedTuple):
    low: float
    high: float


@dataclass(frozen=True)
class Clusters:
    """Sums by task of one number per trial, as needed for the clustered error.

    G `tasks` have n `trials`, and `sizes` is the sum of n_i^2. `total`, `squares` and `products` are the sums
    of c_i, c_i^2 and n_i c_i, in multiples of 1 / `unit` (the squares of 1 / `unit`^2).
    """

    tasks: int = 0
    trials: int = 0
    sizes: int = 0
    total: int = 0
    squares: int = 0
    products: int = 0
    unit: int = 1

    @classmethod
    def of_counts(cls, counts: Counts) -> Clusters:
        """The clusters of (attempts, passes, number of such tasks), as pass@k holds them.

        >>> Clusters.of_counts([(2, 1, 3), (1, 1, 1)])
        Clusters(tasks=4, trials=7, sizes=13, total=4, squares=4, products=7, unit=1)
        """
        return cls._of((n, c, tasks) for n, c, tasks in counts)

    @classmethod
    def of_sums(cls, sums: Iterable[tuple[int, Fraction | float]]) -> Clusters:
        """The clusters of (trials, sum of values) by task; raises StatsError for a sum that is not finite.

        >>> Clusters.of_sums([(2, 0.5), (1, 0.25)])
        Clusters(tasks=2, trials=3, sizes=5, total=3, squares=5, products=5, unit=4)
        """
        exact_sums = [(n, *_exact(total)) for n, total in sums]
        unit = lcm(*(denominator for _, _, denominator in exact_sums))
        clusters = cls._of(
            (n, numerator * (unit // denominator), 1) for n, numerator, denominator in exact_sums
        )
        return replace(clusters, unit=unit)

    @classmethod
    def of_single(cls, trials: int, total: int, squares: int, unit: int) -> Clusters:
        """The clusters of one trial per task. `total` is in multiples of 1 / `unit`, `squares` of 1 /
        `unit`^2.

        >>> Clusters.of_single(2, 3, 5, 4) == Clusters.of_sums([(1, 0.5), (1, 0.25)])
        True
        """
        return cls(trials, trials, trials, total, squares, total, unit)

    @classmethod
    def of_values(cls, tasks: Sequence[Hashable], values: Sequence[float]) -> Clusters:
        """The clusters of trials in any order, from their tasks and values.

        >>> clusters = Clusters.of_values(["a", "b", "a"], [0.25, 0.25, 0.25])
        >>> Fraction(clusters.products, clusters.unit)
        Fraction(5, 4)
        """
        units, shift = whole(values)
        places = {task: place for place, task in enumerate(dict.fromkeys(tasks))}
        counts, sums = [0] * len(places), [0] * len(places)
        for place, unit in zip(map(places.__getitem__, tasks), units, strict=True):
            counts[place] += 1
            sums[place] += unit
        return cls(
            len(places),
            len(units),
            sum(map(mul, counts, counts)),
            sum(sums),
            sum(map(mul, sums, sums)),
            sum(map(mul, counts, sums)),
            1 << shift,
        )

    def mean(self) -> float | None:
        """The mean over all trials; None when empty."""
        return quotient(self.total, self.trials * self.unit) if self.trials else None

    def variance(self) -> Fraction | None:
        """The square of the standard error, exact; None with fewer than two tasks.

        G/(G-1) * sum_i (c_i - n_i p)^2 / n^2, where p is the mean over all trials.

        >>> Clusters.of_counts([(1, 1, 1), (1, 0, 3)]).variance()
        Fraction(1, 16)
        """
        return None if self.tasks < 2 else Fraction(*self._variance)

    @cached_property
    def _variance(self) -> tuple[int, int]:
        n, total = self.trials, self.total
        spread = n * n * self.squares - 2 * n * total * self.products + total * total * self.sizes
        return spread * self.tasks, (self.tasks - 1) * n**4 * self.unit**2

    def standard_error(self) -> float | None:
        """The error of the mean for another sample of tasks; None with fewer than two tasks.

        >>> Clusters.of_counts([(1, 1, 1), (1, 0, 3)]).standard_error()
        0.25
        """
        return self._standard_error

    @cached_property
    def _standard_error(self) -> float | None:
        return None if self.tasks < 2 else root_of_quotient(*self._variance)

    @classmethod
    def _of(cls, parts: Iterable[tuple[int, int, int]]) -> Clusters:
        tasks = trials = sizes = total = squares = products = 0
        for n, c, times in parts:
            if n:
                tasks += times
                trials += n * times
                sizes += n * n * times
                total += c * times
                squares += c * c * times
                products += n * c * times
        return cls(tasks, trials, sizes, total, squares, products)


def rate_interval(counts: Clusters, alpha: Fraction = ALPHA) -> Interval | None:
    """Wilson's interval of a pass rate, 0 to 1, for clustered trials (inference 6); None below two tasks.

    The effective number of trials is min(n, p(1-p) / se^2) (Korn and Graubard, 1998), or n with an error of
    0. If all trials passed or failed, each task counts as one trial. The quantile is Student's, with G-1
    degrees of freedom.

    Ten tasks with five attempts each, all passed (50 independent trials would begin at 0.907):

    >>> rate_interval(Clusters.of_counts([(5, 5, 10)]))
    Interval(low=0.6614913773398167, high=1.0)
    """
    if counts.tasks < 2:
        return None
    trials, passed = counts.trials, counts.total
    failed = trials - passed
    worth = (trials, 1)
    variance, over = counts._variance
    if not passed or not failed:
        worth = (counts.tasks, 1)
    elif passed * failed * over < trials**3 * variance:
        worth = (passed * failed * over, trials**2 * variance)
    return _wilson(passed, failed, worth, student_t(alpha, counts.tasks - 1))


def mean_interval(values: Clusters, alpha: Fraction = ALPHA) -> Interval | None:
    """The t interval of a mean of costs, durations or speedups; None with fewer than two tasks.

    mean +- t * standard error, with G-1 degrees of freedom.

    >>> mean_interval(Clusters.of_sums([(1, 0.5), (1, 1.5), (1, 1.0)]))
    Interval(low=-0.2420688558751654, high=2.2420688558751656)
    """
    error = values.standard_error()
    if error is None:
        return None
    (times, parts), (width, fine) = (
        student_t(alpha, values.tasks - 1).as_integer_ratio(),
        error.as_integer_ratio(),
    )
    mean, half = values.total * parts * fine, values.trials * values.unit * times * width
    over = values.trials * values.unit * parts * fine
    return Interval(quotient(mean - half, over), quotient(mean + half, over))


class Repeats(NamedTuple):
    """The repeatability of tasks with several attempts (inference 6).

    Attributes:
        standard_error: of the pass rate if the same tasks were attempted again.
        tasks_covered: tasks with at least two attempts; the other fields cover only these.
        flips: share of tasks with both outcomes; it grows with the attempts.
        disagreement: chance that two attempts at a task differ; it does not grow with the attempts.
    """

    standard_error: float
    tasks_covered: int
    flips: float
    disagreement: float


def repeats(counts: Counts) -> Repeats | None:
    """The repeatability of tasks with at least two attempts; None without such a task.

    The error is sqrt(sum c_i (n_i - c_i) / (n_i-1)) / sum n_i, which Terminal-Bench prints after +-.

    >>> repeats([(2, 1, 1), (2, 2, 3), (1, 0, 5)])
    Repeats(standard_error=0.125, tasks_covered=4, flips=0.25, disagreement=0.25)
    """
    covered = [(n, c, tasks) for n, c, tasks in counts if n > 1]
    if not covered:
        return None
    tasks, trials = sum(times for _, _, times in covered), sum(n * times for n, _, times in covered)
    flips = sum(times for n, c, times in covered if 0 < c < n)
    pairs = sum((Fraction(2 * c * (n - c) * times, n * (n - 1)) for n, c, times in covered), Fraction())
    spread = sum((Fraction(c * (n - c) * times, n - 1) for n, c, times in covered), Fraction())
    error = root_of_quotient(spread.numerator, spread.denominator * trials**2)
    return Repeats(error, tasks, quotient(flips, tasks), quotient(pairs.numerator, pairs.denominator * tasks))


class ErrorParts(NamedTuple):
    """The variance of a pass rate in two parts, whose sum is its squared standard error (inference 6).

    Attributes:
        tasks: from the choice of tasks; more attempts do not change it.
        repeats: from chance at each task; more attempts reduce it.
    """

    tasks: float
    repeats: float

    @classmethod
    def of(cls, standard_error: float, repeat_error: float) -> ErrorParts:
        """The parts of a clustered error, given the error of :class:`Repeats` over all of its tasks.

        >>> ErrorParts.of(0.5, 0.25), ErrorParts.of(0.25, 0.5)
        (ErrorParts(tasks=0.1875, repeats=0.0625), ErrorParts(tasks=0.0, repeats=0.0625))
        """
        variance = standard_error**2
        repeats = min(variance, repeat_error**2)
        return cls(variance - repeats, repeats)

    def error_with(self, tasks: int, trials: int, *, attempts: int = 0, more_tasks: int = 0) -> float:
        """The expected standard error of a larger run.

        `attempts` are added at each present task. `more_tasks` get the present average of attempts.

        >>> ErrorParts(0.03, 0.02).error_with(10, 20, attempts=2, more_tasks=30)
        0.1
        """
        repeats = self.repeats * trials / (trials + attempts * tasks)
        return sqrt((self.tasks + repeats) * tasks / (tasks + more_tasks))


class JudgeError(NamedTuple):
    """The judges' part in the error of a mean, as shares of the squared error (inference 6).

    Attributes:
        repeats: share of chance at each task; None if a task has only one trial.
        judge: share of differing scores of one trial, a part of `repeats`; None if no trial has two scores.
        judged_again: trials with at least two scores.
        judged: trials whose value came from a judge.
    """

    standard_error: float
    repeats: float | None
    judge: float | None
    judged_again: int
    judged: int


def judge_error(trials: Sequence[tuple[Hashable, float, Sequence[float]]]) -> JudgeError | None:
    """The judges' part in the error of a mean; None below two tasks, or without an error or a judge.

    If J of n trials are judged, judges contribute J s^2 / n^2. Here s^2 is the mean sample variance of one
    trial's scores. Chance at each task contributes sum n_i s_i^2 / n^2, with the sample variance s_i^2 of
    task i, and bounds the judges' part.

    Each trial has its task, the value that counts, and all judges' scores.

    >>> trials = [("a", 0.25, [0.5, 0.25]), ("a", 0.75, [0.75]), ("b", 1.0, [1.0]), ("b", 1.0, [1.0])]
    >>> judge_error(trials)
    JudgeError(standard_error=0.25, repeats=0.25, judge=0.125, judged_again=1, judged=4)
    """
    of_task: dict[Hashable, list[float]] = {}
    for task, value, _ in trials:
        of_task.setdefault(task, []).append(value)
    tasks, values, given = zip(*trials, strict=True) if trials else ((), (), ())
    judged, error = sum(map(bool, given)), Clusters.of_values(tasks, values).standard_error()
    if not error or not judged:
        return None
    square = (len(values) * error) ** 2
    repeats = None
    if all(len(attempts) > 1 for attempts in of_task.values()):
        repeats = min(1.0, fsum(len(one) * variance(one) for one in of_task.values()) / square)
    again = [variance(scores) for scores in given if len(scores) > 1]
    share = judged * fmean(again) / square if again else None
    limit = 1.0 if repeats is None else repeats
    return JudgeError(error, repeats, share and min(share, limit), len(again), judged)


def _wilson(passed: int, failed: int, worth: tuple[int, int], quantile: float) -> Interval:
    """Wilson's interval of passed / (passed + failed), with a quantile q.

    (2 n p + q^2 +- sqrt(q^2 (q^2 + 4 n p (1-p)))) / (2 (n + q^2)), over a common denominator. `worth` is n as
    numerator and denominator. The root is rounded to a float, then each end once more.
    """
    trials, (many, part) = passed + failed, worth
    top, bottom = quantile.as_integer_ratio()
    square, over = top * top * part, bottom * bottom  # q^2 as a fraction with `part * over` below
    root = root_of_quotient(
        top * top * (square * trials**2 + 4 * many * passed * failed * over), over**2 * part * trials**2
    )
    up, down = root.as_integer_ratio()
    middle, width = square * trials * down, up * part * over * trials
    below = 2 * trials * down * (many * over + square)
    above = below - (2 * many * failed * over * down + middle + width)
    low = quotient(above, below) if passed else 0.0
    high = quotient(2 * many * passed * over * down + middle + width, below) if failed else 1.0
    return Interval(low, high)


def _exact(total: Fraction | float) -> tuple[int, int]:
    if isinstance(total, float) and not isfinite(total):
        raise StatsError.unfit("Clusters", total, "finite sums")
    return total.as_integer_ratio()


# -----------------------------------------------------------------------------
# The range that a run can still reach: bounds without assumptions (inference 4).
#
# Each bound counts every trial without a final value as failed, and then as passed. They always hold, unless
# results are corrected.


_Label = TypeVar("_Label")


class Reach(NamedTuple):
    """The smallest and the largest value that a number of a run can still reach."""

    low: float
    high: float


class Attempted(NamedTuple):
    """Tasks with equal numbers of final attempts, of passes, and of missing planned attempts."""

    attempts: int
    passes: int
    missing: int
    tasks: int = 1


def pass_rate(passed: int, failed: int, planned: int) -> Reach:
    """The possible final pass rates over the planned trials: [S/N, (S + N - t)/N].

    Raises StatsError unless `passed + failed <= planned` and `planned >= 1`.

    >>> pass_rate(passed=20, failed=25, planned=89)
    Reach(low=0.2247191011235955, high=0.7191011235955056)
    """
    if planned < max(1, passed + failed):
        raise StatsError.unfit("pass_rate", planned, f"a plan of at least {max(1, passed + failed)} trials")
    return Reach(quotient(passed, planned), quotient(planned - failed, planned))


def reachable_pass_at_k(k: int, tasks: Iterable[Attempted]) -> Reach | None:
    """pass@k (R11) of the planned tasks: each task's missing attempts all fail, or all pass.

    List a task that has not begun as `Attempted(0, 0, missing)`. None if no task will have k attempts.

    >>> reachable_pass_at_k(2, [Attempted(2, 0, 0), Attempted(1, 0, 1), Attempted(0, 0, 2, tasks=2)])
    Reach(low=0.0, high=0.75)
    """
    planned = list(tasks)
    low, covered = pass_at_k(k, [(t.attempts + t.missing, t.passes, t.tasks) for t in planned])
    high, _ = pass_at_k(k, [(t.attempts + t.missing, t.passes + t.missing, t.tasks) for t in planned])
    return None if low is None or high is None or not covered else Reach(low, high)


def median(ascending: Sequence[float], planned: int) -> Reach:
    """The median (S5) of values from 0 to 1 over all planned trials: missing ones all 0, or all 1.

    Raises StatsError if `planned` is below 1 or below the number of `ascending` values.

    >>> median([0.5, 0.8, 0.9], planned=4)
    Reach(low=0.65, high=0.8500000000000001)
    >>> median([], planned=3)
    Reach(low=0.0, high=1.0)
    """
    count = len(ascending)
    if planned < max(1, count):
        raise StatsError.unfit("median", planned, f"a plan of at least {max(1, count)} trials")
    missing = planned - count
    return Reach(_median_with(ascending, 0.0, missing), _median_with(ascending, 1.0, missing))


def decided(reach: Reach, label: Callable[[float], _Label]) -> bool:
    """Whether both ends get the same label, such as a grade.

    >>> decided(Reach(0.86, 0.94), round), decided(Reach(0.4, 0.6), round)
    (True, False)
    """
    return label(reach.low) == label(reach.high)


def cannot_be_overtaken(leader: Reach, other: Reach) -> bool:
    """Whether the leader stays ahead for any outcome of the missing trials. Equal ends are a tie.

    >>> leader = Reach(0.6, 0.9)
    >>> cannot_be_overtaken(leader, Reach(0.3, 0.59)), cannot_be_overtaken(leader, Reach(0.3, 0.6))
    (True, False)
    """
    return leader.low > other.high


def _median_with(ascending: Sequence[float], value: float, times: int) -> float:
    below = bisect_left(ascending, value)

    def at(rank: int) -> float:
        if rank < below:
            return ascending[rank]
        return value if rank < below + times else ascending[rank - times]

    half, odd = divmod(len(ascending) + times, 2)
    return at(half) if odd else middle_of(at(half - 1), at(half))


# -----------------------------------------------------------------------------
# Whether the tasks of a comparison are a sample of similar tasks.


def tasks_are_fair(common: int, totals: tuple[int, int], starts: Sequence[float | None]) -> bool:
    """Whether the common tasks of two sides that ran different tasks are a fair sample (inference 7).

    They are fair if they are the whole plan of one side, made before the other side began. Otherwise results
    may have influenced the choice. `common` counts them, and `totals` all tasks of each side. Both `starts`
    are needed.

    >>> tasks_are_fair(3, (3, 5), (1, 2)), tasks_are_fair(3, (3, 5), (2, 1))
    (True, False)
    """
    first, second = starts
    if first is None or second is None or first == second:
        return False
    return common == totals[0 if first < second else 1]
