"""What two sets of trials at the same tasks say of each other: one pure function (inference 7).

The worker, the readers, the page, the report and `streamer compare` all call `paired`. It needs to know of
each task only how many trials of each side are in, how many passed, and how many are still unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite
from typing import NamedTuple

from streamer.inference.ability import Clusters, Interval, mean_interval
from streamer.inference.comparisons import e_value
from streamer.inference.finite_population import ALPHA
from streamer.stats.errors import StatsError
from streamer.stats.rounding import quotient
from streamer.stats.sign_test import sign_test


class Attempts(NamedTuple):
    """One side's trials at one task.

    Attributes:
        known: trials with a final value.
        passed: known trials that passed.
        unknown: planned trials without a final value, for whatever reason (inference 3).
    """

    known: int
    passed: int
    unknown: int = 0

    @property
    def planned(self) -> int:
        """All of them."""
        return self.known + self.unknown


class PairedTask(NamedTuple):
    """The trials of both sides at the same task."""

    ours: Attempts
    theirs: Attempts

    @property
    def even(self) -> bool:
        """Whether both sides plan as many trials of it."""
        return self.ours.planned == self.theirs.planned

    def won(self) -> bool | None:
        """Whether we pass it more often in as many attempts; None while that is still open.

        With unequal attempts one of two equal sides is favoured. At a pass rate of 20 % one trial of ours
        beats five of theirs in 20 % of cases, and loses in 54 %. So neither side wins such a task: False.

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
        """Whether they do."""
        return PairedTask(self.theirs, self.ours).won()


class Totals(NamedTuple):
    """One side's values at one task: how many, at least one, and their sum."""

    trials: int
    total: Fraction

    @classmethod
    def of(cls, values: Sequence[float]) -> Totals:
        """The totals of some values, at least one; StatsError if one is not finite."""
        if not all(map(isfinite, values)):
            raise StatsError.unfit("mean_differences", list(values), "finite values")
        return cls(len(values), sum(map(Fraction, values), Fraction()))


@dataclass(frozen=True, slots=True)
class Paired:
    """What two sides say of each other, ours less theirs.

    Attributes:
        tasks: compared tasks.
        ahead, behind, equal, open: tasks that we pass more often, they do, neither does, and undecided ones.
        uneven: the other tasks, with unequal attempts. Neither e-value nor test uses them.
        difference: of the pass rates over the tasks where both sides have results, -1 to 1; None: no such
            task. Biased while trials are missing.
        reachable: the lowest and the highest difference that the missing trials leave, with no assumption.
        worse, better: e-values that we are worse, and better; valid whenever you look. An open task counts
            for the other claim as long as it can. Of a plan whose order is known, the worker looks at
            prefixes too and may know more.
        ended: no trial is missing.
        interval: of the difference on tasks like these; None before the end, or with fewer than two tasks.
        p_value: of the exact two-sided sign test over the tasks with equal attempts; None before the end,
            and without such a task.
    """

    tasks: int
    ahead: int
    behind: int
    equal: int
    open: int
    uneven: int
    difference: float | None
    reachable: tuple[float, float] | None
    worse: float
    better: float
    ended: bool
    interval: Interval | None
    p_value: float | None

    @property
    def agrees(self) -> bool:
        """Whether the tasks' signs and the mean point the same way: only then may anybody be called ahead."""
        return (self.ahead - self.behind) * (self.difference or 0.0) > 0

    @property
    def certain(self) -> bool:
        """Whether one side may be called ahead at the end: the sign test shows it, and the mean agrees."""
        return self.p_value is not None and self.p_value <= ALPHA and self.agrees


