"""Exact numbers, rounded to a float once: quotients, roots and the middle of two values.

The inference needs these without the arrays of the other modules.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import frexp, inf, isinf, isqrt

FLOAT_BITS = 53
"""Binary digits of a float."""

LARGEST_EXPONENT = 1023
"""Two to the power of this is a float, and so is two to the power of each smaller whole number from 0 on."""

_ROOT_BITS = 2 * 53 + 3
"""Bits of the radicand that leave the integer root two bits more than a float holds."""


def quotient(numerator: int, denominator: int) -> float:
    """The float nearest to the fraction, never -0.0; infinite beyond the range of floats.

    >>> quotient(1, 3), quotient(10**400, 1), quotient(-1, 2**1080)
    (0.3333333333333333, inf, 0.0)
    """
    try:
        return numerator / denominator + 0.0
    except OverflowError:
        return inf if numerator > 0 else -inf


def root_of_quotient(numerator: int, denominator: int) -> float:
    """The float nearest to the square root of the fraction (both >= 0); beyond the range: infinite.

    The integer root is rounded to odd. So only the second rounding counts, the one to a float (Boldo and
    Melquiond, "Emulation of FMA and correctly rounded sums", 2008).

    >>> root_of_quotient(2, 1), root_of_quotient(10**600, 1)
    (1.4142135623730951, 1e+300)
    """
    scale = (numerator.bit_length() - denominator.bit_length() - _ROOT_BITS) // 2
    if scale >= 0:
        return quotient(_root_to_odd(numerator, denominator << 2 * scale) << scale, 1)
    return quotient(_root_to_odd(numerator << -2 * scale, denominator), 1 << -scale)


def _root_to_odd(numerator: int, denominator: int) -> int:
    root = isqrt(numerator // denominator)
    return root | (root * root * denominator != numerator)


def middle_of(lower: float, upper: float) -> float:
    """The correctly rounded mean of two values.

    Halving a sum is exact or, among the subnormals, the only rounding; where the sum overflows, both are
    large and halving them first is exact.

    >>> middle_of(1.5e308, 1.7e308), middle_of(5e-324, 1e-323), middle_of(float("-inf"), float("inf"))
    (1.6e+308, 1e-323, nan)
    """
    total = lower + upper
    if isinf(total) and not isinf(lower) and not isinf(upper):
        return lower / 2 + upper / 2
    return total / 2 + 0.0


def whole(values: Sequence[float]) -> tuple[list[int], int]:
    """Finite values as integers over the same power of two, exact: the integers, and the exponent.

    >>> whole([0.75, 2.0, -0.25])
    ([13510798882111488, 36028797018963968, -4503599627370496], 54)
    >>> whole([1e300, 5e-324])[1], whole([0.0])
    (1074, ([0], 0))
    """
    sizes = [abs(value) for value in values if value]
    if not sizes:
        return [0] * len(values), 0
    shift = max(0, FLOAT_BITS - frexp(min(sizes))[1])
    if (
        max(shift, shift + frexp(max(sizes))[1]) <= LARGEST_EXPONENT
    ):  # multiplying by a power of two is exact then
        scale = 2.0**shift
        return [int(value * scale) for value in values], shift
    ratios = [value.as_integer_ratio() for value in values]
    shift = max(denominator for _, denominator in ratios).bit_length() - 1
    return [(numerator << shift) // denominator for numerator, denominator in ratios], shift
