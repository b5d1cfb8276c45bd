"""Quantiles: published tables, and the distribution functions they invert."""

from __future__ import annotations

import importlib
import inspect
import itertools
import math
import pkgutil
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Context, localcontext
from fractions import Fraction
from math import comb, inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import MPContext

import streamer.statistics
from streamer.schemas.base import canonical_json
from streamer.statistics.ability import PassAtK
from streamer.statistics.distribution import Distribution, ExactSum
from streamer.statistics.exact import StatsError, normal, quotient, root_of_quotient, sign_test, student_t
from tests.statistics import oracles
from tests.support.examples import examples

ALPHAS = [Fraction(1, 2), Fraction(1, 5), Fraction(1, 20), Fraction(1, 600), Fraction(1, 10**9)]

DEGREES = [*range(1, 301), *range(350, 2001, 150), *range(995, 1005), 4_321, 10_000, 123_456, 10**6, 10**8]


def by_hypergeometric_functions(alpha: Fraction, degrees: int) -> float:
    """Student's t from Gauss's function at 50 digits and Newton's steps: another formula, another library."""
    context = MPContext()
    context.dps = 50
    inside, half = 1 - context.mpf(alpha.numerator) / alpha.denominator, context.mpf(1) / 2
    scale = context.gammaprod([half * (degrees + 1)], [half * degrees]) / context.sqrt(context.pi * degrees)
    t, step = context.sqrt(2) * context.erfinv(inside), context.inf
    while abs(step) > t * context.mpf(10) ** -20:
        within = 2 * t * scale * context.hyp2f1(half, half * (degrees + 1), 3 * half, -t * t / degrees)
        density = 2 * scale * (1 + t * t / degrees) ** (-half * (degrees + 1))
        step = (inside - within) / density
        t += step
    return float(t)


@pytest.mark.parametrize(
    ("alpha", "degrees", "value"),
    [
        ("1/20", 1, 12.706),
        ("1/20", 5, 2.571),
        ("1/20", 30, 2.042),
        ("1/20", 120, 1.980),
        ("1/100", 10, 3.169),
        ("1/10", 60, 1.671),
        ("1/1000", 2, 31.599),
    ],
)
def test_t_is_what_the_tables_print(alpha: str, degrees: int, value: float) -> None:
    """Abramowitz and Stegun, Handbook of Mathematical Functions, table 26.10."""
    assert round(student_t(Fraction(alpha), degrees), 3) == value


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 9, 88, 499, 12_345, 1_000_000])
def test_t_is_the_float_at_which_the_incomplete_beta_function_crosses(alpha: Fraction, degrees: int) -> None:
    context = MPContext()
    context.prec = 300

    def outside(t: float) -> Fraction:
        exact = context.mpf(t)
        x = degrees / (degrees + exact**2)
        tail = context.betainc(context.mpf(degrees) / 2, context.mpf(1) / 2, 0, x, regularized=True)
        return Fraction(int(context.floor(tail * 2**200)), 2**200)

    t = student_t(alpha, degrees)
    assert outside(math.nextafter(t, math.inf)) < alpha < outside(math.nextafter(t, 0.0))


@pytest.mark.parametrize(
    ("part", "alpha"), [(0, Fraction(1, 2)), (1, Fraction(1, 20)), (2, Fraction(1, 600))]
)
def test_t_has_the_bits_of_another_formula(part: int, alpha: Fraction) -> None:
    """Each level has a third of the degrees of freedom."""
    for degrees in DEGREES[part::3]:
        assert student_t(alpha, degrees) == by_hypergeometric_functions(alpha, degrees), degrees


@pytest.mark.parametrize("alpha", [*ALPHAS, Fraction(19, 20), Fraction(1, 10**20), 1 - Fraction(1, 10**30)])
def test_the_normal_quantile_has_the_bits_of_the_inverse_error_function(alpha: Fraction) -> None:
    context = MPContext()
    context.dps = 80
    inside = 1 - context.mpf(alpha.numerator) / alpha.denominator
    assert normal(alpha) == float(context.sqrt(2) * context.erfinv(inside))


