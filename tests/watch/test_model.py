"""How a run fares, and what an update changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from schemas.summaries import SUMMARY, AgentModelSummary, RunSummary, TierSummary
from streamer.aggregate.changes import SummaryChange
from streamer.client.watching import StateUpdate
from streamer.watch.model import STALLED_AFTER, OneRun, Runs, state_of
from tests.support.builders import a_run_change, a_tier_change, an_agent_model_change

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
LONG_AGO = (NOW - STALLED_AFTER - timedelta(seconds=1)).isoformat()
JUST_NOW = (NOW - STALLED_AFTER).isoformat()


def a_run(done: int = 3, planned: int | None = 12, **fields: Any) -> RunSummary:
    given = {"last_event_at": JUST_NOW} | fields
    summary = a_run_change(progress={"done": done, "planned": planned}, **given).summary
    return RunSummary.model_validate(summary)


def an_update(change: SummaryChange) -> StateUpdate:
    summary = None if change.value is None else SUMMARY.validate_json(change.value)
    assert summary is None or isinstance(summary, RunSummary | AgentModelSummary | TierSummary)
    return StateUpdate(change.run_id, change.kind, "", f"{change.kind} {change.key}", summary)


@pytest.mark.parametrize(
    ("run", "state"),
    [
        (a_run(), "running"),
        (a_run(done=0), "waiting"),
        (a_run(done=0, last_event_at=None), "waiting"),
        (a_run(done=12), "complete"),
        (a_run(done=12, last_event_at=LONG_AGO), "complete"),
        (a_run(last_event_at=LONG_AGO), "stalled"),
        (a_run(planned=None, last_event_at=LONG_AGO), "stalled"),
        (a_run(last_event_at=None), "running"),
        (a_run(status="aborted"), "aborted"),
        (a_run(done=12, status="completed"), "completed"),
        (a_run(last_event_at=(NOW + timedelta(hours=3)).isoformat()), "running"),
    ],
)
def test_the_state_of_a_run(run: RunSummary, state: str) -> None:
    assert state_of(run, None, NOW) == state


def test_a_replay_of_an_old_run_is_not_stalled_while_something_comes() -> None:
    run = a_run(last_event_at=LONG_AGO)
    assert state_of(run, NOW - timedelta(seconds=5), NOW) == "running"


def test_a_run_is_heard_of_when_it_changes_not_when_it_is_told_again() -> None:
    model = Runs()
    model.take(an_update(a_run_change(version=1)), NOW)
    model.take(an_update(a_run_change(version=2)), NOW)
    assert model.heard == {}
    model.take(an_update(a_run_change(version=3, trials=2)), NOW)
    assert model.heard == {"r1": NOW}
    model.take(an_update(a_run_change(deleted=True)), NOW)
    assert (model.runs, model.heard) == ({}, {})


def test_what_was_read_at_first_does_not_replace_what_has_been_told_since() -> None:
    model = Runs()
    told = an_update(a_run_change(version=3, trials=2))
    model.take(told, NOW)
    model.fill([a_run(), RunSummary.model_validate(a_run_change(run="r2").summary)])
    assert model.runs["r1"] is told.summary
    assert set(model.runs) == {"r1", "r2"}


def test_a_run_keeps_its_agents_and_its_pooled_tiers() -> None:
    model = OneRun()
    for change in (
        a_run_change(),
        an_agent_model_change(),
        a_tier_change(),
        a_tier_change(agent="claude", model="opus"),
    ):
        model.take(an_update(change), NOW)
    assert [agent.agent_model for agent in model.agents.values()] == ["claude:opus"]
    assert [tier.agent_model for tier in model.tiers.values()] == [None]
    for change in (an_agent_model_change(deleted=True), a_tier_change(deleted=True)):
        model.take(an_update(change), NOW)
    assert not model.agents
    assert not model.tiers


def test_a_deleted_run_is_told_from_one_that_was_never_there() -> None:
    model = OneRun()
    model.take(an_update(a_run_change(deleted=True)), NOW)
    assert not model.deleted
    model.take(an_update(a_run_change()), NOW)
    model.take(an_update(a_run_change(deleted=True)), NOW)
    assert (model.deleted, model.run) == (True, None)
    model.take(an_update(a_run_change()), NOW)
    assert (model.deleted, model.run is None) == (False, False)
