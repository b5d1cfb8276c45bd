"""What the summaries of groups and runs say, claim by claim."""

from __future__ import annotations

from typing import Any

import pytest

from streamer.schemas.summaries import SUMMARY
from streamer.schemas.wire import canonical_json
from tests.support.events import a_plan, a_trial, folded, records, summarised

AGENT = "agent_model run-1|terminus:gpt-5"
RUN = "run run-1"


def test_a_trial_without_a_verdict_is_unresolved_and_counted_apart() -> None:
    summary = summarised([a_trial(), a_trial(task_id="t2", resolved=None, failure_mode="test_timeout")])[
        AGENT
    ]
    assert (summary["resolved"], summary["unresolved"], summary["no_verdict"]) == (1, 1, 1)
    assert summary["accuracy"] == 0.5
    assert summary["failure_modes"] == {"test_timeout": 1}


def test_failure_mode_and_outcome_are_independent() -> None:
    summary = summarised([a_trial(failure_mode="agent_timeout")])[AGENT]
    assert (summary["resolved"], summary["failure_modes"]) == (1, {"agent_timeout": 1})


def passed_of(passes: int, trials: int, **fields: Any) -> list[dict[str, Any]]:
    return [a_trial(task_id=f"t{n}", resolved=n < passes, **fields) for n in range(trials)]


@pytest.mark.parametrize(
    ("passes", "grade"), [(100, "A"), (95, "A"), (85, "B"), (65, "D"), (51, "F"), (49, "F")]
)
def test_r13_without_a_judge_the_grade_is_that_of_the_mean_pass_rate(passes: int, grade: str) -> None:
    summary = summarised(passed_of(passes, 100))[AGENT]
    assert (summary["grade"], summary["grade_basis"]) == (grade, "mean_pass_rate")
    assert summary["grade_score"] == passes / 100
    assert not summary["grade_provisional"]
    assert summary["statistics"]["composite_score"]["count"] == summary["coverage"]["composite_score"] == 0


def test_r13_a_partly_judged_group_has_a_provisional_grade_until_the_run_ends() -> None:
    events = [*passed_of(3, 3), a_trial(task_id="t9", score=0.5)]
    judged = summarised(events)[AGENT]
    assert (judged["grade"], judged["grade_basis"], judged["grade_score"]) == ("C", "composite_median", 0.75)
    assert judged["grade_provisional"]
    assert (judged["coverage"]["composite_score"], judged["trials"]) == (1, 4)
    assert not summarised([*events, {"type": "run_finished", "run_id": "run-1"}])[AGENT]["grade_provisional"]


def test_r13_the_plan_settles_the_basis_before_the_first_score() -> None:
    events = passed_of(3, 3)
    awaited = summarised([a_plan(judged=True), *events])[AGENT]
    assert (awaited["grade"], awaited["grade_basis"], awaited["grade_score"]) == (
        None,
        "composite_median",
        None,
    )
    assert awaited["grade_provisional"]
    never = summarised([a_plan(judged=False), *events, a_trial(task_id="t9", score=0.0)])[AGENT]
    assert (never["grade"], never["grade_basis"]) == ("A", "mean_pass_rate")


def test_r23_uplift_and_delta_are_of_the_number_that_the_grade_rests_on() -> None:
    first = [a_trial(task_id=f"a{n}", tier="T0", resolved=n < 4) for n in range(10)]
    second = [a_trial(task_id=f"b{n}", tier="T1", resolved=n < 6) for n in range(10)]
    tier = summarised(first + second)["tier run-1|T1"]
    assert (tier["tier_uplift"], tier["tier_delta"]) == (pytest.approx(0.5), pytest.approx(0.2))
    other_basis = summarised([*first, *second, a_trial(task_id="judged", tier="T1", score=0.9)])[
        "tier run-1|T1"
    ]
    assert (other_basis["tier_uplift"], other_basis["tier_delta"]) == (None, None)
    nothing = summarised([a_trial(tier="T0", resolved=False), *second])["tier run-1|T1"]
    assert (nothing["tier_uplift"], nothing["tier_delta"]) == (None, pytest.approx(0.6))


def test_the_accuracy_without_infrastructure_failures_stands_beside_the_accuracy() -> None:
    events = [*passed_of(2, 4), a_trial(task_id="lost", resolved=None, failure_mode="infrastructure_error")]
    held = summarised(events)
    for summary in (held[AGENT], held[RUN]):
        assert (summary["accuracy"], summary["accuracy_excluding_infrastructure"]) == (0.4, 0.5)
        assert (summary["trials"], summary["infrastructure_failures"]) == (5, 1)
    named = summarised([*events, a_plan(infrastructure_failures=["other"])])[AGENT]
    assert (named["accuracy_excluding_infrastructure"], named["infrastructure_failures"]) == (0.4, 0)


