"""The sign test against the binomial distribution, term by term."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import pytest

from streamer.stats.sign_test import sign_test


@pytest.mark.parametrize("pairs", [1, 2, 3, 7, 20, 101])
def test_it_is_both_tails_of_the_fair_binomial_rounded_once(pairs: int) -> None:
    for fewer in range(pairs // 2 + 1):
        tail = sum(comb(pairs, successes) for successes in range(fewer + 1))
        expected = min(Fraction(1), Fraction(2 * tail, 2**pairs))
        assert sign_test(fewer, pairs - fewer) == sign_test(pairs - fewer, fewer) == float(expected)


def test_a_published_example() -> None:
    """Conover, Practical Nonparametric Statistics, 3rd ed., sec. 3.4, example 1: 8 of 9 differ one way."""
    assert sign_test(1, 8) == pytest.approx(0.0391, abs=5e-5)


def test_very_many_pairs_neither_overflow_nor_vanish() -> None:
    assert sign_test(5_000, 5_000) == 1.0
    assert 0.0 < sign_test(0, 1_000) < 1e-300
    assert 0.9 < sign_test(49_990, 50_010) < 1.0
