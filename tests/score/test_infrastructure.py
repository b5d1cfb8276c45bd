"""Failures of the infrastructure are told apart from the agent's."""

from __future__ import annotations

from typing import Any

import pytest

from streamer.folding.score import ScoringRules, score_trial
from tests.score.build import RULES, a_trial, scored


@pytest.mark.parametrize(
    ("fields", "excluded"),
    [
        ({"harness": "terminal-bench", "failure_mode": "unknown_agent_error"}, True),
        ({"harness": "fc-eval", "failure_mode": "agent_installation_failed", "resolved": False}, True),
        ({"harness": "harbor", "failure_mode": "ApiOverloadedError"}, True),
        ({"harness": "harbor", "failure_mode": "unknown_agent_error"}, False),
        ({"harness": "terminal-bench", "failure_mode": "agent_timeout"}, False),
        ({"harness": "terminal-bench", "failure_mode": "unknown_agent_error", "resolved": True}, False),
        ({"failure_mode": "infrastructure_error"}, True),
        ({"failure_mode": "unknown_agent_error"}, False),
        ({"harness": "terminal-bench"}, False),
    ],
)
def test_an_unresolved_trial_that_the_infrastructure_failed_is_told_apart(
    fields: dict[str, Any], excluded: bool
) -> None:
    assert scored(**fields).infrastructure_failure is excluded


def test_a_trial_without_a_harness_has_the_plans() -> None:
    rules = ScoringRules(RULES.prices, harness="terminal-bench")
    assert score_trial(a_trial(failure_mode="unknown_agent_error"), rules).infrastructure_failure
    other = a_trial(failure_mode="unknown_agent_error", harness="harbor")
    assert not score_trial(other, rules).infrastructure_failure


def test_the_plan_names_infrastructure_failures_in_place_of_the_table() -> None:
    rules = ScoringRules(RULES.prices, infrastructure=frozenset({"agent_timeout"}))
    timeout = a_trial(harness="terminal-bench", failure_mode="agent_timeout")
    error = a_trial(harness="terminal-bench", failure_mode="unknown_agent_error")
    assert score_trial(timeout, rules).infrastructure_failure
    assert not score_trial(error, rules).infrastructure_failure
