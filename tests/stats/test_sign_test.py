"""The sign test against the binomial distribution, term by term."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import pytest

from streamer.statistics.exact import sign_test


@pytest.mark.parametrize("pairs", [1, 2, 3, 7, 20, 101])
def test_it_is_both_tails_of_the_fair_binomial_rounded_once(pairs: int) -> None:
    for fewer in range(pairs // 2 + 1):
        tail = sum(comb(pairs, successes) for successes in range(fewer + 1))
        expected = min(Fraction(1), Fraction(2 * tail, 2**pairs))
        assert sign_test(fewer, pairs - fewer) == sign_test(pairs - fewer, fewer) == float(expected)


def test_a_published_example() -> None:
    """Conover, Practical Nonparametric Statistics, 3rd ed., sec. 3.4, example 1: 8 of 9 differ one way."""
    assert sign_test(1, 8) == pytest.approx(0.0391, abs=5e-5)


@pytest.mark.parametrize(
    ("fewer", "more", "published"),
    [(6, 16, "0.052479"), (2, 9, "0.06543"), (8, 40, "3.305e-06")],
    ids=["Cavo 2012", "Fay 2010", "pingouin"],
)
def test_the_exact_p_values_of_mcnemar_are_the_published_ones(fewer: int, more: int, published: str) -> None:
    """Pairs that differ, and the exact p-value as printed by others (inference 7 and 9):

    - Cavo 2012, treated in Fagerland, Lydersen and Laake, "Statistical Analysis of Contingency Tables", 2017,
      chapter 8: as tested by their R package contingencytables;
    - Fay, "Two-sided exact tests and matching confidence intervals for discrete data", R Journal 2(1), 2010:
      the example of the vignette exactMcNemar of exact2x2;
    - pingouin.chi2_mcnemar, the example of its documentation.
    """
    digits = len(published.partition("e")[0].lstrip("0.").replace(".", ""))
    assert float(f"{sign_test(fewer, more):.{digits - 1}e}") == float(published)


def test_approval_ratings_fall_by_the_exact_test_as_by_mcnemars_own() -> None:
    """Agresti, Categorical Data Analysis, 1990, p. 350: 150 turned away, 86 turned to; chi^2 = 17.36 there.

    The exact value is worked out here. The published approximate one is 3.099e-05 (Penn State, STAT 504).
    """
    assert round((150 - 86) ** 2 / (150 + 86), 2) == 17.36
    tail = Fraction(2 * sum(comb(236, number) for number in range(87)), 2**236)
    assert sign_test(86, 150) == float(tail)
    assert float(f"{sign_test(86, 150):.2e}") == 3.72e-05


def test_very_many_pairs_neither_overflow_nor_vanish() -> None:
    assert sign_test(5_000, 5_000) == 1.0
    assert 0.0 < sign_test(0, 1_000) < 1e-300
    assert 0.9 < sign_test(49_990, 50_010) < 1.0