def test_the_caller_s_decimal_context_changes_no_bit_and_stays_as_it_is() -> None:
    expected = normal.__wrapped__(Fraction(1, 20)), student_t.__wrapped__(Fraction(1, 20), 7)
    with localcontext(Context(prec=3, Emax=5, Emin=-5)) as context:
        assert expected == (normal.__wrapped__(Fraction(1, 20)), student_t.__wrapped__(Fraction(1, 20), 7))
        assert (context.prec, any(context.flags.values())) == (3, False)


@pytest.mark.parametrize(
    "alpha", [Fraction(0), Fraction(1), Fraction(-1, 20), Fraction(3, 2), Fraction(1, 10**21)]
)
def test_no_probability_a_tiny_one_and_no_degrees_of_freedom_are_refused(alpha: Fraction) -> None:
    for quantile in (normal, lambda alpha: student_t(alpha, 3)):
        with pytest.raises(StatsError, match="1e-20 or more, and below 1"):
            quantile(alpha)
    with pytest.raises(StatsError, match="1 degree of freedom"):
        student_t(Fraction(1, 20), 0)


def test_threads_get_the_same_bits() -> None:
    alpha, result = Fraction(1, 7), []
    expected = [student_t.__wrapped__(alpha, degrees) for degrees in range(1, 20)]

    def ask() -> None:
        result.append([student_t.__wrapped__(alpha, degrees) for degrees in range(1, 20)])

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert result == [expected] * 4


# -----------------------------------------------------------------------------
# The sums: exact inside, rounded once.


def sum_of(*values: float) -> ExactSum:
    result = ExactSum()
    for value in values:
        result.add(value)
    return result


SPREAD = [2, 4, 4, 4, 5, 5, 7, 9]
"""Values of mean 5; the squared deviations are 9+1+1+1+0+0+4+16 = 32."""


@pytest.mark.parametrize(
    ("values", "ddof", "total", "mean", "variance", "std_dev"),
    [
        ([], 0, 0.0, None, None, None),
        ([0.1], 0, 0.1, 0.1, 0.0, 0.0),
        ([0.1], 1, 0.1, 0.1, 0.0, 0.0),
        (SPREAD, 0, 40.0, 5.0, 32 / 8, 2.0),
        (SPREAD, 1, 40.0, 5.0, 32 / 7, 2.138089935299395),
        ([0.1] * 10, 0, 1.0, 0.1, 0.0, 0.0),
        ([1.7e308] * 2, 0, inf, 1.7e308, 0.0, 0.0),
        ([-1.7e308] * 2, 0, -inf, -1.7e308, 0.0, 0.0),
        ([1e300, -1e300], 0, 0.0, 0.0, inf, 1e300),
        ([1.7e308, -1.7e308], 1, 0.0, 0.0, inf, inf),
        # 0 and 2u, with u = 2^-1074: the variance u^2 is below all floats.
        ([0.0, 1e-323], 0, 1e-323, 5e-324, 0.0, 5e-324),
        ([-0.0], 0, 0.0, 0.0, 0.0, 0.0),
        ([-5e-324, 0.0, 0.0], 0, -5e-324, 0.0, 0.0, 0.0),
    ],
)
def test_sum_mean_and_deviation_by_hand(
    values: list[float],
    ddof: int,
    total: float,
    mean: float | None,
    variance: float | None,
    std_dev: float | None,
) -> None:
    stored = sum_of(*values)
    result = stored.total(), stored.mean(), stored.variance(ddof), stored.std_dev(ddof)
    assert repr(result) == repr((total, mean, variance, std_dev))


