"""One metric of one group: what is not finite, and what is not there."""

from __future__ import annotations

from math import inf, nan

import pytest

from streamer.stats.distribution import Distribution
from streamer.stats.errors import StatsError


def distribution(*values: float) -> Distribution:
    result = Distribution()
    for value in values:
        result.add(value)
    return result


def test_of_nothing_the_count_is_zero_and_the_rest_unknown() -> None:
    nothing = Distribution()
    assert nothing.summary() == {
        "median": None,
        "mean": None,
        "mode": None,
        "min": None,
        "max": None,
        "std_dev": None,
        "count": 0,
    }
    assert (nothing.total(), nothing.variance()) == (0.0, None)


def test_one_infinite_cost_makes_the_mean_infinite_and_leaves_the_median() -> None:
    assert distribution(0.2, 0.4, inf).summary() == {
        "median": 0.4,
        "mean": "Infinity",
        "mode": 0.2,
        "min": 0.2,
        "max": "Infinity",
        "std_dev": None,
        "count": 3,
    }


def test_an_infinite_value_that_leaves_leaves_no_trace() -> None:
    held = distribution(0.2, inf, 0.4, -inf)
    assert (held.summary()["mean"], held.variance()) == ("NaN", None)
    held.remove(inf)
    assert (held.mean(), held.total()) == (-inf, -inf)
    held.remove(-inf)
    assert held.summary() == distribution(0.2, 0.4).summary()


def test_not_a_number_is_counted_apart_and_enters_nothing() -> None:
    held = distribution(0.2, nan, 0.4)
    assert (held.nans, held.count) == (1, 2)
    assert held.summary() == distribution(0.2, 0.4).summary()
    held.remove(nan)
    assert held.nans == 0
    with pytest.raises(StatsError, match="does not hold nan"):
        held.remove(nan)


def test_merging_adds_what_was_counted_apart() -> None:
    held = distribution(nan, inf)
    held.merge(distribution(nan, -inf, 1.0), distribution(inf))
    assert (held.nans, held.count, held.summary()["mean"]) == (2, 4, "NaN")


def test_a_value_that_only_rounds_to_one_held_cannot_be_removed() -> None:
    held = distribution(0.1234561, 0.5)
    with pytest.raises(StatsError, match="does not hold"):
        held.remove(0.1234562)
    assert held.summary() == distribution(0.5, 0.1234561).summary()


def test_the_sample_deviation_is_asked_for() -> None:
    # 1, 3: squared deviations 1 + 1 = 2; over 2: 1; over 1: 2
    held = distribution(1.0, 3.0)
    assert (held.summary()["std_dev"], held.summary(ddof=1)["std_dev"]) == (1.0, 2**0.5)
    assert (held.variance(), held.variance(ddof=1)) == (1.0, 2.0)


def test_the_two_zeros_are_one_value() -> None:
    assert repr(distribution(-0.0, 0.0).summary()) == repr(distribution(0.0, -0.0).summary())
    assert "-0.0" not in repr(distribution(-0.0, -1e-9, 1e-9).summary()["mode"])
