"""The interval of the final pass rate: its reference values, its guarantee, exactly, and its laws."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.statistics.exact import StatsError
from streamer.statistics.final import (
    ALPHA,
    PREFIXES,
    Outcome,
    Passes,
    final,
    final_without_order,
    highest,
    lowest,
    possible,
    prefixes,
)
from tests.support.examples import examples

OUTCOMES = st.sampled_from([True, False, None])


def ratio(planned: int, seen: int, passed: int, final_passes: int) -> Fraction:
    """The martingale of inference 5, by its formula."""
    ways = comb(final_passes, passed) * comb(planned - final_passes, seen - passed)
    return Fraction((planned + 1) * ways, comb(planned + 1, seen + 1))


@pytest.mark.parametrize(
    ("planned", "seen", "passed", "low", "high"),
    [
        (89, 10, 5, 13, 76),
        (89, 45, 20, 27, 54),
        (89, 80, 38, 38, 47),
        (445, 44, 22, 130, 315),
        (445, 200, 100, 184, 261),
        (500, 400, 300, 357, 391),
    ],
)
def test_one_prefix_gives_the_published_ends(
    planned: int, seen: int, passed: int, low: int, high: int
) -> None:
    """WannabeSmith/confseq_wor, with a uniform prior and alpha .05."""
    assert (lowest(planned, seen, passed), highest(planned, seen, passed)) == (low, high)


@pytest.mark.parametrize("alpha", [ALPHA, Fraction(1, 3), Fraction(1, 1000), Fraction(1, 1_000_000)])
def test_bisection_finds_what_a_full_scan_finds(alpha: Fraction) -> None:
    for planned in range(1, 15):
        for seen in range(planned + 1):
            for passed in range(seen + 1):
                every = [m for m in range(planned + 1) if ratio(planned, seen, passed, m) > alpha]
                assert every == [m for m in range(planned + 1) if possible(planned, seen, passed, m, alpha)]
                ends = lowest(planned, seen, passed, alpha), highest(planned, seen, passed, alpha)
                assert every == list(range(ends[0], ends[1] + 1)), (planned, seen, passed)


def test_a_ratio_that_is_exactly_alpha_is_not_possible() -> None:
    """Logarithms cannot tell it from one beside it, so integers decide."""
    exact = ratio(89, 45, 20, 27)
    nearly = exact * Fraction(10**30 - 1, 10**30)
    assert (lowest(89, 45, 20, exact), lowest(89, 45, 20, nearly)) == (28, 27)


def test_a_plan_of_a_million_trials_has_ends_that_the_integers_confirm() -> None:
    planned, seen, passed = 1_000_000, 500, 200
    low = lowest(planned, seen, passed)
    assert possible(planned, seen, passed, low)
    assert not possible(planned, seen, passed, low - 1)


def share_of_orders_that_miss(planned: int, passes: int) -> Fraction:
    """How many of all orders have a prefix, of whatever length, that rules the true number of passes out.

    Counts the orders that have not missed yet, by the passes among their first trials.
    """
    alive = {0: 1}
    for seen in range(1, planned + 1):
        longer: dict[int, int] = {}
        for passed, orders in alive.items():
            for more in (passed, passed + 1):
                if lowest(planned, seen, more) <= passes <= highest(planned, seen, more):
                    longer[more] = longer.get(more, 0) + orders
        alive = longer
    return 1 - Fraction(alive.get(passes, 0), comb(planned, passes))


@pytest.mark.parametrize(("planned", "at_most"), [(20, "2.15"), (40, "2.99"), (89, "3.60"), (200, "3.89")])
def test_the_chance_that_any_look_ever_misses_is_below_five_percent(planned: int, at_most: str) -> None:
    shares = [share_of_orders_that_miss(planned, passes) for passes in range(planned + 1)]
    assert max(shares) <= ALPHA
    assert f"{float(max(shares)) * 100:.2f}" == at_most


def test_of_38_passes_in_89_trials_fewer_orders_miss() -> None:
    assert f"{float(share_of_orders_that_miss(89, 38)) * 100:.2f}" == "3.25"


def test_the_interval_is_the_tightest_of_all_prefixes() -> None:
    outcomes: list[Outcome] = [True, False, None, True, True, False, None, False, True, True]
    lows, highs = [], []
    for seen in prefixes(40):
        known = outcomes[:seen]
        passed, unknown = known.count(True), known.count(None) + max(0, seen - len(outcomes))
        lows.append(lowest(40, seen, passed))
        highs.append(highest(40, seen, passed + unknown))
    assert final(outcomes, 40) == Passes(max(lows), min(highs), 40)


@pytest.mark.parametrize("planned", [1, 2, 63, 64, 65, 89, 5000])
def test_prefixes_are_64_or_every_one_and_end_with_the_whole_plan(planned: int) -> None:
    sizes = prefixes(planned)
    assert len(sizes) == min(planned, PREFIXES)
    assert list(sizes) == sorted(set(sizes))
    assert (sizes[0] >= 1, sizes[-1]) == (True, planned)


@st.composite
def before_and_after(draw: st.DrawFn) -> tuple[int, list[Outcome], list[Outcome]]:
    """A plan, outcomes at some look, and at a later look with more of them known."""
    after = draw(st.lists(OUTCOMES, max_size=40))
    hidden = draw(st.lists(st.booleans(), min_size=len(after), max_size=len(after)))
    before = [None if gone else outcome for outcome, gone in zip(after, hidden, strict=True)]
    return len(after) + draw(st.integers(0 if after else 1, 100)), before, after


@examples(400)
@given(looks=before_and_after())
def test_results_only_narrow_the_interval(looks: tuple[int, list[Outcome], list[Outcome]]) -> None:
    planned, before, after = looks
    first, second = final(before, planned), final(after, planned)
    assert first.low <= second.low
    assert second.high <= first.high


@examples(200)
@given(outcomes=st.lists(OUTCOMES, max_size=30), more=st.integers(0, 30))
def test_the_interval_lies_within_the_hard_bounds(outcomes: list[Outcome], more: int) -> None:
    planned = len(outcomes) + more + 1
    found = final(outcomes, planned)
    assert found.low >= outcomes.count(True)
    assert found.high <= planned - outcomes.count(False)


@examples(200)
@given(outcomes=st.lists(st.booleans(), min_size=1, max_size=60))
def test_with_all_results_in_only_the_final_number_is_left(outcomes: list[bool]) -> None:
    found = final(outcomes, len(outcomes))
    assert found.empty or (found.low, found.high) == (sum(outcomes), sum(outcomes))


@examples(200)
@given(
    outcomes=st.lists(OUTCOMES, max_size=30), more=st.integers(1, 50), later=st.lists(OUTCOMES, max_size=10)
)
def test_trials_that_join_the_plan_are_counted_both_ways(
    outcomes: list[Outcome], more: int, later: list[Outcome]
) -> None:
    planned = len(outcomes) + more
    first, grown = final(outcomes, planned), final(outcomes, planned, later)
    assert (grown.planned, grown.empty) == (planned + len(later), first.empty)
    if not first.empty:
        assert grown.low == first.low + later.count(True)
        assert grown.high == first.high + later.count(True) + later.count(None)


def test_an_order_that_follows_the_outcomes_leaves_no_number() -> None:
    sorted_by_outcome = [True] * 40 + [False] * 40
    assert final(sorted_by_outcome, 80).empty
    assert final(sorted_by_outcome, 80, later=[None] * 90).empty


def test_a_plan_that_is_smaller_than_its_outcomes_is_refused() -> None:
    with pytest.raises(StatsError, match="at least 2 trials"):
        final([True, None], 1)
    with pytest.raises(StatsError, match="at least 1 trials"):
        final([], 0)
    with pytest.raises(StatsError, match="at least 3 trials"):
        final_without_order(2, 1, 2, 8)


def test_without_an_order_the_running_trials_and_the_stopped_ones_are_unknown() -> None:
    found = final_without_order(passed=20, failed=25, planned=89, concurrency=8, stopped=2)
    assert found == Passes(lowest(89, 55, 20), highest(89, 55, 30), 89)


def test_without_an_order_no_more_is_unknown_than_is_left() -> None:
    assert final_without_order(40, 45, 89, concurrency=8, stopped=3) == Passes(40, 44, 89)
    assert final_without_order(0, 0, 5, concurrency=8) == Passes(0, 5, 5)


@examples(100)
@given(
    outcomes=st.lists(st.booleans(), min_size=1, max_size=60),
    running=st.integers(0, 8),
    waiting=st.integers(0, 30),
)
def test_without_an_order_the_hard_bounds_hold_too(outcomes: list[bool], running: int, waiting: int) -> None:
    planned = len(outcomes) + running + waiting
    found = final_without_order(outcomes.count(True), outcomes.count(False), planned, max(1, running))
    assert found.empty or outcomes.count(True) <= found.low <= found.high
    assert found.high <= planned - outcomes.count(False)