def test_cancelling_and_very_fine_values_lose_nothing() -> None:
    for order in itertools.permutations([1e300, 1.0, -1e300, 5e-324]):
        assert sum_of(*order).total() == 1.0
    huge = sum_of(1.7e308, 1.7e308)
    assert huge.total() == inf
    huge.add(-1.7e308)
    assert huge.total() == 1.7e308
    assert sum_of(5e-324, 2.5e-7, 3.0, 0.1).total() == 3.10000025


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=80), st.integers(1, 10**6))
def test_a_sum_over_a_count_is_the_exact_ratio_rounded_once(values: list[float], parts: int) -> None:
    ratio = sum(map(Fraction, values), Fraction(0)) / parts
    expected = quotient(ratio.numerator, ratio.denominator)
    stored = Distribution()
    stored.extend(values)
    assert ExactSum.of(values).total_over(parts) == stored.total_over(parts) == expected


def test_a_sum_over_a_count_is_infinite_with_an_infinite_value() -> None:
    assert Distribution.of([1.0, inf]).total_over(3) == inf


@pytest.mark.parametrize("value", [inf, -inf, nan])
def test_what_is_not_finite_is_refused(value: float) -> None:
    stored = sum_of(1.0)
    for change in (stored.add, stored.remove, lambda value: stored.extend([0.5] * 100 + [value])):
        with pytest.raises(StatsError, match="takes finite floats"):
            change(value)
    assert stored.summary() == sum_of(1.0).summary()


@pytest.mark.parametrize("stranger", [5.0, 6.0, 1.0])
def test_a_removal_that_leaves_an_impossible_remainder_is_refused(stranger: float) -> None:
    # without 1 the rest would be two values with sum 8 and squares 26, but 2 * 26 < 8^2
    stored = sum_of(3.0, 3.0, 3.0)
    with pytest.raises(StatsError, match="does not hold"):
        stored.remove(stranger)
    assert stored.summary() == sum_of(3.0, 3.0, 3.0).summary()


def test_a_hostile_value_that_left_costs_nothing_once_all_left() -> None:
    stored = sum_of(5e-324, 1.0)
    stored.remove(5e-324)
    stored.remove(1.0)
    assert (stored._shift, stored._scale, stored._sum, stored._squares) == (0, 1.0, 0, 0)


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


def test_many_of_the_largest_whole_numbers_are_exact() -> None:
    values = [float(2**53 - 1), -float(2**53 - 1) * 2**-40] * 5_000
    stored = ExactSum()
    stored.extend(values)
    assert stored.summary() == oracles.sums(values)


# -----------------------------------------------------------------------------
# Laws that every statistic of the package keeps; a walk over the package leaves none out.


VERBS = ("add", "remove", "merge", "summary")

HOSTILE = [0.0, -0.0, 1.0, -1.0, 1e300, -1e300, 1.7976931348623157e308, -1.7976931348623157e308, 5e-324]
HOSTILE += [-5e-324, 1e-320, 2.2250738585072014e-308, 0.1, 0.2, 0.30000000000000004, 5e-7, 1.5e-6, 2.5e-6]
HOSTILE += [0.1234561, 0.1234564, 1e16, 9007199254740991.0, 8796093.5, 8796093.0000005]
INFINITE = [float("inf"), float("-inf")]

anything_finite = st.floats(allow_nan=False, allow_infinity=False)
finite = st.one_of(st.sampled_from(HOSTILE), st.floats(0, 1), st.integers(0, 3).map(float), anything_finite)
with_infinite = st.one_of(finite, st.sampled_from(INFINITE))
attempts = st.tuples(st.sampled_from("abcd"), st.booleans())


@dataclass(frozen=True)
class Case:
    """A statistic, what goes in, and what all of it together must give."""

    statistic: type[Any]
    item: st.SearchStrategy[Any]
    oracle: Callable[[list[Any]], dict[str, Any]]
    stranger: Any
    """An item that a statistic which never had it cannot give back."""
    known: Any = 1.5
    """Another item."""

    def of(self, items: Iterable[Any]) -> Any:
        result = self.statistic()
        for item in items:
            self.add(result, item)
        return result

    def add(self, statistic: Any, item: Any) -> None:
        statistic.add(*item) if isinstance(item, tuple) else statistic.add(item)

    def remove(self, statistic: Any, item: Any) -> None:
        statistic.remove(*item) if isinstance(item, tuple) else statistic.remove(item)


