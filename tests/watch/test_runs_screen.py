"""The screen of all runs."""

from __future__ import annotations

from streamer.settings import Settings
from streamer.views.tables import EVENT_TIME
from tests.support.events import a_trial
from tests.watch.driving import AT, a_board, watching
from tests.web.feeding import Feed


async def test_runs_are_listed_the_latest_first_and_enter_opens_one(settings: Settings, feed: Feed) -> None:
    await feed.take([a_trial(run_id="older", finished_at="2026-01-30T00:00:00Z")])
    await feed.take([a_trial(run_id="newer", finished_at=AT)])
    async with watching(settings) as driver:
        await driver.shows("older", "newer", "2 runs", "1 min ago", "36 h ago")
        assert driver.order("newer", "older") == ["newer", "older"]
        await driver.press("down", "enter")
        await driver.until(lambda: driver.lines[0].startswith(" older"), "the older run is open")
        await driver.shows("agents (1)", "terminus:gpt-5", "accuracy 100.0 %")
        await driver.press("escape")
        await driver.shows("2 runs")


async def test_a_time_ahead_of_the_clock_is_called_event_time(settings: Settings, feed: Feed) -> None:
    await feed.take([a_trial(run_id="ahead", finished_at="2026-01-31T12:24:00Z")])
    async with watching(settings) as driver:
        await driver.shows("ahead", "event time 12:24 UTC")
        await driver.press("enter")
        await driver.shows("agents (1)", EVENT_TIME)


async def test_the_filter_keeps_what_fits_and_escape_shows_everything(settings: Settings, feed: Feed) -> None:
    await feed.take([*a_board(), a_trial(run_id="other", finished_at=AT)])
    async with watching(settings) as driver:
        await driver.shows("run-1", "other", "2 runs")
        await driver.press("slash", *"OTH")
        await driver.until(lambda: "run-1" not in driver.text, "only what fits is listed")
        await driver.press("escape")
        await driver.shows("run-1", "other")
        await driver.press("slash", *"run-", "enter", "enter")
        await driver.shows("best:m", "cheap:m")
        await driver.press("slash", *"best", "enter")
        await driver.until(lambda: "cheap:m" not in driver.text, "only what fits is on the board")
        await driver.press("escape")
        await driver.shows("cheap:m")
