"""Exact sums of many floats at once: split in digits so short that floats add them without rounding."""

from __future__ import annotations

from math import frexp, inf

import numpy as np
from numpy.typing import NDArray

MANY = 100
"""From so many values on, summing them in digits is faster than one by one."""

_CHUNK = 4096
_DIGIT_BITS = 20
"""4,096 products of two such digits sum to at most 2^52, which floats add without rounding."""

MOST_BITS = 12 * _DIGIT_BITS
"""Values further apart than that cannot be split."""

_FINEST = 1000
"""Nor can values that need a finer unit than 2^-1000: floats do not hold that power's inverse."""


class Digits:
    """Finite values as integers over 2^shift, in digits: the sums of any stretch of them are cheap.

    Attributes:
        shift: as given, or greater where a value needs it.

    >>> digits = Digits.of(np.array([0.5, 3.0, -1.5]), shift=1)
    >>> digits.sums(0, 3), digits.sums(1, 2)
    ((4, 46), (6, 36))
    """

    __slots__ = ("_rows", "shift")

    def __init__(self, rows: NDArray[np.float64], shift: int) -> None:
        self._rows = rows  # least significant first, each with its number's sign; the last is all ones
        self.shift = shift

    @classmethod
    def of(cls, values: NDArray[np.float64], shift: int = 0) -> Digits | None:
        """The values split; None if there are none, or if they are not finite or lie too far apart."""
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
        return cls(_split(scaled, max(1, -(-(frexp(top)[1] + shift) // _DIGIT_BITS))), shift)

    def sums(self, first: int, end: int) -> tuple[int, int]:
        """The sum over 2^shift, and the sum of squares over 2^(2 shift), of the values in [first, end)."""
        total = squares = 0
        for start in range(first, end, _CHUNK):
            rows = self._rows[:, start : min(start + _CHUNK, end)]
            *products, sums = (rows @ rows.T).tolist()
            for i, row in enumerate(products):
                total += int(sums[i]) << _DIGIT_BITS * i
                squares += int(row[i]) << 2 * _DIGIT_BITS * i
                for j in range(i):
                    squares += int(row[j]) << _DIGIT_BITS * (i + j) + 1
        return total, squares


def _split(rest: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Whole numbers as rows of `count` digits, and a row of ones; every step splits a float's bits in two."""
    digits = np.empty((count + 1, len(rest)))
    digits[count] = 1.0
    for place in range(count - 1, 0, -1):
        unit = 2.0 ** (_DIGIT_BITS * place)
        np.trunc(rest / unit, out=digits[place])
        rest = rest - digits[place] * unit
    digits[0] = rest
    return digits