def paired(pairs: Sequence[PairedTask], alpha: Fraction = ALPHA, *, complete: bool = True) -> Paired:
    """Compare two sides over their common tasks.

    Args:
        pairs: one for each task.
        alpha: 1 - level of the interval, exact.
        complete: the pairs are all that is planned; if not, nothing has ended.

    Both sides of three tasks, where the last one is still running on our side:

    >>> done = [PairedTask(Attempts(1, 1), Attempts(1, 0)), PairedTask(Attempts(1, 1), Attempts(1, 1))]
    >>> running = paired([*done, PairedTask(Attempts(0, 0, 1), Attempts(1, 1))])
    >>> running.ahead, running.equal, running.open, running.difference, running.ended, running.p_value
    (1, 1, 1, 0.5, False, None)
    >>> ended = paired([*done, PairedTask(Attempts(1, 0), Attempts(1, 1))])
    >>> ended.difference, ended.p_value, ended.interval
    (0.0, 1.0, Interval(low=-1.0, high=1.0))
    """
    even = [pair for pair in pairs if pair.even]
    won, lost = [pair.won() for pair in even], [pair.lost() for pair in even]
    ahead, behind = won.count(True), lost.count(True)
    equal = sum(one is False and other is False for one, other in zip(won, lost, strict=True))
    ended = complete and bool(pairs) and all(not a.unknown and not b.unknown for a, b in pairs)
    clusters = rate_differences(pairs)
    return Paired(
        tasks=len(pairs),
        ahead=ahead,
        behind=behind,
        equal=equal,
        open=len(even) - ahead - behind - equal,
        uneven=len(pairs) - len(even),
        difference=clusters.mean(),
        reachable=_reachable(pairs) if complete else None,
        worse=e_value(ahead + won.count(None), behind),
        better=e_value(behind + lost.count(None), ahead),
        ended=ended,
        interval=_within_one(mean_interval(clusters, alpha)) if ended else None,
        p_value=sign_test(ahead, behind) if ended and even else None,
    )


def rate_differences(pairs: Sequence[PairedTask]) -> Clusters:
    """The paired differences of pass rates, over the tasks where both sides have results."""
    known = [(ours, theirs) for ours, theirs in pairs if ours.known and theirs.known]
    return _differences(
        [(Totals(a.known, Fraction(a.passed)), Totals(b.known, Fraction(b.passed))) for a, b in known]
    )


def mean_differences(tasks: Iterable[tuple[Sequence[float], Sequence[float]]]) -> Clusters:
    """The paired differences of a metric, over the tasks where both sides have values.

    Args:
        tasks: for each task the values of both sides' trials, finite; StatsError otherwise.

    >>> mean_differences([([0.5, 0.5], [0.25, 0.5]), ([1.0, 0.0], [0.0, 0.0]), ([1.0], [])]).mean()
    0.3125
    """
    return _differences([(Totals.of(ours), Totals.of(theirs)) for ours, theirs in tasks if ours and theirs])


def _differences(tasks: Sequence[tuple[Totals, Totals]]) -> Clusters:
    """By task; with unequal attempts each task is one difference of two means."""
    if all(ours.trials == theirs.trials for ours, theirs in tasks):
        return Clusters.of_sums((a.trials, a.total - b.total) for a, b in tasks)
    return Clusters.of_sums((1, a.total / a.trials - b.total / b.trials) for a, b in tasks)


def _reachable(pairs: Sequence[PairedTask]) -> tuple[float, float] | None:
    """Both ends of the difference; None without tasks, or where a side plans no trial."""
    sides = list(zip(*pairs, strict=True))
    if not sides or not all(sum(one.planned for one in side) for side in sides):
        return None
    (low, high), (other_low, other_high) = map(_ends, sides)
    return _rounded(low - other_high), _rounded(high - other_low)


def _ends(side: Sequence[Attempts]) -> tuple[Fraction, Fraction]:
    """The lowest and the highest final pass rate (inference 4)."""
    planned, passed = sum(one.planned for one in side), sum(one.passed for one in side)
    unknown = sum(one.unknown for one in side)
    return Fraction(passed, planned), Fraction(passed + unknown, planned)


def _within_one(interval: Interval | None) -> Interval | None:
    return interval and Interval(max(interval.low, -1.0), min(interval.high, 1.0))


def _rounded(value: Fraction) -> float:
    return quotient(value.numerator, value.denominator)
