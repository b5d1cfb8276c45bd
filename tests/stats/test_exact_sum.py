"""The sums: exact inside, rounded once."""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.statistics.distribution import Distribution
from streamer.statistics.exact import ExactSum, StatsError, quotient, root_of_quotient
from tests.stats import oracles
from tests.support.examples import examples


def sum_of(*values: float) -> ExactSum:
    result = ExactSum()
    for value in values:
        result.add(value)
    return result


def test_of_nothing_the_sum_is_zero_and_the_rest_unknown() -> None:
    nothing = ExactSum()
    assert (nothing.count, nothing.total()) == (0, 0.0)
    assert (nothing.mean(), nothing.variance(), nothing.std_dev()) == (None, None, None)


@pytest.mark.parametrize("ddof", [0, 1])
def test_of_one_value_variance_and_deviation_are_zero(ddof: int) -> None:
    one = sum_of(0.1)
    assert (one.variance(ddof), one.std_dev(ddof)) == (0.0, 0.0)


def test_population_and_sample_divide_by_n_and_n_minus_one() -> None:
    # 2, 4, 4, 4, 5, 5, 7, 9: mean 5, squared deviations 9+1+1+1+0+0+4+16 = 32
    values = sum_of(2, 4, 4, 4, 5, 5, 7, 9)
    assert (values.variance(), values.std_dev()) == (32 / 8, 2.0)
    assert (values.variance(ddof=1), values.std_dev(ddof=1)) == (32 / 7, 2.138089935299395)


def test_equal_values_have_no_deviation_where_floats_would_show_one() -> None:
    assert sum_of(*[0.1] * 10).std_dev() == 0.0
    assert sum_of(*[0.1] * 10).total() == 1.0


def test_cancelling_sums_lose_nothing() -> None:
    for order in itertools.permutations([1e300, 1.0, -1e300, 5e-324]):
        assert sum_of(*order).total() == 1.0


def test_a_sum_beyond_the_floats_is_infinite_and_comes_back() -> None:
    huge = sum_of(1.7e308, 1.7e308)
    assert (huge.total(), huge.mean(), huge.variance()) == (inf, 1.7e308, 0.0)
    huge.add(-1.7e308)
    assert huge.total() == 1.7e308
    assert sum_of(-1.7e308, -1.7e308).total() == -inf


def test_a_variance_beyond_the_floats_is_infinite_but_its_root_is_not() -> None:
    assert (sum_of(1e300, -1e300).variance(), sum_of(1e300, -1e300).std_dev()) == (inf, 1e300)
    assert sum_of(1.7e308, -1.7e308).std_dev(ddof=1) == inf


def test_the_smallest_floats_keep_their_deviation() -> None:
    # 0 and 2u: mean u, deviation u, with u = 2^-1074; the variance u^2 is below all floats
    tiny = sum_of(0.0, 1e-323)
    assert (tiny.mean(), tiny.std_dev(), tiny.variance()) == (5e-324, 5e-324, 0.0)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=80), st.integers(1, 10**6))
def test_a_sum_over_a_count_is_the_exact_ratio_rounded_once(values: list[float], parts: int) -> None:
    ratio = sum(map(Fraction, values), Fraction(0)) / parts
    expected = quotient(ratio.numerator, ratio.denominator)
    held = Distribution()
    held.extend(values)
    assert ExactSum.of(values).total_over(parts) == held.total_over(parts) == expected


def test_a_sum_over_a_count_is_infinite_with_an_infinite_value() -> None:
    held = Distribution()
    held.extend([1.0, inf])
    assert held.total_over(3) == inf


def test_no_result_is_a_negative_zero() -> None:
    assert repr(sum_of(-0.0).total()) == "0.0"
    assert repr(sum_of(-5e-324, 0.0, 0.0).mean()) == "0.0"


