"""The mode: values compared as they are, ties to the smallest (R15)."""

from __future__ import annotations

import random
from math import inf

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamer.stats import ordered
from streamer.stats.ordered import OrderedMultiset
from streamer.stats.ranked import most_frequent, runs_of
from tests.stats import oracles
from tests.support.examples import examples


def mode_of(*values: float) -> float | None:
    return OrderedMultiset(values).mode()


anything = st.one_of(st.floats(allow_nan=False), st.floats(-1e7, 1e7))


@examples(500)
@given(st.lists(anything, min_size=1, max_size=8), st.integers(1, 3))
@example([8796093.022208, -8796093.022208, -inf, inf, 2.5e-6, 8796093.5, 1e10, 2**33 + 0.1], 1)
def test_the_search_in_columns_equals_the_oracle(values: list[float], times: int) -> None:
    values = values + values[: len(values) // 2] * times
    found, count = most_frequent(*runs_of(np.array(sorted(values)) + 0.0))
    expected = oracles.mode_of(values)
    assert repr(found) == repr(expected)
    assert count == values.count(found)


def test_with_all_values_distinct_the_mode_is_the_minimum() -> None:
    assert mode_of(0.9, 0.1234564, 0.5) == 0.1234564


def test_r15_values_that_differ_in_the_seventh_decimal_are_different_values() -> None:
    assert mode_of(0.1, 0.9, 0.9000001) == 0.1
    assert mode_of(0.4999996, 0.5, 0.5) == 0.5


def test_of_equally_frequent_values_the_smallest_wins_whatever_the_order() -> None:
    assert mode_of(2.0, 1.0, 2.0, 1.0) == mode_of(1.0, 1.0, 2.0, 2.0) == 1.0


def test_infinity_can_be_the_mode() -> None:
    assert mode_of(inf, 1.0, inf) == inf


@pytest.mark.parametrize("few", [0, 8, 10_000], ids=["merges", "mixes", "inserts"])
@pytest.mark.parametrize("block", [4, 1024])
@pytest.mark.parametrize("spread", [3, 40, 1000])
def test_a_long_walk_that_often_removes_the_mode_equals_the_oracle(
    monkeypatch: pytest.MonkeyPatch, few: int, block: int, spread: int
) -> None:
    monkeypatch.setattr(ordered, "_FEW", few)
    monkeypatch.setattr(ordered, "_BLOCK", block)
    choice = random.Random(few + block + spread)
    held, plain = OrderedMultiset(), list[float]()
    for growing in (0.8, 0.3, 0.7, 0.1):
        for _ in range(250):
            dice = choice.random()
            if dice < growing or not plain:
                plain.append(choice.randrange(spread) / 8 + choice.choice([0.0, 1e-7]))
                held.add(plain[-1])
            elif dice < growing + 0.1:
                top = held.mode()
                plain.remove(gone := next(value for value in plain if value == top))
                held.remove(gone)
            else:
                held.remove(plain.pop(choice.randrange(len(plain))))
            if choice.random() < 0.5:
                assert held.mode() == oracles.mode_of(plain)
