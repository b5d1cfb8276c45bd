"""Snapshots and compared runs from values by key suffix, without a server."""

from __future__ import annotations

from typing import Any

import pytest

from streamer.client.queries import UnreadableSummary, compared_run, snapshot_of
from streamer.schemas.wire import canonical_json
from streamer.storage.entries import COMPARISONS, IN_FLIGHT, TASKS, Keys
from tests.aggregate.compared import PLAN, trial
from tests.support.builders import a_run_change, a_tier_change, an_agent_model_change
from tests.support.events import a_start, folded

CHANGES = [
    a_run_change(),
    an_agent_model_change(agent="z"),
    an_agent_model_change(agent="a"),
    a_tier_change(tier="T1"),
    a_tier_change(tier="T0", agent="a", model="m"),
    a_tier_change(tier="T0"),
]
VALUES = {change.group.redis_suffix: change.value for change in CHANGES}


def test_agents_come_by_label_and_tiers_before_the_agents_within_them() -> None:
    found = snapshot_of(Keys(), "r1", VALUES | {"comparisons": b"{}", "agent_model:gone:m": None})
    assert found is not None
    assert [agent.agent for agent in found.agents] == ["a", "z"]
    assert [(tier.tier, tier.agent_model) for tier in found.tiers] == [
        ("T0", None),
        ("T0", "a:m"),
        ("T1", None),
    ]


def test_trials_in_flight_come_the_longest_first_and_unknown_starts_last() -> None:
    starts = [
        a_start(task_id="unknown"),
        a_start(task_id="late", started_at="2026-01-02T00:00:00Z"),
        a_start(task_id="early", started_at="2026-01-01T00:00:00Z"),
    ]
    trials = folded(starts)[0].run("run-1").in_flight(10)
    fields = [part for trial in reversed(trials) for part in (b"slot", canonical_json(trial))]
    found = snapshot_of(Keys(), "r1", VALUES | {IN_FLIGHT: fields})
    assert found is not None
    assert [trial.task_id for trial in found.in_flight] == ["early", "late", "unknown"]


def test_without_its_own_summary_there_is_no_run() -> None:
    assert snapshot_of(Keys(), "r1", {**VALUES, "run": None}) is None


def test_a_value_that_is_no_summary_names_its_key() -> None:
    with pytest.raises(UnreadableSummary, match="r1"):
        snapshot_of(Keys(), "r1", VALUES | {"tier:T0": b"{}"})


def of_agents(*agents: str) -> dict[str, Any]:
    """What Redis holds of a run in which these agents passed one task."""
    run = folded([PLAN, *(trial(agent, "t1", passed=True) for agent in agents)])[0].run("run-1")
    found: dict[str, Any] = {change.group.redis_suffix: change.value for change in run.summaries()}
    parts = [part.encode() for field in run.comparisons.tasks().items() for part in field]
    return found | {TASKS: parts}


def test_a_run_with_two_agents_has_a_comparison_and_its_tasks() -> None:
    found = compared_run(Keys(), "run-1", of_agents("a", "b"))
    assert found is not None
    assert found.comparison is not None
    assert [agent.agent for agent in found.comparison.agents] == ["a", "b"]
    assert found.tasks == {"t1": {"a:m": (1, 1, 0), "b:m": (1, 1, 0)}}


def test_a_single_agent_has_tasks_and_an_earlier_run_has_nothing() -> None:
    alone = compared_run(Keys(), "run-1", of_agents("a"))
    assert alone is not None
    assert (alone.comparison, alone.tasks) == (None, {"t1": {"a:m": (1, 1, 0)}})
    earlier = compared_run(Keys(), "run-1", {"run": of_agents("a")["run"]})
    assert earlier is not None
    assert (earlier.comparison, earlier.tasks) == (None, {})
    assert compared_run(Keys(), "run-1", {}) is None


@pytest.mark.parametrize(
    "broken", [{TASKS: [b"t", b"{"]}, {TASKS: [b"t", b'{"a:m":[1,-1,0]}']}, {COMPARISONS: b"{}"}]
)
def test_a_comparison_that_cannot_be_read_is_named(broken: dict[str, Any]) -> None:
    with pytest.raises(UnreadableSummary, match=r"streamer:\{run-1\}"):
        compared_run(Keys(), "run-1", of_agents("a", "b") | broken)