@pytest.mark.parametrize("value", [inf, -inf, nan])
def test_what_is_not_finite_is_refused(value: float) -> None:
    held = sum_of(1.0)
    with pytest.raises(StatsError, match="takes finite floats"):
        held.add(value)
    with pytest.raises(StatsError, match="takes finite floats"):
        held.remove(value)
    assert (held.count, held.total()) == (1, 1.0)


@pytest.mark.parametrize("stranger", [5.0, 6.0, 1.0])
def test_a_removal_that_leaves_an_impossible_remainder_is_refused(stranger: float) -> None:
    # without 1 the rest would be two values with sum 8 and squares 26, but 2 * 26 < 8^2
    held = sum_of(3.0, 3.0, 3.0)
    with pytest.raises(StatsError, match="does not hold"):
        held.remove(stranger)
    assert held.summary() == sum_of(3.0, 3.0, 3.0).summary()


def test_a_hostile_value_that_left_costs_nothing_once_all_left() -> None:
    held = sum_of(5e-324, 1.0)
    held.remove(5e-324)
    held.remove(1.0)
    assert (held._shift, held._scale, held._sum, held._squares) == (0, 1.0, 0, 0)


def test_values_finer_than_any_scale_of_floats_are_exact_after_each_other() -> None:
    assert sum_of(5e-324, 2.5e-7, 3.0, 0.1).total() == 3.10000025


@pytest.mark.parametrize("bits", [1, 2, 53, 54, 107, 900])
def test_roots_are_rounded_to_nearest_next_to_a_tie(bits: int) -> None:
    # (2^53 + 1) is halfway between two floats: just below it rounds down, just above rounds up
    tie = (2**53 + 1) << bits
    assert root_of_quotient(tie * tie - 1, 1) == float(2**53 << bits)
    assert root_of_quotient(tie * tie + 1, 1) == float((2**53 + 2) << bits)
    assert root_of_quotient(tie * tie, 1) == float(2**53 << bits)


def test_a_quotient_beyond_the_floats_has_a_sign() -> None:
    assert (quotient(10**400, 1), quotient(-(10**400), 3)) == (inf, -inf)


WIDE = st.floats(allow_nan=False, allow_infinity=False)
NARROW = st.one_of(
    st.floats(-1, 1), st.integers(-(2**53), 2**53).map(float), st.sampled_from([0.1, 1e-9, 3e5])
)


@examples(60)
@given(st.lists(NARROW, min_size=64, max_size=300), st.lists(st.one_of(NARROW, WIDE), max_size=3))
def test_many_at_once_are_the_same_as_one_by_one(values: list[float], before: list[float]) -> None:
    at_once, one_by_one = sum_of(*before), sum_of(*before, *values)
    at_once.extend(values)
    assert (at_once.summary(), at_once.count) == (one_by_one.summary(), len(before) + len(values))


@pytest.mark.parametrize("count", [1, 5, 300])
def test_many_integers_at_once_are_the_same_as_one_by_one(count: int) -> None:
    values = [(-1) ** n * (2**53 - n * n) for n in range(count)]
    for before in ([], [0.1]):
        at_once, one_by_one = sum_of(*before), sum_of(*before, *values)
        at_once.extend(values)
        assert (at_once.summary(), at_once.count) == (one_by_one.summary(), len(before) + count)
    beyond = sum_of()
    beyond.extend([2**53 + 1, 1])
    assert beyond.total() == sum_of(2**53 + 1, 1).total()


@pytest.mark.parametrize("stranger", [inf, -inf, nan])
def test_many_with_one_that_is_not_finite_are_refused(stranger: float) -> None:
    held = sum_of(0.25)
    with pytest.raises(StatsError, match="takes finite floats"):
        held.extend([0.5] * 100 + [stranger])
    assert held.summary() == sum_of(0.25).summary()


def test_many_of_the_largest_whole_numbers_are_exact() -> None:
    values = [float(2**53 - 1), -float(2**53 - 1) * 2**-40] * 5_000
    held = ExactSum()
    held.extend(values)
    assert held.summary() == oracles.sums(values)
