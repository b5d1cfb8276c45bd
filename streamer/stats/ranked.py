"""Minimum, maximum, median and mode: one rule each, whatever holds the values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from streamer.stats.rounding import middle_of


class Ranked:
    """Values that are known by their rank in ascending order; -0.0 counts as 0.0, NaN is not among them.

    A class that holds values gives `__len__`, `at` and `_find_mode`.
    """

    __slots__ = ()

    def __len__(self) -> int:
        """How many values there are."""
        raise NotImplementedError

    def at(self, rank: int) -> float:
        """The value of that rank, from 0."""
        raise NotImplementedError

    def _find_mode(self) -> float:
        """The mode of at least one value."""
        raise NotImplementedError

    def min(self) -> float | None:
        """The smallest value; None of nothing."""
        return self.at(0) if len(self) else None

    def max(self) -> float | None:
        """The largest value; None of nothing."""
        count = len(self)
        return self.at(count - 1) if count else None

    def median(self) -> float | None:
        """The middle value, or the correctly rounded mean of the two middle ones (S5); None of nothing.

        Between -inf and inf there is no middle: NaN.
        """
        count = len(self)
        if not count:
            return None
        half, odd = divmod(count, 2)
        upper = self.at(half)
        return upper if odd else middle_of(self.at(half - 1), upper)

    def mode(self) -> float | None:
        """The most frequent value, compared as it is; of several the smallest (R15).

        With all values distinct it is the smallest one. Infinite values count like others. Of nothing it is
        None.
        """
        return self._find_mode() if len(self) else None


def most_frequent(
    values: Sequence[float] | NDArray[np.float64], counts: Sequence[int] | NDArray[np.intp]
) -> tuple[float, int]:
    """The mode of at least one value, and how often it occurs; of several the smallest (R15).

    Args:
        values: each one once, in ascending order.
        counts: how often each occurs.

    >>> most_frequent([0.5, 0.9, 1.5], [1, 2, 2])
    (0.9, 2)
    """
    # Both find the first of the greatest: numpy is slow at lists, and lists are at thousands of values.
    place = int(counts.argmax()) if isinstance(counts, np.ndarray) else counts.index(max(counts))
    return float(values[place]), int(counts[place])


def precedes(value: float, count: int, other: float, other_count: int) -> bool:
    """Whether the mode of two values that occur so often is the first one (R15).

    >>> precedes(0.5, 2, 0.9, 2), precedes(0.9, 2, 0.5, 2), precedes(0.9, 3, 0.5, 2)
    (True, False, True)
    """
    return (-count, value) < (-other_count, other)


def runs_of(ordered: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Each of at least one value in ascending order once, and how often it occurs.

    >>> [column.tolist() for column in runs_of(np.array([0.5, 0.9, 0.9, np.inf]))]
    [[0.5, 0.9, inf], [1, 2, 1]]
    """
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    return ordered[starts], np.diff(starts, append=len(ordered))
