"""Exact quotients and roots, the sign test, and quantiles: what the inference needs without numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from math import comb, frexp, inf, isfinite, isinf, isqrt
from sys import float_info

# -----------------------------------------------------------------------------
# Exact numbers, rounded to a float once: quotients, roots and the middle of two values.
#
# The inference needs these without the arrays of the other modules.


FLOAT_BITS = 53

LARGEST = float_info.max

LARGEST_EXPONENT = 1023
"""The greatest whole exponent for which a power of two is a float."""

_ROOT_BITS = 2 * FLOAT_BITS + 3
"""Bits of the radicand that give the integer root two bits more than a float has."""


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
    """The float nearest to the square root of a fraction (both parts >= 0); infinite beyond the range.

    The integer root is rounded to odd, so only the rounding to a float counts (Boldo and Melquiond,
    "Emulation of FMA and correctly rounded sums", 2008).

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

    Halving a sum is exact, except for one rounding among subnormals. If the sum overflows, both values are
    halved first.

    >>> middle_of(1.5e308, 1.7e308), middle_of(5e-324, 1e-323), middle_of(float("-inf"), float("inf"))
    (1.6e+308, 1e-323, nan)
    """
    total = lower + upper
    if isinf(total) and not isinf(lower) and not isinf(upper):
        return lower / 2 + upper / 2
    return total / 2 + 0.0


def whole(values: Sequence[float]) -> tuple[list[int], int]:
    """Finite values as integers over a common power of two, exact: the integers and the exponent.

    >>> whole([0.75, 2.0, -0.25])
    ([13510798882111488, 36028797018963968, -4503599627370496], 54)
    >>> whole([1e300, 5e-324])[1], whole([0.0])
    (1074, ([0], 0))
    """
    sizes = [abs(value) for value in values if value]
    if not sizes:
        return [0] * len(values), 0
    shift = max(0, FLOAT_BITS - frexp(min(sizes))[1])
    if max(shift, shift + frexp(max(sizes))[1]) <= LARGEST_EXPONENT:
        scale = 2.0**shift  # multiplying by a power of two is exact
        return [int(value * scale) for value in values], shift
    ratios = [value.as_integer_ratio() for value in values]
    shift = max(denominator for _, denominator in ratios).bit_length() - 1
    return [(numerator << shift) // denominator for numerator, denominator in ratios], shift


def mean_of(values: Sequence[float]) -> float:
    """The correctly rounded mean of at least one value; infinite or NaN with infinite values.

    >>> mean_of([0.1, 0.2, 0.3]), mean_of([1.7e308, 1.7e308]), mean_of([1.0, inf]), mean_of([inf, -inf])
    (0.2, 1.7e+308, inf, nan)
    """
    if not all(map(isfinite, values)):
        return sum(value for value in values if not isfinite(value))
    numerators, shift = whole(values)
    return quotient(sum(numerators), len(values) << shift)


def nearest_float(value: float | Fraction) -> float:
    """The nearest finite float, because JSON and the models take no infinity.

    >>> nearest_float(1.5), nearest_float(-inf)
    (1.5, -1.7976931348623157e+308)
    """
    return float(max(-LARGEST, min(value, LARGEST)))


# -----------------------------------------------------------------------------
# The only error of the statistics: a caller breaks their contract.


class StatsError(ValueError):
    """A value that a statistic cannot take, or does not have.

    It is always the caller's mistake, and the statistic does not change.
    """

    @classmethod
    def absent(cls, holder: str, value: object) -> StatsError:
        """The error for removing a value that `holder` does not have."""
        return cls(
            f"{holder} does not hold {value!r}, so it cannot be removed; remove exactly what was added, once"
        )

    @classmethod
    def unfit(cls, holder: str, value: object, allowed: str) -> StatsError:
        return cls(f"{holder} does not take {value!r}; it takes {allowed}; count others separately")


# -----------------------------------------------------------------------------
# The sign test, exact.


def sign_test(fewer: int, more: int) -> float:
    """Two-sided p-value of the sign test: how often fair coins give a result at least this lopsided.

    `fewer` differing pairs went one way and `more` the other (Dixon and Mood, "The statistical sign test",
    1946). For one trial per side it is McNemar's exact test. Without pairs it is 1.0.

    >>> sign_test(0, 5), sign_test(5, 0), sign_test(1, 4), sign_test(3, 3), sign_test(0, 0)
    (0.0625, 0.0625, 0.375, 1.0, 1.0)
    """
    pairs = fewer + more
    ways = term = 1
    for number in range(min(fewer, more)):
        term = term * (pairs - number) // (number + 1)
        ways += term
    return min(1.0, quotient(2 * ways, 2**pairs))


# -----------------------------------------------------------------------------
# Quantiles of the normal distribution and of Student's t, the same to the last bit on every machine.
#
# They are part of digests, so they may not come from a machine's mathematical library. They are computed with
# the decimal numbers of Python's standard library, whose arithmetic is defined to the last digit, and rounded
# once.


_DIGITS = 50
"""Internal precision. 1 - alpha costs 20 digits and a float has 17, so only the last rounding counts."""

_CONTEXT = Context(prec=_DIGITS, Emin=MIN_EMIN, Emax=MAX_EMAX)

_LEAST = Fraction(1, 10**20)
"""The smallest alpha; a smaller one would need more digits."""

_NEAR = Decimal("1e-15")
"""Newton's method stops after a relative step this small: the remaining error is about its square."""

_PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494")

_MANY = 1_000
"""With at least this many degrees of freedom, a series gives all digits of the beta function, and
is faster.
"""

_TANGENT_NUMBERS = (1, 2, 16, 272, 7936, 353792, 22368256, 1903757312, 209865342976, 29088885112832)
"""OEIS A000182, as far as that series needs it."""


@lru_cache(maxsize=64)
def normal(alpha: Fraction) -> float:
    """z such that a standard normal number is outside [-z, z] with probability alpha.

    `alpha` is at least 1e-20 and below 1; otherwise StatsError. The probability inside is `z d (1 + z^2/3 +
    z^4/(3 5) + ...)`, with the density d of |z|.

    >>> normal(Fraction(1, 20))
    1.9599639845400543
    """
    if not _LEAST <= alpha < 1:
        raise StatsError.unfit("a quantile", alpha, "a probability of 1e-20 or more, and below 1")
    with localcontext(_CONTEXT):
        inside, at_zero = _inside(alpha), (2 / _PI).sqrt()

        def slope_and_inside(z: Decimal) -> tuple[Decimal, Decimal]:
            slope = at_zero * z * (-z * z / 2).exp()
            return slope, slope * _series(z * z, Decimal(0), 3)

        return _solved(inside, inside / at_zero, slope_and_inside)


@lru_cache(maxsize=1 << 16)
def student_t(alpha: Fraction, degrees: int) -> float:
    """t such that Student's t with these degrees of freedom is outside [-t, t] with probability alpha.

    `alpha` is 1e-20 or more and below 1, and `degrees` is 1 or more; otherwise StatsError.

    With v degrees of freedom, s^2 = t^2/(v+t^2) and c^2 = 1 - s^2, let m = 2 s c^v / B(1/2, v/2). Then

        inside [-t, t]:  m (1 + s^2 (v+1)/3 + s^4 (v+1)(v+3)/(3 5) + ...)
        outside:         m (1 + c^2 (v+1)/(v+2) + c^4 (v+1)(v+3)/((v+2)(v+4)) + ...) / v

    These are the incomplete beta function from either end (Abramowitz and Stegun 26.5.4, 26.7.1).

    >>> student_t(Fraction(1, 20), 1), student_t(Fraction(1, 20), 9), student_t(Fraction(1, 20), 10_000)
    (12.706204736174705, 2.2621571627982053, 1.9602012398906263)
    """
    if degrees < 1:
        raise StatsError.unfit("student_t", degrees, "1 degree of freedom or more")
    near = normal(alpha)
    with localcontext(_CONTEXT):
        z, beta = Decimal(near), _beta(degrees)

        def slope_and_inside(t: Decimal) -> tuple[Decimal, Decimal]:
            square = t * t
            c2, s2 = degrees / (degrees + square), square / (degrees + square)
            slope = 2 * s2.sqrt() * c2.sqrt() ** degrees / beta
            if s2 < c2:
                return slope, slope * _series((degrees + 1) * s2, 2 * s2, 3)
            return slope, 1 - slope * _series((degrees + 1) * c2, 2 * c2, degrees + 2) / degrees

        guess = z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
        return _solved(_inside(alpha), guess, slope_and_inside)


def _solved(inside: Decimal, t: Decimal, at: Callable[[Decimal], tuple[Decimal, Decimal]]) -> float:
    """The t with this probability in [-t, t], by Newton's method, rounded once at the end.

    The probability is concave in t, so steps from below the root never pass it.
    """
    while True:
        slope, value = at(t)
        step = (inside - value) / slope
        t += t * step
        if abs(step) < _NEAR:
            return float(t)


def _series(first: Decimal, more: Decimal, below: int) -> Decimal:
    """1 + f/b + f/b (f+m)/(b+2) + f/b (f+m)/(b+2) (f+2m)/(b+4) + ..., until terms no longer matter."""
    total, term, before = Decimal(1), Decimal(1), Decimal(0)
    while total != before:
        before = total
        term = term * first / below
        total += term
        first += more
        below += 2
    return total


def _beta(degrees: int) -> Decimal:
    """B(1/2, degrees/2): from a central binomial coefficient, or from the series of its logarithm.

    With n = (degrees - 1)/2 and tangent numbers T:

        log(B / sqrt(pi/n)) = sum over k of (-1)^k 2 T_k / ((2k-1) 16^k n^(2k-1))
    """
    half, odd = divmod(degrees, 2)
    if degrees >= _MANY:
        n, logarithm = Decimal(degrees - 1) / 2, Decimal(0)
        for k, tangent in enumerate(_TANGENT_NUMBERS, 1):
            logarithm += 2 * tangent * n / (2 * k - 1) / (-16 * n * n) ** k
        return (_PI / n).sqrt() * logarithm.exp()
    ways = Decimal(comb(2 * half, half)) / Decimal(4) ** half
    return _PI * ways if odd else 1 / (half * ways)


def _inside(alpha: Fraction) -> Decimal:
    return Decimal(alpha.denominator - alpha.numerator) / alpha.denominator
