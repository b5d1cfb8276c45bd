"""A compared run from the values under its keys, without a server."""

from __future__ import annotations

from typing import Any

import pytest

from streamer.client.comparison import compared_run
from streamer.client.results import UnreadableSummary
from streamer.client.snapshots import parsed
from streamer.redis.entry import COMPARISONS, TASKS
from streamer.redis.keys import Keys
from tests.aggregate.compared import PLAN, trial
from tests.support.events import folded

KEYS = Keys()


def stored(*agents: str) -> dict[str, Any]:
    """What Redis holds of a run in which these agents passed one task."""
    run = folded([PLAN, *(trial(agent, "t1", passed=True) for agent in agents)])[0].run("run-1")
    found: dict[str, Any] = {change.group.redis_suffix: change.value for change in run.summaries()}
    parts = [part.encode() for field in run.comparisons.tasks().items() for part in field]
    return found | {TASKS: parts}


def test_a_run_with_two_agents_has_a_comparison_and_its_tasks() -> None:
    found = compared_run(KEYS, "run-1", stored("a", "b"), parsed)
    assert found is not None
    assert found.comparison is not None
    assert [agent.agent for agent in found.comparison.agents] == ["a", "b"]
    assert found.tasks == {"t1": {"a:m": (1, 1, 0), "b:m": (1, 1, 0)}}


def test_a_single_agent_has_tasks_and_an_earlier_run_has_nothing() -> None:
    alone = compared_run(KEYS, "run-1", stored("a"), parsed)
    assert alone is not None
    assert (alone.comparison, alone.tasks) == (None, {"t1": {"a:m": (1, 1, 0)}})
    earlier = compared_run(KEYS, "run-1", {"run": stored("a")["run"]}, parsed)
    assert earlier is not None
    assert (earlier.comparison, earlier.tasks) == (None, {})
    assert compared_run(KEYS, "run-1", {}, parsed) is None


@pytest.mark.parametrize(
    "broken", [{TASKS: [b"t", b"{"]}, {TASKS: [b"t", b'{"a:m":[1,-1,0]}']}, {COMPARISONS: b"{}"}]
)
def test_what_cannot_be_read_is_named(broken: dict[str, Any]) -> None:
    with pytest.raises(UnreadableSummary, match=r"streamer:\{run-1\}"):
        compared_run(KEYS, "run-1", stored("a", "b") | broken, parsed)