CASES = [
    Case(ExactSum, finite, oracles.sums, 3.25),
    Case(Distribution, st.one_of(with_infinite, st.just(float("nan"))), oracles.distribution, 3.25),
    Case(PassAtK, attempts, oracles.pass_at_k, ("a", True), ("a", False)),
]

every_statistic = pytest.mark.parametrize("case", CASES, ids=lambda case: case.statistic.__name__)
thorough = examples(120)


def says(statistic: Any) -> bytes:
    """The summary as it is published, in bytes: what must be equal."""
    return canonical_json(statistic.summary())


def expected(case: Case, items: list[Any]) -> bytes:
    return canonical_json(case.oracle(items))


def statistics_of_the_package() -> set[type[Any]]:
    result: set[type[Any]] = set()
    for module in pkgutil.iter_modules(streamer.statistics.__path__, "streamer.statistics."):
        for _, member in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if member.__module__ == module.name and any(hasattr(member, verb) for verb in VERBS):
                result.add(member)
    return result


def test_every_statistic_of_the_package_is_under_these_laws_and_keeps_no_dict() -> None:
    assert statistics_of_the_package() == {case.statistic for case in CASES}
    assert not any(hasattr(case.statistic(), "__dict__") for case in CASES)


@every_statistic
@thorough
@given(data=st.data())
def test_after_every_single_change_it_equals_the_batch_computation(case: Case, data: st.DataObject) -> None:
    items = data.draw(st.lists(case.item, max_size=12))
    statistic = case.statistic()
    assert says(statistic) == expected(case, [])
    for end, item in enumerate(items, start=1):
        case.add(statistic, item)
        assert says(statistic) == expected(case, items[:end])
    left = list(items)
    for item in data.draw(st.permutations(items)):
        case.remove(statistic, item)
        left.pop(next(i for i, other in enumerate(left) if repr(other) == repr(item)))
        assert says(statistic) == expected(case, left)
    for item in items * 2:
        case.add(statistic, item)
    assert says(statistic) == expected(case, items * 2)


@every_statistic
@thorough
@given(data=st.data())
def test_what_is_added_in_any_order_and_removed_leaves_no_trace(case: Case, data: st.DataObject) -> None:
    kept, passing = (data.draw(st.lists(case.item, max_size=15)) for _ in range(2))
    statistic = case.of(data.draw(st.permutations(kept + passing)))
    if data.draw(st.booleans()):
        assert says(statistic) == expected(case, kept + passing)
    for item in data.draw(st.permutations(passing)):
        case.remove(statistic, item)
    assert says(statistic) == expected(case, kept)


@every_statistic
@thorough
@given(data=st.data())
def test_parts_merge_to_the_whole_and_stay_as_they_are(case: Case, data: st.DataObject) -> None:
    parts = data.draw(st.lists(st.lists(case.item, max_size=12), min_size=1, max_size=4))
    whole = [item for part in parts for item in part]
    statistics = [case.of(part) for part in parts]
    at_once, one_by_one = case.statistic(), case.statistic()
    at_once.merge(*statistics)
    for statistic in reversed(statistics):
        one_by_one.merge(statistic)
    assert says(at_once) == says(one_by_one) == expected(case, whole)
    assert [says(statistic) for statistic in statistics] == [expected(case, part) for part in parts]
    for item in parts[0]:
        case.remove(at_once, item)
    assert says(at_once) == expected(case, [item for part in parts[1:] for item in part])
    assert says(statistics[0]) == expected(case, parts[0])


