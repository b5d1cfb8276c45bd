"""The ordered multiset: blocks, cursor and rebuilds are never seen from outside."""

from __future__ import annotations

import random
from math import inf, isnan, nan

import pytest

from streamer.stats import ordered
from streamer.stats.errors import StatsError
from streamer.stats.ordered import OrderedMultiset
from tests.stats import oracles


@pytest.mark.parametrize("few", [0, 3, 10_000], ids=["sorts", "mixes", "inserts"])
@pytest.mark.parametrize("values", [[0.0, 1.0], [i / 7 for i in range(100)]], ids=["ties", "many"])
def test_a_long_walk_of_changes_always_equals_the_sorted_list(
    monkeypatch: pytest.MonkeyPatch, few: int, values: list[float]
) -> None:
    monkeypatch.setattr(ordered, "_BLOCK", 4)
    monkeypatch.setattr(ordered, "_FEW", few)
    choice = random.Random(few)
    held, plain = OrderedMultiset(), list[float]()
    for growing in (0.8, 0.2, 0.7, 0.05):
        for _ in range(400):
            if choice.random() < growing or not plain:
                plain.append(choice.choice(values))
                held.add(plain[-1])
            else:
                held.remove(plain.pop(choice.randrange(len(plain))))
            if choice.random() < 0.7:
                assert held.summary() == oracles.order(plain)
        assert list(held) == sorted(plain) == sorted(held.to_list())
        assert len(held._blocks) <= 4 + 8 * len(plain) // 4


def test_two_values_whose_sum_overflows_have_a_middle() -> None:
    assert OrderedMultiset([1.5e308, 1.7e308]).median() == 1.6e308


def test_the_middle_of_the_smallest_floats_is_rounded_to_even() -> None:
    assert OrderedMultiset([0.0, 5e-324]).median() == 0.0
    assert OrderedMultiset([5e-324, 1e-323]).median() == 1e-323
    assert repr(OrderedMultiset([-5e-324, 0.0]).median()) == "0.0"


def test_between_the_infinities_there_is_no_middle() -> None:
    middle = OrderedMultiset([-inf, inf]).median()
    assert middle is not None
    assert isnan(middle)
    assert OrderedMultiset([-inf, 2.0, inf]).median() == 2.0


def test_not_a_number_has_no_place() -> None:
    held = OrderedMultiset([1.0])
    with pytest.raises(StatsError, match="floats that are not NaN"):
        held.add(nan)
    with pytest.raises(StatsError, match="does not hold nan"):
        held.remove(nan)


def test_negative_zero_is_zero_on_every_way() -> None:
    held = OrderedMultiset([-0.0])
    assert repr(list(held)) == "[0.0]"
    assert -0.0 in held
    held.remove(0.0)
    assert len(held) == 0


@pytest.mark.parametrize("few", [0, 10_000], ids=["merges", "one by one"])
def test_parts_that_come_and_go_leave_the_sorted_list(monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    monkeypatch.setattr(ordered, "_BLOCK", 4)
    monkeypatch.setattr(ordered, "_FEW", few)
    choice = random.Random(few)
    held, parts = OrderedMultiset(), list[list[float]]()
    for _ in range(300):
        if choice.random() < 0.6 or not parts:
            parts.append([choice.randrange(40) / 8 for _ in range(choice.randrange(12))])
            held.merge(OrderedMultiset(parts[-1]))
        else:
            held.unmerge(OrderedMultiset(parts.pop(choice.randrange(len(parts)))))
        assert held.summary() == oracles.order([value for part in parts for value in part])


def test_a_value_takes_little_more_than_a_double() -> None:
    choice = random.Random(1)
    held = OrderedMultiset(choice.random() for _ in range(20_000))
    for _ in range(5_000):
        held.add(choice.random())
        held.median()
    stored = sum(block.__sizeof__() for block in held._blocks)
    assert stored < 10 * len(held)
