"""R21: planned agents without a sub-trial count as failures once the run has finished."""

from __future__ import annotations

import pytest

from streamer.schemas.wire import canonical_json
from tests.conformance.ruling_examples import (
    AGENT,
    FINISHED,
    OF_AGENT,
    ORACLE,
    numbers,
    summary,
    the_agent,
    the_oracle,
)
from tests.support.events import a_plan, a_trial
from tests.support.formulacode_trials import a_suite, published

PLAN = a_plan(agent_models=[ORACLE, AGENT])
WITHOUT_THE_AGENT = [PLAN, the_oracle(task_id="t1"), the_agent(task_id="t1"), the_oracle(task_id="t2")]


def test_r21_a_planned_agent_without_a_sub_trial_counts_once_the_run_has_finished() -> None:
    running = numbers(*WITHOUT_THE_AGENT)
    assert (running["missing"], running["mean_success_rate"]) == (0, 1.0)
    assert running["mean_speedup"] == pytest.approx(1.2)
    finished = numbers(*WITHOUT_THE_AGENT, FINISHED)
    assert (finished["missing"], finished["mean_success_rate"]) == (1, 0.5)
    assert finished["mean_speedup"] == pytest.approx(1.1)
    assert finished["agent_advantage"] == pytest.approx(-0.4)


def test_r21_what_is_missing_counts_like_a_failure_in_formulacodes_numbers_alone() -> None:
    running, finished = summary(*WITHOUT_THE_AGENT), summary(*WITHOUT_THE_AGENT, FINISHED)
    for name in ("trials", "accuracy", "resolved", "unresolved", "failure_modes", "pass_at_k", "total_cost"):
        assert finished[name] == running[name], name
    assert finished["formulacode"]["mean_cost_per_task"] == running["formulacode"]["mean_cost_per_task"]
    assert finished["formulacode"]["num_benchmarks"] > running["formulacode"]["num_benchmarks"]


def test_r21_nothing_is_re_scored_for_what_is_missing() -> None:
    stream = published(*WITHOUT_THE_AGENT)
    scored = dict(stream.scored)
    stream.fold(FINISHED)
    assert stream.scored == scored
    assert stream.rescorings() == []


def test_r21_what_was_missing_is_no_more_once_it_arrives() -> None:
    late = the_agent(task_id="t2")
    arrived = numbers(*WITHOUT_THE_AGENT, FINISHED, late)
    assert (arrived["missing"], arrived["mean_success_rate"]) == (0, 1.0)
    assert canonical_json(arrived) == canonical_json(numbers(*WITHOUT_THE_AGENT, late, FINISHED))


def test_r21_an_agent_is_missing_only_where_a_trial_has_several_agents() -> None:
    """Trials of their own are of one agent each (R10)."""
    alone = a_trial(agent="other", task_id="t2", tests=a_suite(0), benchmarks=OF_AGENT)
    held = numbers(PLAN, a_trial(tests=a_suite(0), benchmarks=OF_AGENT), alone, FINISHED)
    assert held["missing"] == 0
