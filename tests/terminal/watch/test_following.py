"""What an update changes."""

from __future__ import annotations

from dataclasses import replace

from streamer.client.readers import StateUpdate
from streamer.folding.slots import SummaryChange
from streamer.schemas.summaries import SUMMARY, AgentModelSummary, Leader, RunSummary, TierSummary
from streamer.terminal.watch.following import OneRun, Runs
from tests.support.builders import a_run_change, a_tier_change, an_agent_model_change


def a_run() -> RunSummary:
    return RunSummary.model_validate(a_run_change().summary)


def an_update(change: SummaryChange) -> StateUpdate:
    summary = None if change.value is None else SUMMARY.validate_json(change.value)
    assert summary is None or isinstance(summary, RunSummary | AgentModelSummary | TierSummary)
    return StateUpdate(change.run_id, change.kind, "", f"{change.kind} {change.key}", summary)


def test_what_was_read_at_first_does_not_replace_what_has_been_told_since() -> None:
    model = Runs()
    now, before = (Leader(agent_model="claude:opus", value=value) for value in (0.75, 0.5))
    told = replace(an_update(a_run_change(version=3, trials=2)), leader=now)
    model.take(told)
    runs = [a_run(), RunSummary.model_validate(a_run_change(run="r2").summary)]
    model.fill(runs, {"r1": before, "r2": before}, {})
    assert model.runs["r1"] is told.summary
    assert model.leaders == {"r1": now, "r2": before}
    model.take(an_update(a_run_change(version=4)))
    assert model.leaders == {"r2": before}
    assert set(model.runs) == {"r1", "r2"}
    seen = dict(model.runs)
    model.take(told)
    model.fill([], {}, seen | {"r3": a_run()})
    assert (set(model.runs), set(model.leaders)) == ({"r1"}, {"r1"})  # r2 was deleted unheard, r1 came since


def test_a_run_keeps_its_agents_and_its_pooled_tiers() -> None:
    model = OneRun()
    for change in (
        a_run_change(),
        an_agent_model_change(),
        a_tier_change(),
        a_tier_change(agent="claude", model="opus"),
    ):
        model.take(an_update(change))
    assert [agent.agent_model for agent in model.agents.values()] == ["claude:opus"]
    assert [tier.agent_model for tier in model.tiers.values()] == [None]
    for change in (an_agent_model_change(deleted=True), a_tier_change(deleted=True)):
        model.take(an_update(change))
    assert not model.agents
    assert not model.tiers


def test_a_deleted_run_is_told_from_one_that_was_never_there() -> None:
    model = OneRun()
    model.take(an_update(a_run_change(deleted=True)))
    assert not model.deleted
    model.take(an_update(a_run_change()))
    model.take(an_update(a_run_change(deleted=True)))
    assert (model.deleted, model.run) == (True, None)
    model.take(an_update(a_run_change()))
    assert (model.deleted, model.run is None) == (False, False)
