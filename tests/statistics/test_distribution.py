"""One metric of one group: the middle, the mode, what is not finite, and what is not there."""

from __future__ import annotations

import json
import random
from math import inf, isfinite, nan
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamer.schemas.base import canonical_json, json_number
from streamer.statistics.distribution import Distribution
from streamer.statistics.exact import StatsError
from tests.statistics import oracles
from tests.statistics.oracles import mode_of
from tests.support.data import shared_data
from tests.support.examples import examples
from tests.support.formulacode_cases import decoded

anything = st.one_of(st.floats(allow_nan=False), st.floats(-1e7, 1e7))


def distribution(*values: float) -> Distribution:
    result = Distribution()
    for value in values:
        result.add(value)
    return result


def test_not_a_number_is_counted_apart_and_enters_nothing() -> None:
    stored = distribution(0.2, nan, 0.4)
    assert (stored.nans, stored.count) == (1, 2)
    assert stored.summary() == distribution(0.2, 0.4).summary()
    stored.remove(nan)
    assert stored.nans == 0
    with pytest.raises(StatsError, match="does not hold nan"):
        stored.remove(nan)


def test_merging_adds_what_was_counted_apart() -> None:
    stored = distribution(nan, inf)
    stored.merge(distribution(nan, -inf, 1.0), distribution(inf))
    assert (stored.nans, stored.count, stored.summary()["mean"]) == (2, 4, "NaN")


def test_a_value_that_only_rounds_to_one_held_cannot_be_removed() -> None:
    stored = distribution(0.1234561, 0.5)
    with pytest.raises(StatsError, match="does not hold"):
        stored.remove(0.1234562)
    assert stored.summary() == distribution(0.5, 0.1234561).summary()


def test_the_sample_deviation_is_asked_for() -> None:
    # 1, 3: squared deviations 1 + 1 = 2; over 2: 1; over 1: 2
    stored = distribution(1.0, 3.0)
    assert (stored.summary()["std_dev"], stored.summary(ddof=1)["std_dev"]) == (1.0, 2**0.5)


def test_the_two_zeros_are_one_value() -> None:
    assert repr(distribution(-0.0, 0.0).summary()) == repr(distribution(0.0, -0.0).summary())
    assert "-0.0" not in repr(distribution(-0.0, -1e-9, 1e-9).summary()["mode"])


@pytest.mark.parametrize(
    ("values", "middle"),
    [
        ((1.5e308, 1.7e308), 1.6e308),
        ((0.0, 5e-324), 0.0),
        ((5e-324, 1e-323), 1e-323),
        ((-5e-324, 0.0), 0.0),
        ((0.2, inf, 0.4), 0.4),
        ((-inf, 2.0, inf), 2.0),
        ((-inf, inf), nan),
    ],
    ids=["overflow", "to even", "up to even", "no -0.0", "one infinite", "both infinite", "nothing between"],
)
def test_the_middle_by_hand(values: tuple[float, ...], middle: float) -> None:
    assert repr(distribution(*values).median()) == repr(middle)