@every_statistic
@thorough
@given(data=st.data())
def test_what_was_merged_can_be_taken_back_at_once(case: Case, data: st.DataObject) -> None:
    kept = data.draw(st.lists(case.item, max_size=14))
    parts = data.draw(st.lists(st.lists(case.item, max_size=12), max_size=3))
    statistic, statistics = case.of(kept), [case.of(part) for part in parts]
    statistic.merge(*statistics)
    statistic.unmerge(*statistics)
    assert says(statistic) == expected(case, kept)
    for part in statistics:
        statistic.merge(part)
    for part in statistics:
        statistic.unmerge(part)
    assert says(statistic) == expected(case, kept)
    assert [says(part) for part in statistics] == [expected(case, part) for part in parts]


@every_statistic
@thorough
@given(data=st.data())
def test_merged_with_itself_it_counts_twice(case: Case, data: st.DataObject) -> None:
    items = data.draw(st.lists(case.item, max_size=12))
    statistic = case.of(items)
    statistic.merge(statistic)
    assert says(statistic) == expected(case, items * 2)
    statistic.merge(statistic, statistic)
    assert says(statistic) == expected(case, items * 6)


@every_statistic
def test_taking_out_what_is_not_there_is_an_error_and_changes_nothing(case: Case) -> None:
    for held in ([], [case.known]):
        stored = case.of(held)
        with pytest.raises(StatsError, match=r"does not hold .* remove exactly what was added"):
            case.remove(stored, case.stranger)
        assert says(stored) == expected(case, held)
    for times in (1, 40):
        for strangers in ([case.stranger] * times, [case.known, *[case.stranger] * times], [case.known] * 2):
            with pytest.raises(StatsError, match="does not hold"):
                stored.unmerge(case.of(strangers))
            assert says(stored) == expected(case, [case.known])


# -----------------------------------------------------------------------------
# The sign test against the binomial distribution, term by term.


@pytest.mark.parametrize("pairs", [1, 2, 3, 7, 20, 101])
def test_it_is_both_tails_of_the_fair_binomial_rounded_once(pairs: int) -> None:
    for fewer in range(pairs // 2 + 1):
        tail = sum(comb(pairs, successes) for successes in range(fewer + 1))
        expected = min(Fraction(1), Fraction(2 * tail, 2**pairs))
        assert sign_test(fewer, pairs - fewer) == sign_test(pairs - fewer, fewer) == float(expected)


@pytest.mark.parametrize(
    ("fewer", "more", "published"),
    [(1, 8, "0.0391"), (6, 16, "0.052479"), (2, 9, "0.06543"), (8, 40, "3.305e-06"), (86, 150, "3.72e-05")],
    ids=["Conover 1999", "Cavo 2012", "Fay 2010", "pingouin", "Agresti 1990"],
)
def test_the_exact_p_values_of_mcnemar_are_the_published_ones(fewer: int, more: int, published: str) -> None:
    """Pairs that differ, and the exact p-value as printed by others (inference 7 and 9):

    - Conover, Practical Nonparametric Statistics, 3rd ed., section 3.4, example 1;
    - Cavo 2012, treated in Fagerland, Lydersen and Laake, "Statistical Analysis of Contingency Tables", 2017,
      chapter 8: as tested by their R package contingencytables;
    - Fay, "Two-sided exact tests and matching confidence intervals for discrete data", R Journal 2(1), 2010:
      the example of the vignette exactMcNemar of exact2x2;
    - pingouin.chi2_mcnemar, the example of its documentation;
    - Agresti, Categorical Data Analysis, 1990, p. 350: 150 turned away, 86 turned to. The exact value is
      worked out here; the published approximate one is 3.099e-05 (Penn State, STAT 504).
    """
    digits = len(published.partition("e")[0].lstrip("0.").replace(".", ""))
    assert float(f"{sign_test(fewer, more):.{digits - 1}e}") == float(published)


def test_very_many_pairs_neither_overflow_nor_vanish() -> None:
    assert sign_test(5_000, 5_000) == 1.0
    assert 0.0 < sign_test(0, 1_000) < 1e-300
    assert 0.9 < sign_test(49_990, 50_010) < 1.0
