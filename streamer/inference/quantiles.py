"""Quantiles of the normal distribution and of Student's t, the same to the last bit on every machine.

They enter digests, so they may not come from a machine's mathematical library. They are computed with twice
the digits of a float, by rules for integers (mpmath), and rounded once.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

from streamer.stats.errors import StatsError

_BITS = 128
"""Precision inside: a float has 53 bits, so the last rounding is the only one that counts."""

_NEAR = 2.0**-80
"""A step of Newton's this small, relative to t, squares to less than the precision: it was the last."""


@lru_cache(maxsize=64)
def normal(alpha: Fraction) -> float:
    """z such that a standard normal number lies outside of [-z, z] with probability alpha.

    Args:
        alpha: between 0 and 1, both excluded; otherwise StatsError.

    >>> normal(Fraction(1, 20))
    1.9599639845400543
    """
    context = _context(alpha)
    return float(_normal(context, alpha))


@lru_cache(maxsize=1 << 16)
def student_t(alpha: Fraction, degrees: int) -> float:
    """t such that Student's t with so many degrees of freedom lies outside of [-t, t] with probability alpha.

    Args:
        alpha: between 0 and 1, both excluded; otherwise StatsError.
        degrees: 1 or more; otherwise StatsError.

    Newton's method from the normal quantile, which is smaller. The probability inside [-t, t] is concave in
    t, so no step passes the root. With the density c at 0 and Gauss's function F, it is
    `2 t c F(1/2, (v+1)/2; 3/2; -t^2/v)`.

    >>> student_t(Fraction(1, 20), 1), student_t(Fraction(1, 20), 9), student_t(Fraction(1, 20), 10_000)
    (12.706204736174705, 2.2621571627982053, 1.9602012398906263)
    """
    context = _context(alpha)
    if degrees < 1:
        raise StatsError.unfit("student_t", degrees, "1 degree of freedom or more")
    inside, half = 1 - _exact(context, alpha), context.mpf(1) / 2
    scale = context.gammaprod([half * (degrees + 1)], [half * degrees]) / context.sqrt(context.pi * degrees)
    t = _normal(context, alpha)
    while True:
        within = 2 * t * scale * context.hyp2f1(half, half * (degrees + 1), 3 * half, -t * t / degrees)
        density = 2 * scale * (1 + t * t / degrees) ** (-half * (degrees + 1))
        step = (inside - within) / density
        t += step
        if abs(step) < _NEAR * t:
            return float(t)


def _normal(context: Any, alpha: Fraction) -> Any:
    return context.sqrt(2) * context.erfinv(1 - _exact(context, alpha))


def _exact(context: Any, number: Fraction) -> Any:
    return context.mpf(number.numerator) / number.denominator


def _context(alpha: Fraction) -> Any:
    """mpmath's numbers with our precision, in a context of our own: the library's own one is shared."""
    if not 0 < alpha < 1:
        raise StatsError.unfit("a quantile", alpha, "a probability between 0 and 1, both excluded")
    from mpmath import MPContext  # here: it takes 40 milliseconds that no command should wait for in vain

    context = MPContext()
    context.prec = _BITS + alpha.denominator.bit_length()  # for 1 - alpha
    return context