@examples(500)
@given(st.lists(anything, min_size=1, max_size=8), st.integers(1, 3))
@example([8796093.022208, -8796093.022208, -inf, inf, 2.5e-6, 8796093.5, 1e10, 2**33 + 0.1], 1)
def test_the_mode_equals_the_oracle(values: list[float], times: int) -> None:
    values = values + values[: len(values) // 2] * times
    assert repr(Distribution.of(values).mode()) == repr(oracles.mode_of(values))


@pytest.mark.parametrize(
    ("values", "mode"),
    [
        ((0.9, 0.1234564, 0.5), 0.1234564),
        ((0.1, 0.9, 0.9000001), 0.1),
        ((0.4999996, 0.5, 0.5), 0.5),
        ((2.0, 1.0, 2.0, 1.0), 1.0),
        ((inf, 1.0, inf), inf),
    ],
    ids=["all distinct", "R15: in the seventh decimal", "R15: below it", "a tie", "infinite"],
)
def test_the_mode_by_hand(values: tuple[float, ...], mode: float) -> None:
    assert distribution(*values).mode() == distribution(*reversed(values)).mode() == mode


@pytest.mark.parametrize("block", [4, 1024])
@pytest.mark.parametrize("spread", [3, 40, 1000])
def test_a_long_walk_of_parts_that_come_and_go_equals_the_oracle(
    monkeypatch: pytest.MonkeyPatch, spread: int, block: int
) -> None:
    """Single values and parts of up to 40, so that they are put in one by one and merged in together."""
    monkeypatch.setattr("streamer.statistics.distribution._BLOCK", block)
    choice = random.Random(spread)
    stored, parts = Distribution(), list[list[float]]()
    for growing in (0.8, 0.3, 0.7, 0.1):
        for _ in range(150):
            if choice.random() < growing or not parts:
                size = choice.choice([1, 1, 5, 40])
                parts.append([choice.randrange(spread) / 8 + choice.choice([0.0, 1e-7]) for _ in range(size)])
                stored.merge(Distribution.of(parts[-1]))
            else:
                stored.unmerge(Distribution.of(parts.pop(choice.randrange(len(parts)))))
            if choice.random() < 0.3:
                assert stored.summary() == oracles.distribution([value for part in parts for value in part])
        assert stored.ascending() == sorted(value for part in parts for value in part)


numbers = st.one_of(st.sampled_from([0.0, -0.0, 1.0, inf, -inf, nan]), st.floats())
portions = st.lists(st.lists(numbers, min_size=1, max_size=90), max_size=4)


@examples(150)
@given(portions, portions)
def test_a_part_counts_in_every_distribution_that_it_is_merged_into_and_can_be_taken_back(
    first: list[list[float]], second: list[list[float]]
) -> None:
    shared = list(map(Distribution.of, first))
    other = Distribution()
    for values in second:
        other.extend(values)
    other.merge(*shared)
    everything = [value for values in first + second for value in values]
    assert canonical_json(other.summary()) == canonical_json(oracles.distribution(everything))
    other.unmerge(*shared)
    left = [value for values in second for value in values]
    assert canonical_json(other.summary()) == canonical_json(oracles.distribution(left))
    assert other.nans == sum(value != value for value in left)
    assert [part.count + part.nans for part in shared] == list(map(len, first))


def test_a_value_takes_eight_bytes() -> None:
    choice = random.Random(1)
    stored = Distribution.of(choice.random() for _ in range(20_000))
    for _ in range(500):
        stored.add(choice.random())
    assert sum(block.__sizeof__() for block in stored._blocks) < 10 * stored.count


def test_part_of_a_part_that_is_held_is_not_taken_out() -> None:
    few, many = Distribution.of([1.0, 3.0]), Distribution.of([float(n) for n in range(100)])
    for stored, missing in ((few, [1.0, 1.0, 1.0, 3.0]), (many, [float(n) for n in range(40)] + [5.0] * 3)):
        before = stored.ascending()
        with pytest.raises(StatsError, match="does not hold"):
            stored.unmerge(Distribution.of(missing))
        assert (stored.ascending(), stored.count) == (before, len(before))


# -----------------------------------------------------------------------------
# ProjectScylla's own answers for lists of values, and the rulings where ours differ.


ROUNDING = 1e-8
"""Relative: their two-pass floats against our exact sums, on values that agree to seven digits."""


def cases() -> list[dict[str, Any]]:
    lines = (shared_data() / "scylla" / "function_cases.jsonl").read_text().splitlines()
    return [decoded(case) for case in map(json.loads, lines) if case["fn"] == "statistics"]


def agree(case: dict[str, Any]) -> None:
    values, ours = case["values"], Distribution.of(case["values"]).summary()
    assert ours.keys() == case["expected"].keys() - {"variance"}  # the square of the deviation
    for name in ours:
        value = case["expected"][name]
        if value != value:
            assert ours[name] is None, (case["id"], name)
        elif name == "mode":
            assert ours[name] == json_number(mode_of(values)), (case["id"], name)
            assert value == round(mode_of([round(v, 6) for v in values]) or 0.0, 6), (case["id"], "S4")
        elif name in {"mean", "std_dev"} and isfinite(value):
            assert ours[name] == pytest.approx(value, rel=ROUNDING, abs=0), (case["id"], name)
        else:
            assert ours[name] == json_number(value), (case["id"], name)


def test_all_cases_agree_except_that_of_nothing_they_say_zero_and_that_they_round_before_the_mode() -> None:
    checked = 0
    for case in cases():
        if case["values"]:
            agree(case)
            checked += 1
        else:
            assert set(case["expected"].values()) == {0}
            assert set(Distribution().summary().values()) == {0, None}
    assert checked == 31
