"""Learning curves: a bulk publish draws the run's own hours, and every curve ends where the board stands."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from streamer.folding.breakdowns import BAND_POINTS, curves, evenly
from tests.support.events import Event, a_plan, a_start, a_trial, folded, summaries

START = datetime(2026, 1, 31, 9, 0, tzinfo=UTC)
ORDER = [f"t{number:02}" for number in range(60)]


def at(minutes: float) -> str:
    return (START + timedelta(minutes=minutes)).isoformat()


def curves_of(events: list[Event], points: int = 60) -> dict[str, list[dict[str, Any]]]:
    """The points of each curve, by agent:model or tier."""
    pipeline, _ = folded(events)
    found = curves(pipeline.run("run-1").state, points)
    return {curve["tier"] or curve["agent_model"]: curve["points"] for curve in found}


def a_shuffled_run(done: int, **plan: Any) -> list[Event]:
    """Trials of 17 minutes each, the next one started when the one before has ended."""
    random = Random(3)
    declared = {"tasks": ORDER, "attempts": 1, "order": ORDER, "order_kind": "shuffled"} | plan
    events = [a_plan(**declared, agent_models=["terminus:gpt-5"], started_at=at(0))]
    for number, task in enumerate(ORDER[:done]):
        passed = random.random() < 0.6
        events.append(a_start(task_id=task, started_at=at(17 * number), position=number))
        events.append(a_trial(task_id=task, resolved=passed, finished_at=at(17 * (number + 1))))
    return events


def test_a_bulk_publish_of_a_finished_run_draws_the_hours_of_the_run() -> None:
    [points] = curves_of(a_shuffled_run(60)).values()
    assert (points[0]["at"], points[-1]["at"]) == ("2026-01-31T09:17:00Z", "2026-02-01T02:00:00Z")
    assert [point["trials"] for point in points] == list(range(1, 61))


def test_the_order_of_publishing_changes_no_curve() -> None:
    events = a_shuffled_run(60)
    shuffled = Random(1).sample(events, len(events))
    assert curves_of(events) == curves_of(shuffled)


def test_a_curve_ends_with_what_the_board_says_however_few_its_points() -> None:
    random = Random(5)
    events = [
        a_trial(
            task_id=f"t{number}",
            agent=f"a{number % 3}",
            tier=f"T{number % 2}",
            resolved=random.random() < 0.5,
            cost_usd=random.random(),
            score=random.random(),
            finished_at=at(number),
        )
        for number in range(90)
    ]
    pipeline, _ = folded(events)
    held = [s for s in summaries(pipeline).values() if s["type"] != "run_summary"]
    agents = {s["agent_model"]: s for s in held if s["type"] == "agent_model_summary"}
    tiers = {s["tier"]: s for s in held if s["type"] == "tier_summary" and s["agent_model"] is None}
    found = curves_of(events, points=7)
    assert set(found) == {"a0:gpt-5", "a1:gpt-5", "a2:gpt-5", "T0", "T1"}
    for label, points in found.items():
        assert len(points) == 7
        last, board = points[-1], {**agents, **tiers}[label]
        assert last["trials"] == board["trials"]
        assert last["pass_rate"] == board["statistics"]["pass_rate"]["mean"]
        assert last["composite_score"] == board["statistics"]["composite_score"]["median"]
        for name in ("accuracy", "total_cost", "mean_cost", "cost_of_pass"):
            assert last[name] == board[name], name


def test_the_band_gets_narrower_holds_the_end_and_ends_with_the_board() -> None:
    events = a_shuffled_run(60)
    [points] = curves_of(events).values()
    bands = [point["final"] for point in points if point["final"]]
    assert len(bands) == 16
    widths = [band["high"] - band["low"] for band in bands]
    assert widths == sorted(widths, reverse=True)
    end = points[-1]["pass_rate"]
    assert all(band["low"] <= end <= band["high"] for band in bands)
    assert bands[-1] == {"low": end, "high": end}


def test_a_band_half_way_is_what_the_board_said_then() -> None:
    pipeline, _ = folded(a_shuffled_run(30))
    [then] = [s for s in summaries(pipeline).values() if s["type"] == "agent_model_summary"]
    [points] = curves_of(a_shuffled_run(30)).values()
    final = then["uncertainty"]["final"]
    assert points[-1]["final"] == {"low": final["low"], "high": final["high"]}


def four_at_a_time(count: int, **plan: Any) -> list[tuple[float, Event]]:
    """When each event of a shuffled run of four workers came, in minutes; failures take longer."""
    random = Random(7)
    declared = {"tasks": ORDER, "attempts": 1, "order_kind": "shuffled", "concurrency": 4} | plan
    came = [(0.0, a_plan(**declared, agent_models=["terminus:gpt-5"], started_at=at(0)))]
    free = [0.0] * 4
    for number, task in enumerate(ORDER[:count]):
        began = free.pop(0)
        passed = random.random() < 0.5
        ended = round(began + random.uniform(5, 20) + (0 if passed else 25), 2)
        came.append((began, a_start(task_id=task, started_at=at(began), position=number)))
        came.append((ended, a_trial(task_id=task, resolved=passed, finished_at=at(ended))))
        free = sorted([*free, ended])
    return sorted(came, key=lambda pair: pair[0])


def without_starts(event: Event) -> Event | None:
    return None if event["type"] == "trial_started" else event


def without_positions(event: Event) -> Event | None:
    return {name: value for name, value in event.items() if name != "position"}


@pytest.mark.parametrize(
    ("plan", "sent"),
    [
        ({"order": ORDER}, dict),
        ({"order": ORDER}, without_starts),
        ({"concurrency": None}, dict),
        ({}, without_positions),
        ({}, without_starts),
        ({"task_difficulty": {task: number / 60 for number, task in enumerate(ORDER)}, "order": ORDER}, dict),
    ],
    ids=["order", "no starts", "positions", "concurrency", "concurrency, no starts", "difficulty"],
)
@pytest.mark.parametrize("count", [45, 60])
def test_every_band_is_what_the_board_said_at_that_moment(
    plan: dict[str, Any], sent: Callable[[Event], Event | None], count: int
) -> None:
    came = [(time, event) for time, whole in four_at_a_time(count, **plan) if (event := sent(whole))]
    [points] = curves_of([event for _, event in came]).values()
    for size in evenly(count, BAND_POINTS):
        point = points[size - 1]
        moment = datetime.fromisoformat(point["at"])
        then, _ = folded([event for time, event in came if START + timedelta(minutes=time) <= moment])
        [board] = [s for s in summaries(then).values() if s["type"] == "agent_model_summary"]
        final = board["uncertainty"]["final"]
        assert board["trials"] == point["trials"] == size
        assert point["final"] == (final and {"low": final["low"], "high": final["high"]}), size


@pytest.mark.parametrize(
    "plan", [{"order_kind": "chosen"}, {"tasks": None, "order": None}], ids=["chosen", "no plan"]
)
def test_without_an_interval_there_is_no_band(plan: dict[str, Any]) -> None:
    [points] = curves_of(a_shuffled_run(30, **plan)).values()
    assert {point["final"] for point in points} == {None}


def test_one_wrong_clock_does_not_stretch_the_axis_and_its_trial_still_counts() -> None:
    events = [a_trial(task_id=f"t{number}", finished_at=at(number)) for number in range(60)]
    events.append(a_trial(task_id="wrong", resolved=False, finished_at="2003-01-01T00:00:00Z"))
    [points] = curves_of(events, points=100).values()
    assert {point["at"][:10] for point in points} == {"2026-01-31"}
    assert (points[-1]["trials"], points[-1]["accuracy"]) == (61, 60 / 61)


def test_the_time_of_a_copied_file_is_not_used_where_trials_have_times_of_their_own() -> None:
    years_later = 1_890_000_000_000_000_000
    events = [a_trial(task_id=f"t{n}", finished_at=at(n), revision=years_later) for n in range(20)]
    events.append(a_trial(task_id="timeless", revision=years_later))
    [points] = curves_of(events).values()
    assert points[-1]["at"] == "2026-01-31T09:19:00Z"


def test_trials_without_any_time_still_have_a_curve_by_trials_done() -> None:
    [points] = curves_of([a_trial(task_id=f"t{n}") for n in range(3)]).values()
    assert [(point["at"], point["trials"]) for point in points] == [(None, 1), (None, 2), (None, 3)]


def test_a_start_and_a_duration_give_the_end() -> None:
    [points] = curves_of([a_trial(started_at=at(0), duration_seconds=90.0)]).values()
    assert points[0]["at"] == "2026-01-31T09:01:30Z"


@pytest.mark.parametrize("seconds", [3e11, 1e15, 6e9, 1e300], ids=str)
def test_a_duration_beyond_all_years_leaves_the_end_unknown(seconds: float) -> None:
    events = [a_trial(task_id="endless", started_at=at(0), duration_seconds=seconds)]
    [points] = curves_of([*events, a_trial(task_id="t1", finished_at=at(1))]).values()
    assert [(point["at"], point["trials"]) for point in points] == [
        ("2026-01-31T09:01:00Z", 1),
        ("2026-01-31T09:01:00Z", 2),
    ]


def test_a_correction_moves_the_whole_curve() -> None:
    events = [
        a_trial(task_id="t1", resolved=False, finished_at=at(1)),
        a_trial(task_id="t2", finished_at=at(2)),
    ]
    corrected = a_trial(task_id="t1", resolved=True, finished_at=at(1), revision=5)
    [points] = curves_of([*events, corrected]).values()
    assert [point["pass_rate"] for point in points] == [1.0, 1.0]
