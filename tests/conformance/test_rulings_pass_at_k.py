"""R11, R19: pass@k and the two accuracies, example by example, through the whole pipeline."""

from __future__ import annotations

import pytest

from tests.conformance.ruling_examples import AGENT, RUN, passes, summary
from tests.support.events import a_plan, a_trial, summarised
from tests.support.formulacode_trials import published

# R11: pass@k


def test_r11_no_pass_at_k_over_a_mixture_of_agents() -> None:
    """256 agents with one attempt each are no 256 attempts: "pass@256 100 %" is gone."""
    agents = [a_trial(agent=f"agent-{n}", resolved=n == 0) for n in range(256)]
    found = summarised(agents)
    assert found[RUN]["pass_at_k"] is None
    assert found["agent_model run-1|agent-0:gpt-5"]["pass_at_k"]["1"]["value"] == 1.0
    assert list(found["agent_model run-1|agent-0:gpt-5"]["pass_at_k"]) == ["1"]


def test_r11_no_pass_at_k_over_a_mixture_of_tiers() -> None:
    found = summarised([a_trial(tier="T0"), a_trial(tier="T1", resolved=False)])
    assert found[RUN]["pass_at_k"] is None
    assert found[f"agent_model run-1|{AGENT}"]["pass_at_k"] is None
    assert found["tier run-1|T0|terminus:gpt-5"]["pass_at_k"]["1"]["value"] == 1.0


def test_r11_no_pass_at_k_over_the_agents_of_one_tier() -> None:
    found = summarised([a_trial(tier="T0"), a_trial(tier="T0", agent="other")])
    assert found["tier run-1|T0"]["pass_at_k"] is None
    assert found["tier run-1|T0|terminus:gpt-5"]["pass_at_k"]["1"]["value"] == 1.0


def test_r11_pass_at_k_of_trial_groups_stands() -> None:
    """R10: a trial of several agents is one trial."""
    events = [
        a_trial(agent=agent, agent_index=index, attempt=attempt, resolved=attempt == index)
        for index, agent in ((1, "alpha"), (2, "beta"))
        for attempt in (1, 2)
    ]
    found = summarised(events)[RUN]["pass_at_k"]
    assert {k: held["value"] for k, held in found.items()} == {"1": 0.5, "2": 1.0}


def test_r11_baselines_make_no_mixture() -> None:
    """R4: the run's pass@k leaves them out."""
    found = summarised(
        [a_trial(), a_trial(agent="oracle", model="oracle"), a_trial(agent="nop", model="nop")]
    )
    assert found[RUN]["pass_at_k"]["1"]["value"] == 1.0


def test_r11_a_second_agent_takes_pass_at_k_away_and_its_retraction_gives_it_back() -> None:
    stream = published(a_trial(), a_trial(agent="other"))
    assert stream.summaries[RUN]["pass_at_k"] is None
    gone = {"type": "trial_retracted", "run_id": "run-1", "task_id": "task-1", "model": "gpt-5"}
    stream.fold(gone | {"agent": "other", "revision": 0})
    assert stream.summaries[RUN]["pass_at_k"]["1"]["value"] == 1.0


def test_r11_the_accuracy_of_a_run_of_several_agents_stays() -> None:
    assert summary(a_trial(), a_trial(agent="other", resolved=False), key=RUN)["accuracy"] == 0.5


# R19: accuracy without infrastructure failures

OUTAGE = a_trial(task_id="outage", resolved=None, failure_mode="no_such_host")


def test_r19_infrastructure_failures_count_as_failures_and_a_second_number_leaves_them_out() -> None:
    plan = a_plan(infrastructure_failures=["no_such_host"])
    events = [plan, *passes(1, 2), OUTAGE]
    for key in (f"agent_model run-1|{AGENT}", RUN):
        held = summary(*events, key=key)
        assert held["accuracy"] == pytest.approx(1 / 3)
        assert (held["accuracy_excluding_infrastructure"], held["infrastructure_failures"]) == (0.5, 1)


def test_r19_without_infrastructure_failures_the_two_numbers_are_one() -> None:
    held = summary(a_plan(infrastructure_failures=[]), *passes(1, 2), OUTAGE)
    assert (held["infrastructure_failures"], held["trials"]) == (0, 3)
    assert held["accuracy_excluding_infrastructure"] == held["accuracy"]


def test_r19_nothing_but_infrastructure_failures_leaves_no_second_number() -> None:
    held = summary(a_plan(infrastructure_failures=["no_such_host"]), OUTAGE)
    assert (held["accuracy"], held["accuracy_excluding_infrastructure"]) == (0.0, None)
    assert held["infrastructure_failures"] == 1


def test_r19_a_timeout_of_the_agent_is_no_infrastructure_failure() -> None:
    """The documented table decides where the plan names no failure mode."""
    timeout = a_trial(resolved=None, failure_mode="agent_timeout")
    assert summary(timeout)["infrastructure_failures"] == 0
