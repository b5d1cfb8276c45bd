"""Time left, burn rate and projected total, on small runs worked out by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from streamer.schemas.summaries import RunSummary
from streamer.views.eta import Eta, Observation, eta_of, observation_of
from tests.support.builders import a_run_change

START = datetime(2026, 1, 31, 9, 0, tzinfo=UTC)


def a_run(minutes: float | None, done: int, planned: int | None, **fields: Any) -> RunSummary:
    """A run whose last event came so many minutes after its start."""
    at = None if minutes is None else (START + timedelta(minutes=minutes)).isoformat()
    given = {"started_at": START.isoformat(), "last_event_at": at} | fields
    change = a_run_change(progress={"done": done, "planned": planned}, **given)
    return RunSummary.model_validate(change.summary)


def test_the_rest_takes_and_costs_what_the_trials_so_far_took_and_cost() -> None:
    """3 of 12 trials in 30 minutes for 1.5 USD: 9 more take 90 minutes; 3 USD an hour; 6 USD in all."""
    assert eta_of(a_run(30, 3, 12, total_cost=1.5)) == Eta(0.25, 5400.0, 3.0, 6.0)


def test_one_trial_is_enough_where_the_start_is_known() -> None:
    assert eta_of(a_run(1, 1, 5, total_cost=0.1)).seconds_left == 240.0


def test_without_a_plan_only_the_burn_rate_is_known() -> None:
    assert eta_of(a_run(30, 3, None, total_cost=1.5)) == Eta(None, None, 3.0, None)


def test_when_all_is_in_nothing_is_left_and_the_total_is_the_cost() -> None:
    assert eta_of(a_run(60, 4, 4, total_cost=2.0)) == Eta(1.0, 0.0, 2.0, 2.0)
    assert eta_of(a_run(60, 5, 4, total_cost=2.0)).projected_usd == 2.0


def test_a_run_that_its_harness_ended_awaits_nothing() -> None:
    ended = eta_of(a_run(60, 2, 4, total_cost=2.0, status="aborted"))
    assert (ended.share, ended.seconds_left, ended.projected_usd) == (0.5, 0.0, 2.0)


def test_what_costs_nothing_will_cost_nothing() -> None:
    assert eta_of(a_run(30, 3, 12, total_cost=0.0)) == Eta(0.25, 5400.0, 0.0, 0.0)


@pytest.mark.parametrize("cost", [None, "Infinity", "NaN"])
def test_a_cost_that_nobody_can_reckon_with_gives_no_rate_and_no_total(cost: object) -> None:
    assert eta_of(a_run(30, 3, 12, total_cost=cost)) == Eta(0.25, 5400.0, None, None)


@pytest.mark.parametrize("minutes", [None, 0, -5])
def test_without_time_passed_there_is_no_pace(minutes: float | None) -> None:
    """No event time, one at the start, or one before it (clocks of two machines)."""
    assert eta_of(a_run(minutes, 3, 12, total_cost=1.5)) == Eta(0.25, None, None, 6.0)


def test_before_the_first_trial_nothing_can_be_told() -> None:
    assert eta_of(a_run(1, 0, 12)) == Eta(0.0, None, None, None)


def test_where_no_start_is_known_the_pace_is_what_came_since_somebody_looked() -> None:
    """From 4 trials and 1 USD to 6 trials and 2 USD in 10 minutes: 4 more take 20 minutes."""
    since = Observation(START, 4, 1.0)
    pace = eta_of(a_run(10, 6, 10, total_cost=2.0, started_at=None), since)
    assert (pace.seconds_left, pace.usd_per_hour) == (1200.0, 6.0)


def test_where_no_start_is_known_and_nothing_came_since_there_is_no_pace() -> None:
    run = a_run(10, 6, 10, total_cost=2.0, started_at=None)
    assert eta_of(run, observation_of(run)) == eta_of(run) == Eta(0.6, None, None, 2.0 * 10 / 6)


def test_retractions_do_not_turn_the_time_around() -> None:
    since = Observation(START, 8, 1.0)
    assert eta_of(a_run(10, 6, 10, started_at=None), since).seconds_left is None
