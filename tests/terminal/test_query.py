"""The words that `query run --budget` prints: the forecast of the cost, and the budget beside it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from streamer.client.queries import RunSnapshot
from streamer.schemas.summaries import AgentModelSummary, RunSummary
from streamer.terminal.query import budget_forecast, budget_outlook
from tests.support.events import a_plan, a_trial, folded, summaries

START = datetime(2026, 1, 31, 9, 0, tzinfo=UTC)


def half_done() -> RunSnapshot:
    """Ten of twenty trials in, half a dollar and six minutes each, one after the other."""
    plan = {"tasks": 20, "attempts": 1, "agent_models": ["terminus:gpt-5"], "started_at": START.isoformat()}
    ends = [(START + timedelta(minutes=6 * number)).isoformat() for number in range(1, 11)]
    trials = [a_trial(task_id=end, finished_at=end, duration_seconds=360.0, cost_usd=0.5) for end in ends]
    stored = summaries(folded([a_plan(**plan), *trials])[0]).values()
    [run] = [RunSummary.model_validate(one) for one in stored if one["type"] == "run_summary"]
    agents = [AgentModelSummary.model_validate(one) for one in stored if one["type"] == "agent_model_summary"]
    return RunSnapshot(run=run, agents=agents, tiers=[], in_flight=[])


def test_the_budget_stands_beside_the_forecast_with_its_clock_time() -> None:
    said = budget_forecast(budget_outlook(half_done(), START, 7.5))
    total, budget = said.split("; ")
    assert total.startswith("forecast: about $10.00 in all, $")
    assert budget == "forecast: the budget of $7.50 is passed about 10:30 UTC"


def test_without_a_budget_the_forecast_stands_alone() -> None:
    assert "budget" not in budget_forecast(budget_outlook(half_done(), START, None))
