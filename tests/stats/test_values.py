"""Values that several distributions share count as if each had been given them one by one."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.canonical import canonical_json
from streamer.stats import Distribution, ExactSum, Shares, Values
from streamer.stats import values as module
from tests.stats import oracles
from tests.support.examples import examples

numbers = st.one_of(st.sampled_from([0.0, -0.0, 1.0, float("inf"), float("-inf")]), st.floats())
portions = st.lists(st.lists(numbers, min_size=1, max_size=90), max_size=4)


@examples(150)
@given(portions, portions)
def test_shared_values_count_in_every_distribution_and_can_be_taken_back(
    first: list[list[float]], second: list[list[float]]
) -> None:
    shared = [Values(values) for values in first]
    one, other = Distribution(), Distribution()
    for values in second:
        other.extend(values)
    for values in shared:
        one.extend(values)
        other.extend(values)
    if shared:
        together = Distribution()
        together.extend(Values.together(shared))
        assert together.summary() == one.summary()
    everything = [value for values in first + second for value in values]
    assert canonical_json(other.summary()) == canonical_json(oracles.distribution(everything))
    for values in shared:
        other.withdraw(values)
    left = [value for values in second for value in values]
    assert canonical_json(other.summary()) == canonical_json(oracles.distribution(left))
    assert other.nans == sum(value != value for value in left)


@examples(100)
@given(st.lists(st.sampled_from([0.0, 1.0]), max_size=70), st.integers(0, 1))
def test_shares_say_what_a_distribution_of_the_same_values_says(values: list[float], ddof: int) -> None:
    shares, distribution = Shares(), Distribution()
    shares.extend(Values(values))
    distribution.extend(values)
    assert canonical_json(shares.summary(ddof)) == canonical_json(distribution.summary(ddof))
    assert (shares.median(), shares.mean(), shares.total(), shares.count) == (
        distribution.median(),
        distribution.mean(),
        distribution.total(),
        distribution.count,
    )


@examples(200)
@given(st.lists(st.lists(numbers, max_size=40), min_size=1, max_size=6), st.sampled_from([0, 8, 32]))
def test_parts_of_a_column_are_the_values_of_each_part(portions: list[list[float]], large: int) -> None:
    bounds = [0, *accumulate(map(len, portions))]
    column = np.array([value for values in portions for value in values], dtype=np.float64)
    wanted = [Values([value for value in values if value == value]) for values in portions]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LARGE", large)
        parts = Values.parts(column, bounds)
    assert [_said(part) for part in parts] == [_said(values) for values in wanted]
    assert _said(Values.together(parts)) == _said(Values.together(wanted))


def test_what_the_sums_of_parts_need_is_worked_out_for_the_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGE", 2)
    parts = Values.parts(np.array([0.25, 3.0, np.inf, 0.1, 0.2]), [0, 3, 5])
    monkeypatch.setattr(ExactSum, "extend", None)  # which sums values that come alone
    assert [part.sums.summary()["sum"] for part in parts] == [3.25, 0.30000000000000004]


def test_a_part_of_a_column_that_lies_too_far_apart_is_summed_alone() -> None:
    """Over 240 bits between the largest and the smallest: no digits, exact sums all the same."""
    column = np.array([1e300, 1.0] * 40 + [5e-324, 1.0] * 40)
    parts = Values.parts(column, [0, 80, 160])
    assert [part.sums.total() for part in parts] == [4e301 + 40, 40.0]
    assert Values.parts(column[:80], [0, 80])[0].sums.summary() == ExactSum.of(column[:80].tolist()).summary()


def _said(values: Values) -> Any:
    counts = values.size, values.finite, values.nans, values.infinite, values.negative_infinite, len(values)
    numbers = repr(values.array.tolist()), list(values.kept), values.zeros_and_ones  # -0.0 is "-0.0"
    return counts, numbers, values.sums.summary()
