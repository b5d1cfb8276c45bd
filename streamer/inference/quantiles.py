"""Quantiles of the normal distribution and of Student's t, the same to the last bit on every machine.

They enter digests, so they may not come from a machine's mathematical library. They are computed with the
decimal numbers of Python's standard library, whose arithmetic is defined to the last digit, and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from math import comb

from streamer.stats.errors import StatsError

_DIGITS = 50
"""Precision inside. 1 - alpha costs at most 20 digits, and a float has 17: the last rounding alone counts."""

_CONTEXT = Context(prec=_DIGITS, Emin=MIN_EMIN, Emax=MAX_EMAX)

_LEAST = Fraction(1, 10**20)
"""The smallest alpha. A smaller one would need more digits."""

_NEAR = Decimal("1e-15")
"""A step of Newton's this small, relative to t, was the last: what is left is about its square."""

_PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494")

_MANY = 1_000
"""From so many degrees of freedom on, a series gives all digits of the beta function, and is faster."""

_TANGENT_NUMBERS = (1, 2, 16, 272, 7936, 353792, 22368256, 1903757312, 209865342976, 29088885112832)
"""OEIS A000182: as many as that series needs."""


@lru_cache(maxsize=64)
def normal(alpha: Fraction) -> float:
    """z such that a standard normal number lies outside of [-z, z] with probability alpha.

    Args:
        alpha: 1e-20 or more and below 1; otherwise StatsError.

    The probability inside is `z d (1 + z^2/3 + z^4/(3 5) + ...)`, with the density d of |z|.

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
    """t such that Student's t with so many degrees of freedom lies outside of [-t, t] with probability alpha.

    Args:
        alpha: 1e-20 or more and below 1; otherwise StatsError.
        degrees: 1 or more; otherwise StatsError.

    With v degrees of freedom, s^2 = t^2/(v+t^2) and c^2 = 1 - s^2, let m = 2 s c^v / B(1/2, v/2). Then

        inside [-t, t]:  m (1 + s^2 (v+1)/3 + s^4 (v+1)(v+3)/(3 5) + ...)
        outside:         m (1 + c^2 (v+1)/(v+2) + c^4 (v+1)(v+3)/((v+2)(v+4)) + ...) / v

    These are the incomplete beta function from either end (Abramowitz and Stegun 26.5.4 and 26.7.1). All
    terms are positive, and the smaller of s and c needs few of them.

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
    """The t with so much probability in [-t, t]: Newton's method, rounded once at its end.

    The probability is concave in t: from below the root, no step passes it.

    Args:
        inside: the probability.
        t: a guess, below the root or close to it.
        at: t times the density of |t|, and the probability inside [-t, t].
    """
    while True:
        slope, found = at(t)
        step = (inside - found) / slope
        t += t * step
        if abs(step) < _NEAR:
            return float(t)


def _series(first: Decimal, more: Decimal, below: int) -> Decimal:
    """1 + f/b + f/b (f+m)/(b+2) + f/b (f+m)/(b+2) (f+2m)/(b+4) + ..., until nothing is added any more."""
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
