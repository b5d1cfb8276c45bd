"""Exact sums of many floats at once: split in digits so short that floats add them without rounding."""

from __future__ import annotations

from math import frexp, inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MANY = 100
"""From so many values on, summing them in digits is faster than one by one."""

PORTION = 4096
"""So many values are split at once, at most."""

_DIGIT_BITS = 20
"""4,096 products of two such digits sum to at most 2^52, which floats add without rounding."""

MOST_BITS = 12 * _DIGIT_BITS
"""Values further apart than that cannot be split."""

_FINEST = 1000
"""Nor can values that need a finer unit than 2^-1000: floats do not hold that power's inverse."""


class Sums(NamedTuple):
    """The exact sums of some values.

    Attributes:
        total: the sum, over 2^shift.
        squares: the sum of squares, over 2^(2 shift).
        shift: as given, or greater where a value needs it.
    """

    total: int
    squares: int
    shift: int


def sums_of(values: NDArray[np.float64], shift: int = 0) -> Sums | None:
    """The sums of at most :data:`PORTION` values, as integers over 2^shift.

    None if there are no values, or if they are not finite or lie too far apart.

    >>> sums_of(np.array([0.5, 3.0, -1.5]), shift=1)
    Sums(total=4, squares=46, shift=1)
    """
    if not len(values):
        return None
    top = max(float(values.max()), -float(values.min()))
    if not top < inf or shift > _FINEST or frexp(top)[1] + shift > MOST_BITS:
        return None
    scaled = values * 2.0**shift
    if not (np.trunc(scaled) == scaled).all():
        shift = max(shift, 53 - frexp(float(np.abs(values[values != 0.0]).min()))[1])
        if shift > _FINEST or frexp(top)[1] + shift > MOST_BITS:
            return None
        scaled = values * 2.0**shift
    rows = _split(scaled, max(1, -(-(frexp(top)[1] + shift) // _DIGIT_BITS)))
    *products, digit_sums = (rows @ rows.T).tolist()
    total = squares = 0
    for i, row in enumerate(products):
        total += int(digit_sums[i]) << _DIGIT_BITS * i
        squares += int(row[i]) << 2 * _DIGIT_BITS * i
        for j in range(i):
            squares += int(row[j]) << _DIGIT_BITS * (i + j) + 1
    return Sums(total, squares, shift)


def _split(rest: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Whole numbers as rows of `count` digits, and a row of ones.

    Least significant digits first, each with its number's sign; every step splits a float's bits in two.
    """
    digits = np.empty((count + 1, len(rest)))
    digits[count] = 1.0
    for place in range(count - 1, 0, -1):
        unit = 2.0 ** (_DIGIT_BITS * place)
        np.trunc(rest / unit, out=digits[place])
        rest = rest - digits[place] * unit
    digits[0] = rest
    return digits
