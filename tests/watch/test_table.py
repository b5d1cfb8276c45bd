"""A table chooses its columns by its width, and keeps the cursor."""

from __future__ import annotations

import pytest

from streamer.settings import Settings
from streamer.terminal.watch.table import BoardTable
from tests.support.events import a_trial
from tests.watch.driving import AT, LARGE, SMALL, a_board, watching
from tests.web.feeding import Feed


async def test_every_sort_key_orders_the_board_and_r_turns_it_around(settings: Settings, feed: Feed) -> None:
    await feed.take(a_board())
    agents = ("best:m", "mid:m", "cheap:m", "nop:nop")
    async with watching(settings, "run-1", LARGE) as driver:
        await driver.shows(*agents, "pass rate▼")
        assert driver.order(*agents) == list(agents)
        await driver.press("r")
        await driver.shows("pass rate▲")
        assert driver.order(*agents) == ["cheap:m", "mid:m", "best:m", "nop:nop"]
        first_by = {"cost▲": "cheap:m", "cost/pass▲": "cheap:m", "grade▲": "best:m", "agents (4)▲": "best:m"}
        seen = {}
        for _ in range(14):
            await driver.press("s")
            await driver.until(lambda: ("▼" in driver.text) != ("▲" in driver.text), "one column is marked")
            head = driver.line("agents")
            for mark in first_by:
                if mark in head and mark not in seen:
                    seen[mark] = driver.order(*agents)[0]
                    assert driver.order(*agents)[-1] == "nop:nop"
        assert seen == first_by


async def test_a_click_on_a_head_sorts_and_a_second_one_turns_around(settings: Settings, feed: Feed) -> None:
    await feed.take(a_board())
    async with watching(settings, "run-1", LARGE) as driver:
        await driver.shows("best:m", "cost/pass")
        place = driver.line("agents").index("cost/pass")
        for mark in ("cost/pass▲", "cost/pass▼"):
            await driver.click("#agents", place, 0)
            await driver.shows(mark)


@pytest.mark.parametrize("size", [SMALL, (100, 30), LARGE, (260, 70)])
async def test_nothing_important_is_cut_at_any_size(
    settings: Settings, feed: Feed, size: tuple[int, int]
) -> None:
    await feed.take(a_board())
    async with watching(settings, size=size) as driver:
        await driver.shows("run-1", "running", "10 of 16", "62.5 %", "$12.3000", "1 min ago", "q Quit")
        await driver.press("enter")
        await driver.shows("10 of 16 trials", "$12.3000", "best:m", "cheap:m", "100.0 %", "newest trials")
        await driver.shows("rejections", "q Quit", "? Help", "cost/pass")
        assert max(map(len, driver.lines)) <= size[0]


async def test_a_resize_chooses_columns_anew(settings: Settings, feed: Feed) -> None:
    await feed.take(a_board())
    async with watching(settings, "run-1") as driver:
        await driver.shows("best:m", "pass rate▼")
        assert "mean cost" not in driver.text
        await driver.resize(*LARGE)
        await driver.shows("mean cost", "pass@1", "best:m")
        await driver.resize(60, 15)
        await driver.until(lambda: "mean cost" not in driver.text, "there is no room for it any more")
        await driver.shows("best:m", "grade", "pass rate▼", "q Quit")


async def test_the_cursor_stays_at_the_top_until_it_is_moved_and_then_on_its_run(
    settings: Settings, feed: Feed
) -> None:
    await feed.take([a_trial(run_id=f"run-{n}", finished_at=f"2026-01-31T11:0{n}:00Z") for n in range(3)])
    async with watching(settings) as driver:
        await driver.shows("run-0", "run-1", "run-2")
        table = driver.app.screen.query_one("#main", BoardTable)
        await feed.take([a_trial(run_id="newest", finished_at=AT)])
        await driver.until(lambda: table.chosen == "newest", "the cursor is at the top")
        await driver.press("down", "down")
        assert table.chosen == "run-1"
        await feed.take([a_trial(run_id="run-0", task_id="another", finished_at="2026-01-31T11:59:30Z")])
        await driver.until(lambda: driver.order("run-0", "newest")[0] == "run-0", "run-0 is the latest")
        assert table.chosen == "run-1"
