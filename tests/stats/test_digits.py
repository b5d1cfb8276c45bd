"""Floats split in digits: exact sums of any stretch of them."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

from streamer.stats.digits import sums_of
from streamer.stats.exact_sum import ExactSum


@pytest.mark.parametrize("seed", range(8))
def test_every_stretch_has_exact_sums(seed: int) -> None:
    """Signs, zeros, whole and tiny numbers; stretches within 4,096 values, and more in portions."""
    choice = random.Random(seed)
    values = [choice.choice([0.0, -3.0, choice.gauss(0, 1), choice.random() * 1e-9]) for _ in range(9_000)]
    shift = choice.choice([0, 5])
    for first, end in ((0, 4_096), (17, 4_113), (4_903, 8_999), (300, 301)):
        found = sums_of(np.array(values[first:end]), shift)
        assert found is not None
        exact = [Fraction(value) for value in values[first:end]]
        assert Fraction(found.total, 1 << found.shift) == sum(exact)
        assert Fraction(found.squares, 1 << 2 * found.shift) == sum(value * value for value in exact)
    exact = [Fraction(value) for value in values]
    total, squares, unit = ExactSum.of(np.array(values)).whole()
    assert Fraction(total, unit) == sum(exact)
    assert Fraction(squares, unit**2) == sum(value * value for value in exact)


@pytest.mark.parametrize(
    "values", [[], [1.0, float("inf")], [1e300, 1e-9], [1.0, 5e-324], [2.0**250]], ids=repr
)
def test_what_cannot_be_split_is_left_to_others(values: list[float]) -> None:
    assert sums_of(np.array(values)) is None
    assert sums_of(np.array([1.0]), shift=1_001) is None


def test_coarse_values_join_a_sum_of_finer_ones() -> None:
    held = ExactSum.of([0.1])
    held.extend(np.array([3.0, 4.0]))
    assert held.summary() == ExactSum.of([0.1, 3.0, 4.0]).summary()
