"""The mode: rounded to 6 decimals, ties to the smallest."""

from __future__ import annotations

import random
from math import inf

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamer.stats import ModeCounter, StatsError, mode, ordered
from streamer.stats.mode import round_to_6
from tests.stats import oracles


def mode_of(*values: float) -> ModeCounter:
    result = ModeCounter()
    for value in values:
        result.add(value)
    return result


near_ties = st.tuples(st.integers(-(2**43), 2**43), st.integers(-3, 3)).map(
    lambda parts: (parts[0] + 0.5) / 1e6 * (1 + parts[1] * 2**-52)
)


@settings(max_examples=2000, deadline=None)
@given(st.one_of(st.floats(allow_nan=False), st.floats(-1e7, 1e7), near_ties))
@example(5e-7)
@example(1.5e-6)
@example(2.5e-6)
@example(-1e-9)
@example(8796093.022208)
def test_the_fast_rounding_is_python_rounding(value: float) -> None:
    assert repr(round_to_6(value)) == repr(round(value, 6) + 0.0)


def test_with_all_values_distinct_the_mode_is_the_rounded_minimum() -> None:
    assert mode_of(0.9, 0.1234564, 0.5).mode() == 0.123456
    assert mode_of(0.4999996, 0.5).mode() == 0.5


def test_values_that_agree_to_six_decimals_are_one() -> None:
    assert mode_of(0.1, 0.9, 0.9000001).mode() == 0.9


def test_of_equally_frequent_values_the_smallest_wins_whatever_the_order() -> None:
    assert mode_of(2.0, 1.0, 2.0, 1.0).mode() == mode_of(1.0, 1.0, 2.0, 2.0).mode() == 1.0


def test_infinity_can_be_the_mode() -> None:
    assert mode_of(inf, 1.0, inf).mode() == inf


def test_not_a_number_is_refused() -> None:
    with pytest.raises(StatsError, match="not NaN"):
        mode_of(float("nan"))


@pytest.mark.parametrize("waiting", [1, 7, 4096])
@pytest.mark.parametrize("spread", [3, 40, 1000])
def test_a_long_walk_that_often_removes_the_mode_equals_the_oracle(
    monkeypatch: pytest.MonkeyPatch, waiting: int, spread: int
) -> None:
    monkeypatch.setattr(mode, "_WAITING", waiting)
    monkeypatch.setattr(ordered, "_BLOCK", 4)
    choice = random.Random(waiting * spread)
    held, plain = ModeCounter(), list[float]()
    for growing in (0.8, 0.3, 0.7, 0.1):
        for _ in range(250):
            dice = choice.random()
            if dice < growing or not plain:
                plain.append(choice.randrange(spread) / 8)
                held.add(plain[-1])
            elif dice < growing + 0.1:
                top = held.mode()
                assert top is not None
                held.remove(top)
                plain.remove(top)
            else:
                held.remove(plain.pop(choice.randrange(len(plain))))
            if choice.random() < 0.5:
                assert held.mode() == oracles.mode_of(plain)
        assert held._heap is None or len(held._heap) <= 64 + 2 * len(held._counts)


@pytest.mark.parametrize("waiting", [1, 50, 4096])
@pytest.mark.parametrize("few", [0, 10_000], ids=["sorts", "looks up"])
@pytest.mark.parametrize("spread", [5, 60, 5000])
def test_merged_parts_equal_the_oracle_on_every_path(
    monkeypatch: pytest.MonkeyPatch, waiting: int, few: int, spread: int
) -> None:
    monkeypatch.setattr(mode, "_WAITING", waiting)
    monkeypatch.setattr(mode, "_FEW", few)
    choice = random.Random(waiting + few + spread)
    held, plain = ModeCounter(), list[float]()
    for size in (0, 1, 40, 3, 200, 200, 7):
        parts = [[choice.randrange(spread) / 8 for _ in range(size)] for _ in range(3)]
        held.merge(*(mode_of(*part) for part in parts))
        plain += [value for part in parts for value in part]
        assert held.mode() == oracles.mode_of(plain)
        for _ in range(len(plain) // 3):
            held.remove(plain.pop(choice.randrange(len(plain))))
        assert held.mode() == oracles.mode_of(plain)


def test_many_distinct_values_take_no_counters() -> None:
    held = mode_of(*(value / 3 for value in range(20_000)))
    assert held.mode() == 0.0
    assert (len(held._counts), len(held._once), held._heap) == (0, 20_000, None)
