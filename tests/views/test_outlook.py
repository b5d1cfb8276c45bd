"""What a run still has before it, from summaries that a fold made."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from streamer.schemas.summaries import AgentModelSummary, RunSummary, TrialInFlight
from streamer.views.outlook import Outlook, outlook_of
from streamer.views.tables import EVENT_TIME
from tests.support.events import a_plan, a_start, a_trial, folded, summaries

START = datetime(2026, 1, 31, 9, 0, tzinfo=UTC)
LAST = START + timedelta(minutes=40)


def at(minutes: float) -> str:
    return (START + timedelta(minutes=minutes)).isoformat()


def an_outlook(now: datetime, budget_usd: float | None = None, **finished: object) -> Outlook:
    """Four of ten trials in after 40 minutes, two running since minute 30 and 38."""
    events = [a_plan(tasks=10, attempts=1, agent_models=["terminus:gpt-5"], started_at=at(0))]
    events += [
        a_trial(task_id=f"t{n}", finished_at=at(10 * n), duration_seconds=600.0, cost_usd=0.5)
        for n in range(1, 5)
    ]
    events += [a_start(task_id="t5", started_at=at(38)), a_start(task_id="t6", started_at=at(30))]
    if finished:
        events.append({"type": "run_finished", "run_id": "run-1", **finished})
    pipeline, _ = folded(events)
    held = summaries(pipeline).values()
    [run] = [RunSummary.model_validate(s) for s in held if s["type"] == "run_summary"]
    agents = [AgentModelSummary.model_validate(s) for s in held if s["type"] == "agent_model_summary"]
    nothing = {
        "shard": "",
        "attempt": 1,
        "agent": "terminus",
        "model": "gpt-5",
        "tier": None,
        "subtest": None,
    }
    flight = [
        TrialInFlight.model_validate(nothing | {"task_id": task, "started_at": at(start), "position": None})
        for task, start in (("t5", 38), ("t6", 30), ("t7", None))
        if start is not None
    ]
    return outlook_of(run, agents, flight, None, now, budget_usd)


def test_running_trials_are_listed_by_age_the_longest_first() -> None:
    found = an_outlook(LAST + timedelta(minutes=1))
    assert [(one.task, one.age_seconds) for one in found.running] == [("t6", 660.0), ("t5", 180.0)]
    assert found.in_flight == 2


def test_ages_of_a_replay_count_from_its_last_event() -> None:
    found = an_outlook(LAST + timedelta(days=300))
    assert [one.age_seconds for one in found.running] == [600.0, 120.0]
    assert found.event_time is None


def test_an_event_time_ahead_of_the_clock_is_said_to_be_simulated_or_replayed() -> None:
    assert an_outlook(LAST - timedelta(minutes=24)).event_time == EVENT_TIME


def test_the_same_end_is_forecast_whenever_one_asks() -> None:
    first, later = an_outlook(LAST), an_outlook(LAST + timedelta(minutes=5))
    assert first.seconds_left is not None
    assert later.seconds_left is not None
    assert first.seconds_left.likely - later.seconds_left.likely == 300.0
    assert first.seconds_left.low < first.seconds_left.likely < first.seconds_left.high


def test_a_run_that_has_ended_has_nothing_before_it() -> None:
    found = an_outlook(LAST, finished_at=at(41), status="aborted")
    assert (found.running, found.in_flight) == ([], 0)
    assert found.seconds_left is not None
    assert found.seconds_left.high == 0.0


def test_one_agent_has_no_places_and_no_comparison() -> None:
    found = an_outlook(LAST)
    assert (found.places, found.places_missing, found.first_two) == ({}, None, [])


def test_a_budgets_time_counts_from_the_time_of_asking_while_the_run_lives() -> None:
    assert an_outlook(LAST).budget is None
    then, later = (an_outlook(LAST + timedelta(minutes=m), 2.5).budget for m in (0, 3))
    assert then is not None
    assert later is not None
    assert then.standing == later.standing == "will_pass"
    assert then.seconds_until is not None
    assert later.seconds_until == pytest.approx(then.seconds_until - 180)
    ended = an_outlook(LAST, 2.5, status="completed").budget
    assert ended is not None
    assert ended.standing == "within"