def test_r11_there_is_no_pass_at_k_over_a_mixture_of_agents_or_tiers() -> None:
    one = [a_trial(attempt=n, tier="T0", resolved=n == 1) for n in (1, 2)]
    held = summarised(one)
    assert [held[key]["pass_at_k"]["2"]["value"] for key in (AGENT, RUN, "tier run-1|T0")] == [1.0, 1.0, 1.0]
    agents = summarised([*one, a_trial(agent="other", tier="T0", resolved=False)])
    assert (agents[RUN]["pass_at_k"], agents["tier run-1|T0"]["pass_at_k"]) == (None, None)
    assert agents[AGENT]["pass_at_k"]["2"]["value"] == 1.0
    assert agents["tier run-1|T0|terminus:gpt-5"]["pass_at_k"]["2"]["value"] == 1.0
    tiers = summarised([*one, a_trial(tier="T1")])
    assert (tiers[RUN]["pass_at_k"], tiers[AGENT]["pass_at_k"]) == (None, None)
    assert tiers["tier run-1|T0"]["pass_at_k"]["2"]["value"] == 1.0


def test_r11_over_trial_groups_pass_at_k_stands() -> None:
    group = [sub_trial(1, "alpha", resolved=True), sub_trial(2, "beta", resolved=False)]
    assert summarised(group)[RUN]["pass_at_k"]["1"]["value"] == 0.0


def test_a_missing_value_is_missing_and_coverage_says_so() -> None:
    summary = summarised([a_trial(cost_usd=2.0), a_trial(task_id="t2", model="gpt-5")])[AGENT]
    assert (summary["total_cost"], summary["mean_cost"]) == (2.0, 2.0)
    assert summary["coverage"]["cost_usd"] == 1
    assert summary["tokens"] == {"input": None, "output": None, "cache_read": None, "cache_write": None}


def test_r14_cost_of_pass_of_a_group_is_known_cost_per_pass_at_a_known_cost() -> None:
    events = [
        a_trial(cost_usd=2.0),
        a_trial(task_id="t2", cost_usd=4.0, resolved=False),
        a_trial(task_id="t3"),
    ]
    assert summarised(events)[AGENT]["cost_of_pass"] == 6.0
    assert summarised(events[1:])[AGENT]["cost_of_pass"] is None
    assert summarised(events[2:])[AGENT]["cost_of_pass"] is None
    assert summarised(events[1:2])[AGENT]["cost_of_pass"] == "Infinity"
    assert summarised([a_trial(resolved=False)])[AGENT]["cost_of_pass"] == "Infinity"


def test_one_infinite_cost_of_pass_makes_the_mean_infinite_and_keeps_the_median() -> None:
    events = [a_trial(task_id=f"t{n}", cost_usd=1.0, resolved=n > 0) for n in range(3)]
    held = summarised(events)[AGENT]["statistics"]["cost_of_pass"]
    assert (held["mean"], held["std_dev"], held["median"]) == ("Infinity", None, 1.0)


def test_uplift_needs_a_baseline_above_zero_and_the_difference_is_always_there() -> None:
    events = [a_trial(tier="T0", score=0.4, resolved=True), a_trial(tier="T1", score=0.8, resolved=True)]
    summary = summarised(events)["tier run-1|T1"]
    assert summary["tier_uplift"] == (0.9 - 0.7) / 0.7
    assert summary["tier_delta"] == 0.9 - 0.7
    flat = summarised([a_trial(tier="T0", resolved=False), a_trial(tier="T1")])["tier run-1|T1"]
    assert (flat["tier_uplift"], flat["tier_delta"]) == (None, 1.0)


def test_a_change_in_the_baseline_tier_moves_the_uplift_of_every_tier() -> None:
    pipeline, _ = folded([a_trial(tier="T0", score=0.5), a_trial(tier="T1", score=0.5)])
    pipeline.run("run-1").take_changes()
    pipeline.fold(records([a_trial(tier="T0", score=0.9, revision=1)]))
    moved = {change.key for change in pipeline.run("run-1").take_changes().summaries if change.kind == "tier"}
    assert moved == {"run-1|T0", "run-1|T0|terminus:gpt-5", "run-1|T1", "run-1|T1|terminus:gpt-5"}


def test_baselines_have_summaries_and_stay_out_of_run_pass_at_k_and_pooled_tiers() -> None:
    found = summarised([a_trial(tier="T0", resolved=False), a_trial(agent="oracle", model="o", tier="T0")])
    assert found["agent_model run-1|oracle:o"]["baseline"] is True
    assert found[RUN]["pass_at_k"]["1"]["value"] == 0.0
    assert found["tier run-1|T0"]["trials"] == 1
    assert "tier run-1|T0|oracle:o" in found


