"""What may be said of the final pass rate: which reason applies, and that arrival changes nothing."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.statistics.final import (
    Conclusion,
    FinalMissing,
    OrderKind,
    Outcome,
    Trial,
    TrialPlan,
    conclude,
    final,
    final_without_order,
)
from tests.support.examples import examples

SHUFFLED = TrialPlan(89, OrderKind.SHUFFLED)


def listed(outcomes: Sequence[Outcome], attempts: int = 1) -> list[Trial]:
    """Trials at places 0, 1, ...; with several attempts, those at a task lie together."""
    return [Trial(f"s{at}", f"t{at // attempts}", outcome, at) for at, outcome in enumerate(outcomes)]


def reason(plan: TrialPlan, trials: list[Trial]) -> FinalMissing | None:
    return conclude("run", plan, trials).missing


def test_an_interval_is_that_of_the_outcomes_in_order() -> None:
    outcomes: list[Outcome] = [True, False, None, True]
    assert conclude("run", SHUFFLED, listed(outcomes)[::-1]) == Conclusion(final(outcomes, 89), None)


def test_an_order_of_unknown_kind_has_an_interval_too() -> None:
    """Which surfaces show faint, with its condition."""
    assert reason(TrialPlan(89), listed([True])) is None


@pytest.mark.parametrize("trials", [None, 0])
def test_without_a_plan_nothing_else_is_said(trials: int | None) -> None:
    assert reason(TrialPlan(trials, OrderKind.CHOSEN), listed([True])) is FinalMissing.NO_PLAN


def test_more_trials_than_planned_are_said_before_the_order() -> None:
    assert reason(TrialPlan(1, OrderKind.CHOSEN), listed([True, False])) is FinalMissing.PLAN_EXCEEDED


def test_a_chosen_order_has_no_interval_from_the_start() -> None:
    assert reason(TrialPlan(89, OrderKind.CHOSEN), []) is FinalMissing.ORDER_CHOSEN


def test_a_trial_without_a_place_makes_the_order_unknown_in_part() -> None:
    trials = [*listed([True, False]), Trial("x", "x")]
    assert reason(SHUFFLED, trials) is FinalMissing.ORDER_UNKNOWN_IN_PART
    assert reason(TrialPlan(89, concurrency=8), trials) is FinalMissing.ORDER_UNKNOWN_IN_PART


def test_a_declared_shuffle_with_a_concurrency_needs_no_places() -> None:
    outcomes: list[Outcome] = [True] * 20 + [False] * 25 + [None] * 2
    trials = [Trial(f"s{at}", f"t{at}", outcome) for at, outcome in enumerate(outcomes)]
    found = conclude("run", TrialPlan(89, OrderKind.SHUFFLED, concurrency=8), trials, later=[True, None])
    assert found.passes == final_without_order(20, 25, 89, 8, stopped=2).grown([True, None])


def test_attempts_that_lie_together_have_no_interval() -> None:
    assert reason(SHUFFLED, listed([True, False, None, True], attempts=2)) is FinalMissing.ATTEMPTS_TOGETHER


def test_an_order_that_follows_difficulty_is_caught_before_any_result() -> None:
    difficulty = {f"t{at}": at / 89 for at in range(89)}
    plan = TrialPlan(89, OrderKind.SHUFFLED, difficulty=difficulty)
    assert reason(plan, listed([None] * 89)) is FinalMissing.ORDER_FOLLOWS_DIFFICULTY
    assert reason(plan, listed([None] * 88)) is FinalMissing.NOTHING_YET  # not the whole list


def test_outcomes_that_follow_the_order_are_caught() -> None:
    assert reason(SHUFFLED, listed([True] * 12 + [False] * 11)) is FinalMissing.ORDER_FOLLOWS_OUTCOME


def test_without_a_final_value_there_is_nothing_yet() -> None:
    assert reason(SHUFFLED, []) is FinalMissing.NOTHING_YET
    assert reason(SHUFFLED, listed([None, None])) is FinalMissing.NOTHING_YET


def test_an_interval_without_a_number_is_empty() -> None:
    """Not closed, so that the check against outcomes does not see it first."""
    outcomes: list[Outcome] = [None, *[True] * 30, *[False] * 30]
    assert reason(TrialPlan(80, OrderKind.SHUFFLED), listed(outcomes)) is FinalMissing.EMPTY


def test_later_trials_are_counted_both_ways() -> None:
    found = conclude("run", SHUFFLED, listed([True, False]), later=[None, True])
    assert found.passes == final([True, False], 89, [None, True])


@examples(100)
@given(
    trials=st.lists(
        st.builds(
            Trial,
            slot=st.uuids().map(str),
            task=st.sampled_from("abcdefgh"),
            outcome=st.sampled_from([True, False, None]),
            place=st.integers(0, 30) | st.none(),
        ),
        max_size=20,
        unique_by=lambda trial: trial.slot,
    ),
    kind=st.sampled_from(OrderKind),
    data=st.data(),
)
def test_the_order_of_arrival_changes_nothing(
    trials: list[Trial], kind: OrderKind, data: st.DataObject
) -> None:
    plan = TrialPlan(25, kind, concurrency=data.draw(st.none() | st.just(4)))
    other = data.draw(st.permutations(trials))
    first, second = conclude("run", plan, trials), conclude("run", plan, other)
    assert first == second
    assert (first.passes is None) != (first.missing is None)


def test_the_guarantee_survives_starts_that_are_never_heard_of() -> None:
    """Failures whose events are lost: their places are gaps, and the true rate stays inside."""
    missed = 0
    for number in range(300):
        choice = random.Random(number)
        outcomes = choice.sample([True] * 38 + [False] * 51, 89)
        heard = [trial for trial in listed([*outcomes[:60]]) if trial.outcome or choice.random() < 0.5]
        found = conclude("run", SHUFFLED, heard)
        missed += found.passes is None or not found.passes.low <= 38 <= found.passes.high
    assert missed <= 0.05 * 300
