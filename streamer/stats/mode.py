"""The most frequent of many values in order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def most_frequent(ordered: NDArray[np.float64]) -> tuple[float, int]:
    """The most frequent of at least one value in ascending order, and how often it occurs.

    Values count as they are, without rounding; of several the smallest (R15). Infinite values count
    like others. With all values distinct it is the smallest one.

    >>> most_frequent(np.array([0.5, 0.9, 0.9, 1.5]))
    (0.9, 2)
    >>> most_frequent(np.array([0.5, 0.9, 0.9000001, np.inf]))
    (0.5, 1)
    """
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    lengths = np.diff(starts, append=len(ordered))
    longest = int(lengths.argmax())
    return float(ordered[starts[longest]]), int(lengths[longest])