def test_an_agent_that_the_plan_names_is_a_baseline_also_when_the_plan_comes_late() -> None:
    events = [a_trial(), a_trial(agent="human", resolved=False)]
    assert summarised([*events, a_plan(baselines=["human"])])[RUN]["pass_at_k"]["1"]["value"] == 1.0
    assert summarised(events)[RUN]["pass_at_k"] is None


def sub_trial(index: int, agent: str, **fields: Any) -> dict[str, Any]:
    return a_trial(agent=agent, model=agent, agent_index=index, **fields)


def test_a_multi_agent_trial_is_one_trial_decided_by_the_highest_compared_sub_trial() -> None:
    group = [
        sub_trial(1, "alpha", resolved=True),
        sub_trial(2, "beta", resolved=False),
        sub_trial(3, "oracle"),
    ]
    run = summarised(group)[RUN]
    assert (run["trials"], run["resolved"], run["progress"]["done"]) == (1, 0, 3)
    only = summarised([sub_trial(1, "nop", resolved=False), sub_trial(2, "oracle", resolved=True)])[RUN]
    assert (only["trials"], only["resolved"], only["pass_at_k"]) == (1, 1, {})


def test_a_late_oracle_scores_the_other_sub_trials_again_and_says_so() -> None:
    failing = {"status": "failed", "failed": 2, "error": 0}
    pipeline, _ = folded([sub_trial(1, "alpha", tests=failing)])
    pipeline.run("run-1").take_changes()
    pipeline.fold(records([sub_trial(2, "oracle", tests=failing)]))
    cut = pipeline.run("run-1").take_changes()
    alpha = next(change for change in cut.summaries if change.group.agent == "alpha")
    assert alpha.summary is not None
    assert alpha.summary["statistics"]["pass_rate"]["mean"] == 1.0
    assert [b'"type":"rescored"' in item.value for item in cut.news].count(True) == 1


def test_a_tiered_run_without_a_plan_is_held_to_ten_runs_per_tier() -> None:
    found = summarised([a_trial(tier="T0", attempt=n) for n in range(1, 10)])
    assert (found["tier run-1|T0"]["runs_planned"], found["tier run-1|T0"]["provisional"]) == (10, True)
    full = summarised([a_trial(tier="T0", attempt=n) for n in range(1, 11)])
    assert full["tier run-1|T0"]["provisional"] is False


def test_an_untiered_run_without_a_plan_has_no_denominator() -> None:
    found = summarised([a_trial()])
    assert (found[AGENT]["runs_planned"], found[AGENT]["provisional"]) == (None, False)
    assert found[RUN]["progress"] == {"done": 1, "planned": None, "plan_complete": True}


def test_a_late_plan_gives_denominators() -> None:
    found = summarised(
        [a_trial(), a_plan(tasks=["task-1", "task-2"], attempts=3, agent_models=["terminus:gpt-5"])]
    )
    assert (found[AGENT]["runs_planned"], found[AGENT]["provisional"]) == (6, True)
    assert found[RUN]["progress"] == {"done": 1, "planned": 6, "plan_complete": True}
    assert found[AGENT]["pass_at_k"]["2"] == {"value": None, "tasks_covered": 0, "partial": True}


def test_the_plan_joins_field_by_field_and_the_greatest_revision_decides() -> None:
    plans = [a_plan(display_name="old", tasks=4, attempts=1), a_plan(revision=2, display_name="new")]
    for order in (plans, plans[::-1]):
        run = summarised([a_trial(), *order])[RUN]
        assert (run["display_name"], run["progress"]["planned"]) == ("new", 4)


def test_the_profile_of_the_plan_changes_grades_and_deviation() -> None:
    events = [a_trial(score=0.6, cost_usd=1.0), a_trial(task_id="t2", score=0.6, cost_usd=3.0)]
    specified = summarised(events)[AGENT]
    later = summarised([*events, a_plan(grading_profile="scylla-2026")])[AGENT]
    assert (specified["grade"], specified["statistics"]["cost_usd"]["std_dev"]) == ("C", 1.0)
    assert (later["grade"], later["statistics"]["cost_usd"]["std_dev"]) == ("A", 2**0.5)


def test_grade_changes_are_news_once_and_silent_after_a_recovery() -> None:
    pipeline, _ = folded([a_trial(resolved=False)])
    assert len(pipeline.run("run-1").take_changes(news=False).news) == 0
    pipeline.fold(records([a_trial(resolved=True, revision=1)]))
    news = pipeline.run("run-1").take_changes().news
    assert len(news) == 1
    assert b'"from_grade":"F"' in news[0].value
    assert b'"to_grade":"A"' in news[0].value


def test_totals_beyond_exact_integers_are_floats_and_stop_nothing() -> None:
    events = [a_trial(task_id=f"t{n}", input_tokens=2**53) for n in range(1100)]
    summary = summarised(events)[AGENT]
    assert summary["tokens"]["input"] == 1100 * 2.0**53
    SUMMARY.validate_json(canonical_json(summary), extra="forbid")
