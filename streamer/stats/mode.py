"""The most frequent value: rounding, and the search among values in order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

DECIMALS = 6
"""Values that agree to so many decimals count as the same one (S4)."""

_POWER = 10.0**DECIMALS
_SAFE = 2.0**43 / _POWER
"""Below that, value * 10^6 is off by less than 0.001."""

_NEAR_TIE = 0.499
"""Farther than that from the nearest integer, value * 10^6 does not show which way to round."""

SURELY_APART = 2.0 / _POWER
"""Values that far apart never round to the same."""


def round_to_6(value: float) -> float:
    """The value rounded to 6 decimals, half to even, as `round(value, 6)` does it; never -0.0.

    Python's way through decimal text takes 0.5 microseconds. An integer is its own rounding, and away from
    the half between two candidates a product with 10^6 shows which is nearer.

    >>> round_to_6(0.1234565), round(0.1234565, 6)
    (0.123456, 0.123456)
    """
    if -_SAFE < value < _SAFE:
        scaled = value * _POWER
        nearest = round(scaled)
        if -_NEAR_TIE < scaled - nearest < _NEAR_TIE:
            return nearest / _POWER
    return round(value, DECIMALS) + 0.0


def most_frequent(ordered: NDArray[np.float64]) -> tuple[float, int]:
    """The most frequent rounded value of at least one in ascending order, and how often it occurs.

    Of several the smallest (R15); with all values distinct it is the smallest one, rounded. Infinite
    values count like others. Rounding keeps the order, so equal rounded values are neighbours.

    >>> most_frequent(np.array([0.5, 0.9, 0.9000001, 1.5]))
    (0.9, 2)
    >>> most_frequent(np.array([0.1234564, 0.5, np.inf]))
    (0.123456, 1)
    """
    apart = ordered[1:] > ordered[:-1] + SURELY_APART
    if apart.all():
        return round_to_6(float(ordered[0])), 1
    some, equal = ordered, ordered[1:] == ordered[:-1]
    if not (equal | apart).all():
        some = _rounded(_near_another(ordered, ~apart))
        equal = some[1:] == some[:-1]
        if not equal.any():
            return round_to_6(float(ordered[0])), 1
    ends = np.flatnonzero(~equal)
    bounds = np.empty(len(ends) + 2, dtype=np.int64)
    bounds[0], bounds[1:-1], bounds[-1] = -1, ends, len(some) - 1
    lengths = bounds[1:] - bounds[:-1]
    longest = int(lengths.argmax())
    return round_to_6(float(some[bounds[longest + 1]])), int(lengths[longest])


def _near_another(ordered: NDArray[np.float64], close: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The values that may round to the same as another; `close`: of each but the first, to the one before."""
    near = np.zeros(len(ordered), dtype=np.bool_)
    near[:-1] = close
    near[1:] |= close
    return ordered[near]


def _rounded(ordered: NDArray[np.float64]) -> NDArray[np.float64]:
    """`round_to_6` of every value; what a product with 10^6 cannot decide is rounded one by one."""
    first, end = 0, len(ordered)
    if not (ordered[0] > -_SAFE and ordered[-1] < _SAFE):
        first, end = (int(place) for place in ordered.searchsorted((-_SAFE, _SAFE)))
    scaled = ordered[first:end] * _POWER
    nearest = np.rint(scaled)
    scaled -= nearest
    np.abs(scaled, out=scaled)
    nearest /= _POWER
    if end > first and scaled.max() >= _NEAR_TIE:
        doubtful = scaled >= _NEAR_TIE
        nearest[doubtful] = [round_to_6(value) for value in ordered[first:end][doubtful].tolist()]
    if end - first == len(ordered):
        return nearest + 0.0
    return np.concatenate((_rounded_large(ordered[:first]), nearest + 0.0, _rounded_large(ordered[end:])))


def _rounded_large(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same far from 0, where nearly all values are whole or infinite: those are their own rounding."""
    rounded = values.copy()
    broken = np.rint(values) != values
    rounded[broken] = [round_to_6(value) for value in values[broken].tolist()]
    return rounded
