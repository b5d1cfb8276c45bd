"""Quantiles: published tables, and the distribution functions they invert."""

from __future__ import annotations

import math
import threading
from decimal import Context, localcontext
from fractions import Fraction

import pytest
from mpmath import MPContext

from streamer.statistics.exact import StatsError, normal, student_t

ALPHAS = [Fraction(1, 2), Fraction(1, 5), Fraction(1, 20), Fraction(1, 600), Fraction(1, 10**9)]

DEGREES = [*range(1, 301), *range(350, 2001, 150), *range(995, 1005), 4_321, 10_000, 123_456, 10**6, 10**8]


def by_hypergeometric_functions(alpha: Fraction, degrees: int) -> float:
    """Student's t from Gauss's function at 50 digits and Newton's steps: another formula, another library."""
    context = MPContext()
    context.dps = 50
    inside, half = 1 - context.mpf(alpha.numerator) / alpha.denominator, context.mpf(1) / 2
    scale = context.gammaprod([half * (degrees + 1)], [half * degrees]) / context.sqrt(context.pi * degrees)
    t, step = context.sqrt(2) * context.erfinv(inside), context.inf
    while abs(step) > t * context.mpf(10) ** -20:
        within = 2 * t * scale * context.hyp2f1(half, half * (degrees + 1), 3 * half, -t * t / degrees)
        density = 2 * scale * (1 + t * t / degrees) ** (-half * (degrees + 1))
        step = (inside - within) / density
        t += step
    return float(t)


@pytest.mark.parametrize(
    ("alpha", "degrees", "value"),
    [
        ("1/20", 1, 12.706),
        ("1/20", 5, 2.571),
        ("1/20", 30, 2.042),
        ("1/20", 120, 1.980),
        ("1/100", 10, 3.169),
        ("1/10", 60, 1.671),
        ("1/1000", 2, 31.599),
    ],
)
def test_t_is_what_the_tables_print(alpha: str, degrees: int, value: float) -> None:
    """Abramowitz and Stegun, Handbook of Mathematical Functions, table 26.10."""
    assert round(student_t(Fraction(alpha), degrees), 3) == value


@pytest.mark.parametrize("alpha", ALPHAS)
def test_with_one_and_two_degrees_of_freedom_t_has_a_closed_form(alpha: Fraction) -> None:
    p = float(alpha)
    assert student_t(alpha, 1) == pytest.approx(1 / math.tan(math.pi * p / 2), rel=1e-14)
    assert student_t(alpha, 2) == pytest.approx(math.sqrt(2 / (p * (2 - p))) * (1 - p), rel=1e-14)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("degrees", [3, 4, 9, 88, 499, 12_345, 1_000_000])
def test_t_is_the_float_at_which_the_incomplete_beta_function_crosses(alpha: Fraction, degrees: int) -> None:
    context = MPContext()
    context.prec = 300

    def outside(t: float) -> Fraction:
        exact = context.mpf(t)
        x = degrees / (degrees + exact**2)
        tail = context.betainc(context.mpf(degrees) / 2, context.mpf(1) / 2, 0, x, regularized=True)
        return Fraction(int(context.floor(tail * 2**200)), 2**200)

    t = student_t(alpha, degrees)
    assert outside(math.nextafter(t, math.inf)) < alpha < outside(math.nextafter(t, 0.0))


@pytest.mark.parametrize("alpha", [Fraction(1, 2), Fraction(1, 20), Fraction(1, 600)])
def test_t_has_the_bits_of_another_formula(alpha: Fraction) -> None:
    for degrees in DEGREES:
        assert student_t(alpha, degrees) == by_hypergeometric_functions(alpha, degrees), degrees


@pytest.mark.parametrize("alpha", [*ALPHAS, Fraction(19, 20), Fraction(1, 10**20), 1 - Fraction(1, 10**30)])
def test_the_normal_quantile_has_the_bits_of_the_inverse_error_function(alpha: Fraction) -> None:
    context = MPContext()
    context.dps = 80
    inside = 1 - context.mpf(alpha.numerator) / alpha.denominator
    assert normal(alpha) == float(context.sqrt(2) * context.erfinv(inside))


def test_the_caller_s_decimal_context_changes_no_bit_and_stays_as_it_is() -> None:
    expected = normal.__wrapped__(Fraction(1, 20)), student_t.__wrapped__(Fraction(1, 20), 7)
    with localcontext(Context(prec=3, Emax=5, Emin=-5)) as context:
        assert expected == (normal.__wrapped__(Fraction(1, 20)), student_t.__wrapped__(Fraction(1, 20), 7))
        assert (context.prec, any(context.flags.values())) == (3, False)


def test_the_normal_quantile_has_its_known_digits() -> None:
    assert normal(Fraction(1, 20)) == float("1.95996398454005423552459443052055152795555")
    assert normal(Fraction(1, 100)) == float("2.57582930354890076097698546740229512")


@pytest.mark.parametrize("alpha", ALPHAS)
def test_t_falls_towards_the_normal_quantile(alpha: Fraction) -> None:
    several = [student_t(alpha, degrees) for degrees in (1, 2, 5, 20, 100, 10_000, 10**8)]
    assert several == sorted(several, reverse=True)
    assert several[-1] == pytest.approx(normal(alpha), rel=1e-6)
    assert several[-1] > normal(alpha)


@pytest.mark.parametrize(
    "alpha", [Fraction(0), Fraction(1), Fraction(-1, 20), Fraction(3, 2), Fraction(1, 10**21)]
)
def test_a_probability_that_is_none_or_too_small_is_refused(alpha: Fraction) -> None:
    for quantile in (normal, lambda alpha: student_t(alpha, 3)):
        with pytest.raises(StatsError, match="1e-20 or more, and below 1"):
            quantile(alpha)


def test_no_degrees_of_freedom_are_refused() -> None:
    with pytest.raises(StatsError, match="1 degree of freedom"):
        student_t(Fraction(1, 20), 0)


def test_threads_get_the_same_bits() -> None:
    alpha, found = Fraction(1, 7), []
    expected = [student_t.__wrapped__(alpha, degrees) for degrees in range(1, 20)]

    def ask() -> None:
        found.append([student_t.__wrapped__(alpha, degrees) for degrees in range(1, 20)])

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4
