"""R13, R23: grades and uplift, example by example, through the whole pipeline."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.ruling_examples import AGENT, FINISHED, RUN, passes, scored, summary
from tests.support.events import Event, a_plan, a_trial, summarised
from tests.support.formulacode_trials import published


def grading(*events: Event, key: str = f"agent_model run-1|{AGENT}") -> tuple[Any, ...]:
    held = summary(*events, key=key)
    return held["grade"], held["grade_basis"], held["grade_provisional"]


# R13: grades


@pytest.mark.parametrize(
    ("percent", "letter"),
    [(100, "A"), (95, "A"), (94, "B"), (85, "B"), (75, "C"), (65, "D"), (64, "F"), (51, "F"), (49, "F")],
)
def test_r13_without_a_judge_the_grade_is_that_of_the_mean_pass_rate(percent: int, letter: str) -> None:
    """65 % is D; 51 % and 49 % are both F, where the median makes A and F of them."""
    held = summary(*passes(percent, 100))
    assert (held["grade"], held["grade_basis"]) == (letter, "mean_pass_rate")
    assert held["grade_score"] == percent / 100
    assert held["grade_provisional"] is False


def test_r13_a_tier_without_a_judge_is_graded_likewise() -> None:
    events = passes(65, 100, tier="T0")
    for key in ("tier run-1|T0", "tier run-1|T0|terminus:gpt-5"):
        assert grading(*events, key=key) == ("D", "mean_pass_rate", False)


def test_r13_without_a_judge_there_is_no_composite() -> None:
    held = summary(*passes(3, 4))
    assert held["statistics"]["composite_score"]["count"] == 0
    assert held["statistics"]["composite_score"]["median"] is None
    assert held["coverage"]["composite_score"] == 0
    assert "composite_basis" not in held
    held = scored(a_trial())
    assert (held["composite_score"], held["grade"]) == (None, None)


def test_r13_with_a_judge_the_grade_is_that_of_the_median_composite() -> None:
    """(1 + 0.5) / 2, (1 + 0.9) / 2, (1 + 1) / 2: the median is 0.95."""
    held = summary(*(a_trial(task_id=f"t{score}", score=score) for score in (0.5, 0.9, 1.0)))
    assert (held["grade"], held["grade_score"]) == ("A", 0.95)
    assert (held["grade_basis"], held["grade_provisional"]) == ("composite_median", False)


def test_r13_a_partly_judged_group_is_provisional_and_says_how_many_are_judged() -> None:
    held = summary(*passes(3, 3), a_trial(task_id="judged", score=0.5))
    assert (held["grade"], held["grade_score"], held["grade_basis"]) == ("C", 0.75, "composite_median")
    assert held["grade_provisional"] is True
    assert (held["coverage"]["composite_score"], held["trials"]) == (1, 4)


def test_r13_the_end_of_the_run_ends_the_waiting_for_a_judge() -> None:
    events = [*passes(3, 3), a_trial(task_id="judged", score=0.5)]
    assert grading(*events) == ("C", "composite_median", True)
    assert grading(*events, FINISHED) == ("C", "composite_median", False)


def test_r13_the_plan_says_beforehand_that_trials_will_be_judged() -> None:
    plan = a_plan(judged=True)
    held = summary(plan, *passes(3, 3))
    assert (held["grade"], held["grade_score"]) == (None, None)
    assert (held["grade_basis"], held["grade_provisional"]) == ("composite_median", True)
    first = [plan, *passes(3, 3), a_trial(task_id="judged", score=0.5)]
    assert grading(*first) == ("C", "composite_median", True)


def test_r13_the_plan_says_beforehand_that_no_trial_will_be_judged() -> None:
    events = [a_plan(judged=False), *passes(3, 3), a_trial(task_id="judged", score=0.5)]
    assert grading(*events) == ("A", "mean_pass_rate", False)


def test_r13_a_plan_that_says_nothing_of_judges_leaves_it_as_seen() -> None:
    assert grading(a_plan(), *passes(2, 2)) == ("A", "mean_pass_rate", False)
    judged = a_trial(task_id="judged", score=0.5)
    assert grading(a_plan(judged=None), *passes(2, 2), judged) == ("C", "composite_median", True)


def test_r13_a_plan_that_comes_late_settles_the_basis_too() -> None:
    events = [*passes(2, 2), a_trial(task_id="judged", score=0.5)]
    for judged in (True, False):
        plan = a_plan(judged=judged)
        assert grading(*events, plan) == grading(plan, *events)


def test_r13_a_judge_of_one_tier_is_no_judge_of_another() -> None:
    events = [a_trial(tier="T0", score=0.5), a_trial(tier="T1")]
    found = summarised(events)
    assert found["tier run-1|T0"]["grade_basis"] == "composite_median"
    assert found["tier run-1|T1"]["grade_basis"] == "mean_pass_rate"


def test_r13_a_grade_change_names_the_number_and_its_basis() -> None:
    stream = published(a_trial(resolved=False))
    stream.fold(a_trial(resolved=True, revision=1))
    (news,) = [item for item in stream.news if item["type"] == "grade_change"]
    assert (news["from_grade"], news["to_grade"]) == ("F", "A")
    assert (news["grade_score"], news["grade_basis"]) == (1.0, "mean_pass_rate")
    assert news["grade_provisional"] is False
    assert "median_composite" not in news


def test_r13_grades_of_the_later_profile_are_of_the_same_number() -> None:
    held = summary(a_plan(grading_profile="scylla-2026"), *passes(65, 100))
    assert (held["grade"], held["grade_basis"]) == ("B", "mean_pass_rate")


# R23: uplift


def test_r23_uplift_is_of_the_mean_pass_rates_where_nobody_judges() -> None:
    """0.75 against 0.5; the medians are both 0.5 and 1."""
    events = [*passes(2, 4, tier="T0"), *passes(3, 4, tier="T1")]
    held = summary(*events, key="tier run-1|T1")
    assert (held["tier_uplift"], held["tier_delta"]) == (0.5, 0.25)


def test_r23_uplift_is_of_the_median_composites_where_there_is_a_judge() -> None:
    events = [a_trial(tier="T0", score=0.5), a_trial(tier="T1", score=0.8)]
    held = summary(*events, key="tier run-1|T1")
    assert held["tier_uplift"] == pytest.approx((0.9 - 0.75) / 0.75)
    assert held["tier_delta"] == pytest.approx(0.15)


def test_r23_two_bases_are_never_compared() -> None:
    held = summary(a_trial(tier="T0", score=0.5), a_trial(tier="T1"), key="tier run-1|T1")
    assert (held["tier_uplift"], held["tier_delta"]) == (None, None)


def test_r23_a_baseline_of_zero_has_a_difference_and_no_uplift() -> None:
    events = [*passes(0, 2, tier="T0"), *passes(1, 2, tier="T1")]
    held = summary(*events, key="tier run-1|T1")
    assert (held["tier_uplift"], held["tier_delta"]) == (None, 0.5)
    across = summary(*events, key=RUN)["cross_tier"]
    assert (across["tier_uplift"], across["tier_delta"]) == ({"T1": None}, {"T1": 0.5})
