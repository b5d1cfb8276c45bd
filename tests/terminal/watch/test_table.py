"""The lines above the tables: what they say, and what they leave out where there is no room."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from streamer.schemas.summaries import RunSummary
from streamer.settings import Settings
from streamer.terminal.watch.table import (
    BoardTable,
    budget_line,
    cost_line,
    end_line,
    outcome_line,
    progress_line,
    title_of,
)
from streamer.views.decide.outlook import Estimate, Eta
from tests.support.builders import a_run_change
from tests.support.events import a_trial
from tests.terminal.watch.driving import AT, LARGE, SMALL, a_board, watching
from tests.web.feeding import Feed

UNKNOWN = Eta(None, None, None, None)
READING = {"done": 1, "planned": None, "plan_complete": False}
AT_THREE = datetime(2026, 1, 2, 3, tzinfo=UTC)


def a_run(**fields: Any) -> RunSummary:
    return RunSummary.model_validate(a_run_change(**fields).summary)


def test_a_run_is_called_by_its_name_with_its_id_beside_it() -> None:
    assert title_of(a_run(display_name="Nightly", benchmark="tb"), "running").startswith("Nightly (r1) · tb")
    assert title_of(a_run(), "stalled") == "r1 · stalled"
    assert "\x1b" not in title_of(a_run(display_name="\x1b[31mred", harness="\x1b[1m"), "running")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "1 trial in, no plan known"),
        ({"progress": READING}, "1 trial in, plan not complete yet"),
        ({"progress": READING, "in_flight": 2}, "1 trial, 2 running, plan not complete yet"),
        ({"in_flight": 2, "status": "aborted"}, "1 trial, no plan known"),
    ],
)
def test_without_a_plan_there_is_no_bar(fields: dict[str, Any], said: str) -> None:
    assert progress_line(a_run(**fields), UNKNOWN, 80) == said


def test_the_bar_shrinks_to_its_least_and_the_text_stays() -> None:
    run = a_run(progress={"done": 1, "planned": 4})
    pace = Eta(0.25, Estimate(50.0, 60.0, 80.0), None, None)
    wide, narrow = (progress_line(run, pace, width) for width in (200, 1))
    text = narrow.split("  ", 1)[1]
    assert text == "25.0 %  1 of 4 trials"
    assert wide.endswith(text)
    assert (len(wide) - len(text) - 2, len(narrow) - len(text) - 2) == (60, 10)
    running = a_run(progress={"done": 1, "planned": 4}, in_flight=2)
    assert progress_line(running, pace, 80).endswith("1 of 4 trials, 2 running")


def test_the_end_and_the_budget_are_forecasts_and_none_lies_in_the_past() -> None:
    run = a_run(last_event_at=AT_THREE.isoformat(), total_cost=20.0)
    pace = Eta(0.5, Estimate(60.0, 240.0, 5400.0), None, Estimate(41.0, 44.0, 47.0))
    passed = "forecast: the budget of $32.00 is passed"
    for minute, end, budget in (
        (0, "forecast: ends about 03:04 UTC, 03:01 to 04:30", f"{passed} about 03:02 UTC"),
        (9, "forecast: ends about 03:09 UTC, 03:09 to 04:30", f"{passed} about 03:09 UTC"),
        (11, "", passed),
    ):
        now = AT_THREE.replace(minute=minute)
        assert (end_line(run, pace, now), budget_line(run, pace, 32.0, now)) == (end, budget)
    ended = Eta(1.0, Estimate(0.0, 0.0, 0.0), None, None)
    assert end_line(run, UNKNOWN, AT_THREE) == end_line(run, ended, AT_THREE) == ""
    assert budget_line(run, pace, None, AT_THREE) == ""


def test_the_outcome_loses_its_last_parts_first_and_never_the_accuracy() -> None:
    run = a_run(no_verdict=1)
    whole = outcome_line(run, 500)
    assert "pass@1" in whole
    assert "1 no verdict" in whole
    assert whole.endswith("1 task")
    assert "1 task" not in outcome_line(run, len(whole) - 1)
    assert outcome_line(run, 1) == whole.split(" · ")[0]
    assert "pass@k by agent only" in outcome_line(a_run(pass_at_k=None, agent_models=2), 500)


@pytest.mark.parametrize(
    ("cost", "pace", "line"),
    [
        (None, UNKNOWN, "cost unknown"),
        (1.5, UNKNOWN, "cost $1.5000"),
        (
            1.5,
            Eta(0.5, None, 3.0, Estimate(2.0, 3.0, 5.0)),
            "cost $1.5000 · $3.0000 per hour · forecast: about $3.00 in all, $2.00 to $5.00",
        ),
        (1.5, Eta(1.0, None, 3.0, Estimate(1.5, 1.5, 1.5)), "cost $1.5000 · $3.0000 per hour"),
    ],
)
def test_the_cost_says_as_much_as_is_known(cost: float | None, pace: Eta, line: str) -> None:
    assert cost_line(a_run(total_cost=cost), pace) == line


# -----------------------------------------------------------------------------
# A table chooses its columns by its width, and keeps the cursor.


async def test_every_sort_key_orders_the_board_and_r_turns_it_around(settings: Settings, feed: Feed) -> None:
    await feed.take(a_board())
    agents = ("best:m", "mid:m", "cheap:m", "nop:nop")
    async with watching(settings, "run-1", LARGE) as driver:
        await driver.shows(*agents, "pass rate▼")
        assert driver.order(*agents) == list(agents)
        await driver.press("r")
        await driver.shows("pass rate▲")
        assert driver.order(*agents) == ["cheap:m", "mid:m", "best:m", "nop:nop"]
        first_by = {"cost▲": "cheap:m", "cost/pass▲": "cheap:m", "agents (4)▲": "best:m"}
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
        await driver.shows("best:m", "place", "cost/pass")
        place = driver.line("agents").index("cost/pass")
        for mark in ("cost/pass▲", "cost/pass▼"):
            await driver.click("#agents", place, 0)
            await driver.shows(mark)


async def test_heads_name_their_question_while_the_final_pass_rate_is_open(
    settings: Settings, feed: Feed
) -> None:
    await feed.take(a_board())
    async with watching(settings, "run-1") as driver:
        await driver.shows("best:m", "this run, final", "tasks like these")
        head = driver.line("agents")
        above = driver.lines[driver.lines.index(head) - 1]
        assert above.index("this run, final") < head.index("pass rate") + len("pass rate▼")
        assert above.index("tasks like these") >= head.index("pass rate▼")
        assert driver.lines[driver.lines.index(head) + 1].split()[0] == "best:m"
        agents = [("best", "m"), ("mid", "m"), ("cheap", "m"), ("nop", "nop")]
        last = [(f"t{n}", *agent) for n in range(4) for agent in agents]
        keys = ("task_id", "agent", "model")
        await feed.take([a_trial(**dict(zip(keys, one, strict=True)), finished_at=AT) for one in last])
        await driver.until(lambda: "this run, final" not in driver.text, "every final pass rate is known")


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
        await driver.shows("best:m", "place", "pass rate▼", "q Quit")


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
