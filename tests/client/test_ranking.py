"""The rows of a board: best first in the direction of the metric, provisional ones last."""

from __future__ import annotations

from math import inf
from typing import Any

from streamer.client.queries import LeaderboardRow, ranked
from streamer.schemas.summaries import AgentModelSummary
from tests.support.builders import an_agent_model_change


def rows(metric: str, **agents: dict[str, Any]) -> list[LeaderboardRow]:
    changes = [an_agent_model_change("r1", agent, "m", **fields) for agent, fields in agents.items()]
    summaries = [AgentModelSummary.model_validate(change.summary) for change in changes]
    return ranked(metric, summaries, {"r1": "complete"})


def told(found: list[LeaderboardRow]) -> list[tuple[int, str, float]]:
    return [(row.rank, row.agent_model, row.value) for row in found]


def test_equal_values_share_a_rank_and_the_next_one_counts_them_all() -> None:
    found = rows("accuracy", a={"accuracy": 0.5}, b={"accuracy": 0.5}, c={"accuracy": 0.25})
    assert told(found) == [(1, "a:m", 0.5), (1, "b:m", 0.5), (3, "c:m", 0.25)]


def test_less_cost_is_better_and_infinity_is_the_worst() -> None:
    found = rows("cost_of_pass", a={"cost_of_pass": "Infinity"}, b={"cost_of_pass": 2.0})
    assert told(found) == [(1, "b:m", 2.0), (2, "a:m", inf)]


def test_provisional_rows_come_last_and_share_no_rank_with_others() -> None:
    found = rows("accuracy", a={"accuracy": 0.5}, b={"accuracy": 0.5, "provisional": True})
    assert told(found) == [(1, "a:m", 0.5), (2, "b:m", 0.5)]


def test_baselines_and_agents_without_the_number_are_left_out() -> None:
    found = rows("accuracy", nop={"accuracy": 1.0}, a={"accuracy": None}, b={"accuracy": 0.0})
    assert told(found) == [(1, "b:m", 0.0)]
    assert rows("metrics/unheard-of", a={}) == []
