"""Costs of trials and costs of a pass (R1, R2, R14)."""

from __future__ import annotations

import math

import pytest

from streamer.folding.score import ScoringRules, score_trial
from tests.folding.build import RULES, a_trial, scored
from tests.support.events import summarised


def test_a_reported_cost_wins_over_an_estimate_even_if_it_is_zero() -> None:
    tokens = {"model": "gpt-5", "input_tokens": 1000, "output_tokens": 100}
    reported = scored(cost_usd=0.0, **tokens)
    assert (reported.cost_usd, reported.cost_source) == (0.0, "reported")
    estimate = scored(**tokens)
    assert (estimate.cost_usd, estimate.cost_source) == (0.00225, "estimated")


def test_an_unknown_cost_is_unknown_not_zero() -> None:
    trial = scored(model="nobody-prices-this", input_tokens=1000, output_tokens=100, resolved=False)
    assert (trial.cost_usd, trial.cost_source) == (None, None)


@pytest.mark.parametrize("tokens", [(0, 0), (None, None), (0, None)])
def test_r2_an_agent_without_tokens_was_not_counted_by_anybody(tokens: tuple[int | None, int | None]) -> None:
    fields = {"model": "gpt-5", "input_tokens": tokens[0], "output_tokens": tokens[1]}
    assert scored(agent="terminus", **fields).cost_usd is None


def test_r2_tokens_from_a_cache_alone_were_counted() -> None:
    fields = {"model": "claude-opus-4-5", "input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 10**6}
    assert scored(agent="terminus", **fields).cost_usd == 1.5


def test_r2_a_baseline_without_tokens_costs_nothing() -> None:
    trial = scored(agent="oracle", model="gpt-5", input_tokens=0, output_tokens=0)
    assert (trial.cost_usd, trial.cost_source) == (0.0, "estimated")
    named = ScoringRules(RULES.prices, named_baselines=frozenset({"echo"}))
    event = a_trial(agent="echo", model="gpt-5", input_tokens=0, output_tokens=0)
    assert score_trial(event, named).cost_usd == 0.0


def test_r14_a_failed_trial_costs_infinitely_much_whether_its_cost_is_known_or_not() -> None:
    assert scored(resolved=False).cost_of_pass == math.inf
    assert scored(resolved=False, cost_usd=1.0).cost_of_pass == math.inf


def test_r14_a_pass_at_an_unknown_cost_has_an_unknown_cost_of_pass() -> None:
    assert scored(resolved=True).cost_of_pass is None


def test_a_failed_trial_with_a_known_cost_has_an_infinite_cost_of_pass() -> None:
    assert scored(resolved=False, cost_usd=0.0).cost_of_pass == math.inf
    assert scored(resolved=True, cost_usd=0.25).cost_of_pass == 0.25


def test_r2_a_summary_says_how_much_of_its_cost_our_prices_estimated() -> None:
    tokens = {"model": "gpt-5", "input_tokens": 1000, "output_tokens": 100}
    result = {"type": "trial_result", "run_id": "r", "agent": "a"}
    events = [
        {**result, **tokens, "task_id": task, **cost} for task, cost in (("x", {"cost_usd": 0.5}), ("y", {}))
    ]
    unknown = {**result, "task_id": "z", "agent": "b", "model": "nobody-prices-this"}
    costs = {
        summary.get("agent_model"): (summary["total_cost"], summary["estimated_cost"])
        for summary in summarised([*events, unknown]).values()
        if "total_cost" in summary
    }
    assert costs == {
        None: (0.50225, 0.00225),
        "a:gpt-5": (0.50225, 0.00225),
        "b:nobody-prices-this": (None, None),
    }
