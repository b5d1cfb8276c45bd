"""Costs of trials and costs of a pass (R1, R2, R14)."""

from __future__ import annotations

from typing import Any

import pytest

from streamer.folding.score import ScoringRules, score_trial
from tests.folding.build import RULES, a_trial, scored
from tests.support.events import summarised

TOKENS = {"model": "gpt-5", "input_tokens": 1000, "output_tokens": 100}
FROM_CACHE = {"model": "claude-opus-4-5", "input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 10**6}


@pytest.mark.parametrize(
    ("fields", "cost", "source"),
    [
        (TOKENS | {"cost_usd": 0.0}, 0.0, "reported"),
        (TOKENS, 0.00225, "estimated"),
        (TOKENS | {"model": "nobody-prices-this", "resolved": False}, None, None),
        (TOKENS | {"input_tokens": 0, "output_tokens": 0}, None, None),
        (TOKENS | {"input_tokens": None, "output_tokens": None}, None, None),
        (TOKENS | {"input_tokens": 0, "output_tokens": None}, None, None),
        (FROM_CACHE, 1.5, "estimated"),
        (TOKENS | {"agent": "oracle", "input_tokens": 0, "output_tokens": 0}, 0.0, "estimated"),
    ],
    ids=["reported", "estimated", "no price", "no tokens", "not counted", "in part", "cache", "baseline"],
)
def test_r2_a_cost_is_reported_or_estimated_and_unknown_where_nobody_counted(
    fields: dict[str, Any], cost: float | None, source: str | None
) -> None:
    trial = scored(**fields)
    assert (trial.cost_usd, trial.cost_source) == (cost, source)


def test_r2_a_named_baseline_without_tokens_costs_nothing() -> None:
    named = ScoringRules(RULES.prices, named_baselines=frozenset({"echo"}))
    event = a_trial(agent="echo", model="gpt-5", input_tokens=0, output_tokens=0)
    assert score_trial(event, named).cost_usd == 0.0


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
