"""What a gate says of each question, and of both parts together (inference 7).

A gate asks whether one side ends, or is, at most a margin behind the other. All margins and levels are exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from streamer.inference.ability import Clusters, Interval
from streamer.inference.comparisons import Ends, GateVerdict, no_further_behind
from streamer.inference.paired import Attempts, PairedTask, rate_differences


def ends_of(values: Clusters) -> Ends | None:
    """The mean of differences that are all in: both ends are the same; None of nothing.

    >>> ends_of(Clusters.of_sums([(1, -1.0), (1, 0.0)]))
    Ends(low=Fraction(-1, 2), high=Fraction(-1, 2))
    """
    if not values.trials:
        return None
    mean = Fraction(values.total, values.trials * values.unit)
    return Ends(mean, mean)


def ends_by_task(tasks: Sequence[PairedTask]) -> Ends | None:
    """The final difference of pass rates that the missing trials leave, with no assumption; None of nothing.

    It is over all trials where each task has equal attempts on both sides; else each task counts once.

    Args:
        tasks: both sides of each task, with at least one trial each.

    >>> one, other = PairedTask(Attempts(1, 1), Attempts(1, 0)), PairedTask(Attempts(0, 0, 1), Attempts(1, 1))
    >>> ends_by_task([one, other])
    Ends(low=Fraction(0, 1), high=Fraction(1, 2))
    """
    lowest = [PairedTask(_finally(a, passed=False), _finally(b, passed=True)) for a, b in tasks]
    highest = [PairedTask(_finally(a, passed=True), _finally(b, passed=False)) for a, b in tasks]
    low, high = ends_of(rate_differences(lowest)), ends_of(rate_differences(highest))
    return None if low is None or high is None else Ends(low.low, high.high)


def _finally(side: Attempts, *, passed: bool) -> Attempts:
    """The trials at a task if all missing ones end alike."""
    return Attempts(side.planned, side.passed + (side.unknown if passed else 0))


def ability(worse: float, interval: Interval | None, margin: Fraction, alpha: Fraction) -> GateVerdict:
    """Whether the agent is at most `margin` worse on tasks like these.

    Args:
        worse: e-value that it is worse; it fails the gate at 1/alpha, whenever you look.
        interval: of the paired differences, at the end; None before, and with fewer than two tasks.
        margin: 0 or more.
        alpha: 1 - level.

    >>> shown = ability(31.9, None, Fraction("0.02"), Fraction("0.05"))
    >>> close = ability(1.0, Interval(-0.01, 0.04), Fraction("0.02"), Fraction("0.05"))
    >>> wide = ability(1.0, Interval(-0.09, 0.04), Fraction("0.02"), Fraction("0.05"))
    >>> str(shown), str(close), str(wide)
    ('fail', 'pass', 'undecided')
    """
    if Fraction(worse) >= 1 / alpha:
        return GateVerdict.FAIL
    passes = interval is not None and Fraction(interval.low) >= -margin
    return GateVerdict.PASS if passes else GateVerdict.UNDECIDED


def mean_ability(interval: Interval | None, margin: Fraction) -> GateVerdict:
    """The same of a mean that has no e-value: the interval decides either way.

    Args:
        interval: of the paired differences, at the end, positive where we are better; None: none.
        margin: 0 or more.

    >>> str(mean_ability(Interval(-0.4, -0.1), Fraction(0))), str(mean_ability(None, Fraction(0)))
    ('fail', 'undecided')
    """
    return no_further_behind(interval and Ends(*map(Fraction, interval)), margin)


def reaches(ends: Ends, target: Fraction) -> GateVerdict:
    """Whether the final pass rate reaches a target, by what is still possible (inference 4).

    >>> reach = Ends(Fraction(2, 10), Fraction(6, 10))
    >>> [str(reaches(reach, Fraction(tenths, 10))) for tenths in (2, 6, 7)]
    ['pass', 'undecided', 'fail']
    """
    return no_further_behind(Ends(ends.low - target, ends.high - target), Fraction())


def together(parts: Iterable[GateVerdict]) -> GateVerdict:
    """One verdict of several: any failure fails it, and it passes where all parts pass.

    >>> str(together([GateVerdict.PASS, GateVerdict.UNDECIDED]))
    'undecided'
    """
    held = set(parts)
    if GateVerdict.FAIL in held:
        return GateVerdict.FAIL
    return GateVerdict.PASS if held == {GateVerdict.PASS} else GateVerdict.UNDECIDED
