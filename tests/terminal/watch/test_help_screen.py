"""The help names the keys, and fits a small terminal."""

from __future__ import annotations

import pytest

from streamer.settings import Settings
from streamer.views.cells import EVENT_TIME
from tests.support.events import Event, a_deletion, a_plan, a_trial
from tests.support.formulacode_trials import FASTER
from tests.terminal.watch.driving import AT, LARGE, a_board, watching
from tests.web.feeding import Feed


async def test_the_help_names_the_keys_and_fits_a_small_terminal(settings: Settings) -> None:
    async with watching(settings) as driver:
        await driver.shows("no runs yet: waiting")
        await driver.press("question_mark")
        await driver.shows("open the run under the cursor", "quit", "uplift", "streamer subscribe run")
        await driver.press("escape")
        await driver.shows("no runs yet: waiting")
        await driver.press("q")
        await driver.until(lambda: not driver.app.is_running, "q quits")


HOSTILE = (
    "\x1b[31mred\x1b[0m",
    "[bold]bold[/bold]",
    "[link=https://example.org]link[/link]",
    "abc\u202edef",
    "<script>alert(1)</script>",
    "x" * 128,
)


@pytest.mark.parametrize(
    ("events", "shown", "absent"),
    [
        (
            [a_trial(), a_trial(task_id="task-2", benchmarks=FASTER, finished_at=AT)],
            ["pass rate▼", "speedup", "advantage", "3.0000", "1.0000"],
            [],
        ),
        ([a_trial(finished_at=AT)], ["agents (1)", "pass rate▼"], ["speedup", "grade", "budget"]),
        (
            [a_trial(tier="T0", score=0.5), a_trial(tier="T1", score=1.0)],
            ["tiers (2)", "uplift", "33.3 %"],
            [],
        ),
    ],
    ids=["formulacode", "plain", "tiers"],
)
async def test_columns_are_there_when_they_are_measured_and_grades_on_g(
    settings: Settings, feed: Feed, events: list[Event], shown: list[str], absent: list[str]
) -> None:
    await feed.take(events)
    async with watching(settings, "run-1") as driver:
        await driver.shows(*shown)
        assert [word for word in absent if word in driver.text] == []
        if "grade" in absent:
            await driver.press("g")
            await driver.shows("grade")


async def test_named_metrics_have_columns_and_the_primary_one_sorts(settings: Settings, feed: Feed) -> None:
    says = {"label": "[b]Wait[/b]\x1b[31m", "unit": "seconds", "direction": "lower"}
    await feed.take(
        [
            a_plan(metrics={"wait": says}, primary_metric="metrics/wait"),
            a_trial(tier="T0", metrics={"wait": 180.0, "style": 2.5}),
            a_trial(tier="T0", agent="quick", resolved=False, metrics={"wait": 90.0}, finished_at=AT),
        ]
    )
    async with watching(settings, "run-1", size=LARGE) as driver:
        await driver.shows("agents (2)", "[b]Wait[/b]\\x1b[31m▲", "3 min", "90 s", "style", "2.50")
        assert driver.order("terminus:gpt-5", "quick:gpt-5") == ["quick:gpt-5", "terminus:gpt-5"]
        assert "\x1b" not in driver.text


@pytest.mark.parametrize("name", HOSTILE, ids=["ansi", "markup", "link", "rtl", "html", "long"])
async def test_hostile_names_are_text(settings: Settings, feed: Feed, name: str) -> None:
    """Ids may hold no control characters; names, states and benchmarks may."""
    harmless = name if name.isprintable() else "harmless"
    plan = a_plan(display_name=name[:200], benchmark=name[:200], harness=name[:200])
    await feed.take([plan, a_trial(agent=harmless, model=harmless, tier=harmless, finished_at=AT)])
    await feed.take([{"type": "run_finished", "run_id": "run-1", "status": name[:60]}])
    visible = name.encode("unicode_escape").decode()
    async with watching(settings, size=LARGE) as driver:
        await driver.shows("1 run ", "finished", *([visible[:8]] if name.isprintable() else []))
        await driver.press("enter")
        await driver.shows("agents (1)", visible[:8])
        assert "…" in driver.text or visible in driver.text
        shown = driver.text
    assert not {"\x1b", "\u202e"} & set(shown)
    assert max(len(line) for line in shown.splitlines()) <= LARGE[0]


async def test_a_run_that_does_not_exist_is_waited_for(settings: Settings, feed: Feed) -> None:
    await feed.take([a_trial(run_id="nightly")])
    async with watching(settings, "nightyl") as driver:
        await driver.shows("There is no run 'nightyl'. Did you mean nightly? Waiting for it.")
        await feed.take([a_trial(run_id="nightyl")])
        await driver.shows("agents (1)", "accuracy 100.0 %")
        assert "Waiting" not in driver.text


async def test_a_deleted_run_is_said_to_be_deleted(settings: Settings, feed: Feed) -> None:
    await feed.take([a_trial()])
    async with watching(settings) as driver:
        await driver.shows("1 run ")
        await driver.press("enter")
        await driver.shows("agents (1)")
        await feed.take([a_deletion(revision=5)])
        await driver.shows("The run was deleted.", "agents (0)")
        await driver.press("escape")
        await driver.shows("no runs yet: waiting")


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
