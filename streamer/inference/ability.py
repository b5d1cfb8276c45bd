"""How good an agent is on tasks like these: the tasks are a sample (inference 6).

Attempts at one task are alike, so the task is the unit: every error is clustered by task (Miller, "Adding
error bars to evals", arXiv 2411.00640, 2024). All of it follows from the attempts and the passes of each
task. Integers and fractions inside, one correctly rounded root: equal counts give equal bits on every
machine.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import isfinite, lcm
from operator import mul
from typing import NamedTuple

from streamer.inference.finite_population import ALPHA
from streamer.inference.quantiles import student_t
from streamer.stats.errors import StatsError
from streamer.stats.pass_at_k import Counts
from streamer.stats.rounding import quotient, root_of_quotient, whole


class Interval(NamedTuple):
    """Both ends of a confidence interval, in the unit of what it is about."""

    low: float
    high: float


@dataclass(frozen=True)
class Clusters:
    """A number per trial, summed up by task: all that the clustered error needs to know.

    Attributes:
        tasks: with at least one trial; G.
        trials: n, the sum of all n_i.
        sizes: sum of n_i^2.
        total: sum of the tasks' sums c_i.
        squares: sum of c_i^2.
        products: sum of n_i c_i.
    """

    tasks: int = 0
    trials: int = 0
    sizes: int = 0
    total: Fraction | int = 0
    squares: Fraction | int = 0
    products: Fraction | int = 0

    @classmethod
    def of_counts(cls, counts: Counts) -> Clusters:
        """The clusters of (attempts, passes, tasks that have so many), as pass@k holds them.

        >>> Clusters.of_counts([(2, 1, 3), (1, 1, 1)])
        Clusters(tasks=4, trials=7, sizes=13, total=4, squares=4, products=7)
        """
        return cls._of((n, c, tasks) for n, c, tasks in counts)

    @classmethod
    def of_sums(cls, sums: Iterable[tuple[int, Fraction | float]]) -> Clusters:
        """The clusters of (trials, sum of their values) by task; a sum that is not finite raises StatsError.

        >>> Clusters.of_sums([(2, 0.5), (1, 0.25)]).total
        Fraction(3, 4)
        """
        held = [(n, *_exact(total)) for n, total in sums]
        unit = lcm(*(denominator for _, _, denominator in held))  # all sums become whole: fractions are slow
        found = cls._of((n, numerator * (unit // denominator), 1) for n, numerator, denominator in held)
        return found._over(unit)

    @classmethod
    def of_single(cls, trials: int, total: Fraction, squares: Fraction) -> Clusters:
        """The clusters of one trial for each task: how many, the sum of their values, and of their squares.

        >>> Clusters.of_single(2, Fraction(3, 4), Fraction(5, 16)) == Clusters.of_sums([(1, 0.5), (1, 0.25)])
        True
        """
        return cls(trials, trials, trials, total, squares, total)

    @classmethod
    def of_values(cls, tasks: Sequence[Hashable], values: Sequence[float]) -> Clusters:
        """The clusters of trials in any order: the task of each, and its value.

        >>> Clusters.of_values(["a", "b", "a"], [0.25, 0.25, 0.25]).products
        Fraction(5, 4)
        """
        units, shift = whole(values)
        places = {task: place for place, task in enumerate(dict.fromkeys(tasks))}
        counts, sums = [0] * len(places), [0] * len(places)
        for place, unit in zip(map(places.__getitem__, tasks), units, strict=True):
            counts[place] += 1
            sums[place] += unit
        found = cls(
            len(places),
            len(units),
            sum(map(mul, counts, counts)),
            sum(sums),
            sum(map(mul, sums, sums)),
            sum(map(mul, counts, sums)),
        )
        return found._over(1 << shift)

    def mean(self) -> float | None:
        """The mean over all trials; None of nothing."""
        return _rounded(self._mean()) if self.trials else None

    def variance(self) -> Fraction | None:
        """The square of the standard error, exact; None with fewer than two tasks.

        G/(G-1) * sum_i (c_i - n_i p)^2 / n^2, where p is the mean over all trials.

        >>> Clusters.of_counts([(1, 1, 1), (1, 0, 3)]).variance()
        Fraction(1, 16)
        """
        return self._variance

    @cached_property
    def _variance(self) -> Fraction | None:
        if self.tasks < 2:
            return None
        mean = self._mean()
        spread = self.squares - 2 * mean * self.products + mean * mean * self.sizes
        return spread * self.tasks / ((self.tasks - 1) * self.trials**2)

    def standard_error(self) -> float | None:
        """How far the mean would be off with other tasks of this kind; None with fewer than two tasks.

        >>> Clusters.of_counts([(1, 1, 1), (1, 0, 3)]).standard_error()
        0.25
        """
        return self._standard_error

    @cached_property
    def _standard_error(self) -> float | None:
        return None if self._variance is None else _root(self._variance)

    def _mean(self) -> Fraction:
        return Fraction(self.total) / self.trials

    def _over(self, unit: int) -> Clusters:
        """The same of values that are so many times smaller."""
        total, squares = Fraction(self.total, unit), Fraction(self.squares, unit**2)
        return replace(self, total=total, squares=squares, products=Fraction(self.products, unit))

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
    """Wilson's interval of a pass rate with as many trials as the clusters are worth (inference 6).

    They are worth n* = min(n, p(1-p) / se^2) (Korn and Graubard, 1998). Tasks that agree perfectly, with an
    error of 0, are worth n. If all trials passed, or none, they cannot show how alike they are, and are worth
    one trial for each task. The quantile is Student's, with G-1 degrees of freedom.

    Args:
        counts: their `total` is the number of passes.
        alpha: 1 - level, exact.

    Returns:
        Both ends, 0 to 1; None with fewer than two tasks.

    Ten tasks with five attempts each, all passed: Wilson's interval of 50 independent trials began at 0.907.

    >>> rate_interval(Clusters.of_counts([(5, 5, 10)]))
    Interval(low=0.6614913773398167, high=1.0)
    """
    variance = counts.variance()
    if variance is None:
        return None
    passed = counts._mean()
    worth = Fraction(counts.trials)
    if passed in (0, 1):
        worth = Fraction(counts.tasks)
    elif variance:
        worth = min(worth, passed * (1 - passed) / variance)
    square = Fraction(student_t(alpha, counts.tasks - 1)) ** 2
    low, high = 1 - _wilson_high(1 - passed, worth, square), _wilson_high(passed, worth, square)
    return Interval(_rounded(low), _rounded(high))


def mean_interval(values: Clusters, alpha: Fraction = ALPHA) -> Interval | None:
    """The t interval of a mean, of costs, durations, speedups and the like; None with fewer than two tasks.

    mean +- t * standard error, with G-1 degrees of freedom.

    >>> mean_interval(Clusters.of_sums([(1, 0.5), (1, 1.5), (1, 1.0)]))
    Interval(low=-0.2420688558751654, high=2.2420688558751656)
    """
    error = values.standard_error()
    if error is None:
        return None
    half = Fraction(student_t(alpha, values.tasks - 1)) * Fraction(error)
    mean = values._mean()
    return Interval(_rounded(mean - half), _rounded(mean + half))


class Repeats(NamedTuple):
    """What several attempts at the same task say (inference 6).

    Attributes:
        standard_error: how far the pass rate of these tasks would be off if all were attempted again.
        tasks_covered: tasks with at least two attempts. Everything here is about them alone.
        flips: share of them with both outcomes. It grows with the attempts.
        disagreement: chance that two attempts at one of them have different outcomes. It does not.
    """

    standard_error: float
    tasks_covered: int
    flips: float
    disagreement: float


def repeats(counts: Counts) -> Repeats | None:
    """What the tasks with at least two attempts say; None where there is none.

    The error is sqrt(sum n_i^2 p_i (1-p_i) / (n_i-1)) / sum n_i, and n_i^2 p_i (1-p_i) is c_i (n_i - c_i).
    Terminal-Bench prints it behind +-.

    >>> repeats([(2, 1, 1), (2, 2, 3), (1, 0, 5)])
    Repeats(standard_error=0.125, tasks_covered=4, flips=0.25, disagreement=0.25)
    """
    covered = [(n, c, tasks) for n, c, tasks in counts if n > 1]
    if not covered:
        return None
    tasks = sum(times for _, _, times in covered)
    flips = sum(times for n, c, times in covered if 0 < c < n)
    pairs = sum((Fraction(2 * c * (n - c) * times, n * (n - 1)) for n, c, times in covered), Fraction())
    error = _root(_repeat_variance(covered))
    return Repeats(error, tasks, quotient(flips, tasks), _rounded(pairs / tasks))


def task_error(counts: Counts) -> float | None:
    """The standard error without the noise of repeats: how much the tasks differ.

    sqrt(max(0, clustered^2 - repeat^2)); None with fewer than two tasks, or where a task has one attempt
    only.

    >>> task_error([(2, 2, 2), (2, 0, 2)]), task_error([(2, 1, 4)]), task_error([(2, 1, 1), (1, 1, 1)])
    (0.28867513459481287, 0.0, None)
    """
    held = [(n, c, tasks) for n, c, tasks in counts if n]
    variance = Clusters.of_counts(held).variance()
    if variance is None or any(n < 2 for n, _, _ in held):
        return None
    return _root(max(Fraction(), variance - _repeat_variance(held)))


def _repeat_variance(covered: Counts) -> Fraction:
    trials, spread = 0, Fraction()
    for n, c, tasks in covered:
        trials += n * tasks
        spread += Fraction(c * (n - c) * tasks, n - 1)
    return spread / trials**2


def _wilson_high(passed: Fraction, worth: Fraction, square: Fraction) -> Fraction:
    """The upper end of Wilson's interval of a share of so many trials, with the square of the quantile.

    (2 n p + q^2 + sqrt(q^2 (q^2 + 4 n p (1-p)))) / (2 (n + q^2))
    """
    if passed == 1:
        return passed
    radicand = square * (square + 4 * worth * passed * (1 - passed))
    root = Fraction(_root(radicand))
    return (2 * worth * passed + square + root) / (2 * (worth + square))


def _exact(total: Fraction | float) -> tuple[int, int]:
    if isinstance(total, float) and not isfinite(total):
        raise StatsError.unfit("Clusters", total, "finite sums")
    return total.as_integer_ratio()


def _rounded(value: Fraction) -> float:
    return quotient(value.numerator, value.denominator)


def _root(value: Fraction) -> float:
    return root_of_quotient(value.numerator, value.denominator)
