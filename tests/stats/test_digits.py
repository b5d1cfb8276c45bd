"""Floats split in digits: exact sums of any stretch of them."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

from streamer.stats.digits import Digits
from streamer.stats.exact_sum import ExactSum


@pytest.mark.parametrize("seed", range(8))
def test_every_stretch_has_exact_sums(seed: int) -> None:
    """Signs, zeros, whole and tiny numbers; stretches that begin and end within and over 4,096 values."""
    choice = random.Random(seed)
    values = [choice.choice([0.0, -3.0, choice.gauss(0, 1), choice.random() * 1e-9]) for _ in range(9_000)]
    digits = Digits.of(np.array(values), shift=choice.choice([0, 5]))
    assert digits is not None
    for first, end in ((0, 9_000), (17, 4_113), (4_000, 8_999), (300, 301), (5, 5)):
        total, squares = digits.sums(first, end)
        exact = [Fraction(value) for value in values[first:end]]
        assert Fraction(total, 1 << digits.shift) == sum(exact)
        assert Fraction(squares, 1 << 2 * digits.shift) == sum(value * value for value in exact)


@pytest.mark.parametrize(
    "values", [[], [1.0, float("inf")], [1e300, 1e-9], [1.0, 5e-324], [2.0**250]], ids=repr
)
def test_what_cannot_be_split_is_left_to_others(values: list[float]) -> None:
    assert Digits.of(np.array(values)) is None
    assert Digits.of(np.array([1.0]), shift=1_001) is None


def test_digits_coarser_than_the_sum_they_are_added_to() -> None:
    held = ExactSum.of([0.1])
    whole = Digits.of(np.array([3.0, 0.0, 4.0]))
    assert whole is not None
    held.add_digits(whole, 0, 3, 2)
    assert held.summary() == ExactSum.of([0.1, 3.0, 4.0]).summary()
