"""A snapshot from values by key suffix: in order, and nothing where the run is not there."""

from __future__ import annotations

import pytest

from streamer.client.results import UnreadableSummary
from streamer.client.snapshots import snapshot_of
from streamer.redis.entry import IN_FLIGHT
from streamer.redis.keys import Keys
from streamer.schemas.canonical import canonical_json
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
