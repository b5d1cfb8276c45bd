"""What the summaries of groups and runs say, claim by claim."""

from __future__ import annotations

from typing import Any

from schemas.canonical import canonical_json
from schemas.summaries import SUMMARY
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


def test_the_composite_is_over_judged_trials_once_one_is_judged() -> None:
    waiting = [a_trial(task_id=f"t{n}") for n in range(3)]
    summary = summarised(waiting)[AGENT]
    assert (summary["composite_basis"], summary["grade"]) == ("pass_only", "A")
    judged = summarised([*waiting, a_trial(task_id="t9", score=0.5)])[AGENT]
    assert judged["composite_basis"] == "judged"
    assert judged["statistics"]["composite_score"]["median"] == 0.75
    assert judged["coverage"]["composite_score"] == 1
    assert judged["grade"] == "C"


def test_a_missing_value_is_missing_and_coverage_says_so() -> None:
    summary = summarised([a_trial(cost_usd=2.0), a_trial(task_id="t2", model="gpt-5")])[AGENT]
    assert (summary["total_cost"], summary["mean_cost"]) == (2.0, 2.0)
    assert summary["coverage"]["cost_usd"] == 1
    assert summary["tokens"] == {"input": None, "output": None, "cache_read": None, "cache_write": None}


def test_cost_of_pass_of_a_group_is_known_cost_per_pass() -> None:
    events = [
        a_trial(cost_usd=2.0),
        a_trial(task_id="t2", cost_usd=4.0, resolved=False),
        a_trial(task_id="t3"),
    ]
    assert summarised(events)[AGENT]["cost_of_pass"] == 6.0
    assert summarised(events[1:])[AGENT]["cost_of_pass"] == "Infinity"
    assert summarised(events[2:])[AGENT]["cost_of_pass"] is None


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
    pipeline.cut("run-1")
    pipeline.fold(records([a_trial(tier="T0", score=0.9, revision=1)]))
    moved = {change.key for change in pipeline.cut("run-1").summaries if change.kind == "tier"}
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
    assert summarised(events)[RUN]["pass_at_k"]["1"]["value"] == 0.5


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
    pipeline.cut("run-1")
    pipeline.fold(records([sub_trial(2, "oracle", tests=failing)]))
    cut = pipeline.cut("run-1")
    alpha = next(change for change in cut.summaries if change.agent == "alpha")
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
    assert found[RUN]["progress"] == {"done": 1, "planned": None}


def test_a_late_plan_gives_denominators() -> None:
    found = summarised(
        [a_trial(), a_plan(tasks=["task-1", "task-2"], attempts=3, agent_models=["terminus:gpt-5"])]
    )
    assert (found[AGENT]["runs_planned"], found[AGENT]["provisional"]) == (6, True)
    assert found[RUN]["progress"] == {"done": 1, "planned": 6}
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
    assert len(pipeline.cut("run-1", news=False).news) == 0
    pipeline.fold(records([a_trial(resolved=True, revision=1)]))
    news = pipeline.cut("run-1").news
    assert len(news) == 1
    assert b'"from_grade":"F"' in news[0].value
    assert b'"to_grade":"A"' in news[0].value


def test_totals_beyond_exact_integers_are_floats_and_stop_nothing() -> None:
    events = [a_trial(task_id=f"t{n}", input_tokens=2**53) for n in range(1100)]
    summary = summarised(events)[AGENT]
    assert summary["tokens"]["input"] == 1100 * 2.0**53
    SUMMARY.validate_json(canonical_json(summary))
