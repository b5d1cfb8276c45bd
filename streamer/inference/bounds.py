"""What a run can still reach: bounds that assume nothing (inference 4).

Each bound counts every trial without a final value as failed, and then as passed. They always hold, unless
results are corrected.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from streamer.stats.errors import StatsError
from streamer.stats.pass_at_k import pass_at_k
from streamer.stats.rounding import middle_of, quotient

_Label = TypeVar("_Label")


class Reach(NamedTuple):
    """The smallest and the largest value that a number of a run can still take."""

    low: float
    high: float


class Attempted(NamedTuple):
    """One task, or several that are alike.

    Attributes:
        attempts: with a final value.
        passes: among them.
        missing: planned attempts without a final value.
        tasks: so many tasks have these numbers.
    """

    attempts: int
    passes: int
    missing: int
    tasks: int = 1


def pass_rate(passed: int, failed: int, planned: int) -> Reach:
    """The share of the planned trials that will have passed: [S/N, (S + N - t)/N].

    Raises StatsError unless `passed + failed <= planned` and `planned >= 1`.

    >>> pass_rate(passed=20, failed=25, planned=89)
    Reach(low=0.2247191011235955, high=0.7191011235955056)
    """
    if planned < max(1, passed + failed):
        raise StatsError.unfit("pass_rate", planned, f"a plan of at least {max(1, passed + failed)} trials")
    return Reach(quotient(passed, planned), quotient(planned - failed, planned))


def reachable_pass_at_k(k: int, tasks: Iterable[Attempted]) -> Reach | None:
    """pass@k (R11) of the planned tasks: each task's missing attempts all fail, or all pass.

    List a task that has not begun as `Attempted(0, 0, missing)`. None where no task will have k attempts.

    >>> reachable_pass_at_k(2, [Attempted(2, 0, 0), Attempted(1, 0, 1), Attempted(0, 0, 2, tasks=2)])
    Reach(low=0.0, high=0.75)
    """
    planned = list(tasks)
    low, covered = pass_at_k(k, [(t.attempts + t.missing, t.passes, t.tasks) for t in planned])
    high, _ = pass_at_k(k, [(t.attempts + t.missing, t.passes + t.missing, t.tasks) for t in planned])
    return None if low is None or high is None or not covered else Reach(low, high)


def median(ascending: Sequence[float], planned: int) -> Reach:
    """The median (S5) of values from 0 to 1 over all planned trials: the missing ones all 0, or all 1.

    Args:
        ascending: the known values, in ascending order.
        planned: at least as many, and at least 1, or StatsError.

    >>> median([0.5, 0.8, 0.9], planned=4)
    Reach(low=0.65, high=0.8500000000000001)
    >>> median([], planned=3)
    Reach(low=0.0, high=1.0)
    """
    known = len(ascending)
    if planned < max(1, known):
        raise StatsError.unfit("median", planned, f"a plan of at least {max(1, known)} trials")
    missing = planned - known
    return Reach(_median_with(ascending, 0.0, missing), _median_with(ascending, 1.0, missing))


def decided(reach: Reach, label: Callable[[float], _Label]) -> bool:
    """Whether both ends are the same to a reader, as `grading_profile("specified").grade` reads them.

    >>> decided(Reach(0.86, 0.94), round), decided(Reach(0.4, 0.6), round)
    (True, False)
    """
    return label(reach.low) == label(reach.high)


def cannot_be_overtaken(leader: Reach, other: Reach) -> bool:
    """Whether the leader ends before the other, whatever is still to come. Equal ends are a tie, and no lead.

    >>> leader = Reach(0.6, 0.9)
    >>> cannot_be_overtaken(leader, Reach(0.3, 0.59)), cannot_be_overtaken(leader, Reach(0.3, 0.6))
    (True, False)
    """
    return leader.low > other.high


def _median_with(ascending: Sequence[float], value: float, times: int) -> float:
    """The median of the values with another one, so many times."""
    below = bisect_left(ascending, value)

    def at(rank: int) -> float:
        if rank < below:
            return ascending[rank]
        return value if rank < below + times else ascending[rank - times]

    half, odd = divmod(len(ascending) + times, 2)
    return at(half) if odd else middle_of(at(half - 1), at(half))
