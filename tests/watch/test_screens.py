"""The screens on a real Redis that is fed as a worker feeds it."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from streamer.client import async_reader
from streamer.settings import Settings
from streamer.watch import following
from streamer.watch.table import BoardTable
from tests.support.events import a_deletion, a_plan, a_trial
from tests.support.formulacode_trials import FASTER
from tests.support.servers import RedisServer
from tests.watch.driving import LARGE, SMALL, watching
from tests.web.feeding import Feed

AT = "2026-01-31T11:59:00Z"
WHEN = {"finished_at": AT}
PLAN = a_plan(tasks=3, attempts=1, agent_models=["terminus:gpt-5"])
HOSTILE = (
    "\x1b[31mred\x1b[0m",
    "[bold]bold[/bold]",
    "[link=https://example.org]link[/link]",
    "abc\u202edef",
    "<script>alert(1)</script>",
    "x" * 128,
)


def a_board() -> list[dict[str, Any]]:
    """Three agents: `cheap` passes least and costs least, `best` the opposite; and a baseline."""
    events = [a_plan(tasks=4, attempts=1, agent_models=["best:m", "cheap:m", "mid:m", "nop:nop"])]
    for agent, passes, cost in (("best", 3, 3.0), ("mid", 2, 1.0), ("cheap", 1, 0.1)):
        events += [
            a_trial(
                task_id=f"t{n}", agent=agent, model="m", resolved=n < passes, cost_usd=cost, finished_at=AT
            )
            for n in range(3)
        ]
    return [*events, a_trial(task_id="t0", agent="nop", model="nop", resolved=False, finished_at=AT)]


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


async def test_an_update_is_told_by_redis_and_not_asked_for(
    settings: Settings, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in (
        (async_reader, "FIRST_SILENCE_SECONDS"),
        (async_reader, "LAST_SILENCE_SECONDS"),
        (following, "PULSE_SECONDS"),
    ):
        assert getattr(module, name) >= 1.0
        monkeypatch.setattr(module, name, 3600.0)
    await feed.take([PLAN, a_trial(finished_at=AT)])
    async with watching(settings, "run-1") as driver:
        await driver.shows("1 of 3 trials", "terminus:gpt-5")
        await feed.take([a_trial(task_id="task-2", finished_at=AT), a_trial(agent="new", finished_at=AT)])
        await driver.shows("new:gpt-5", "agents (2)")
        await driver.press("escape")
        await driver.shows("1 run", "running")
        await feed.take([a_trial(task_id="task-3", finished_at=AT), a_trial(run_id="another")])
        await driver.shows("complete", "another")


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


async def test_formulacode_columns_are_there_when_they_are_measured(settings: Settings, feed: Feed) -> None:
    await feed.take([a_trial(), a_trial(task_id="task-2", benchmarks=FASTER, finished_at=AT)])
    async with watching(settings, "run-1") as driver:
        await driver.shows("speedup▼", "advantage", "3.0000", "1.0000")
    await feed.take([a_trial(run_id="plain", finished_at=AT)])
    async with watching(settings, "plain") as driver:
        await driver.shows("pass rate▼")
        assert "speedup" not in driver.text


async def test_tiers_show_grade_and_uplift(settings: Settings, feed: Feed) -> None:
    tiers = [a_trial(tier="T0", score=0.5), a_trial(tier="T1", score=1.0)]
    await feed.take(tiers)
    async with watching(settings, "run-1") as driver:
        await driver.shows("tiers (2)", "uplift", "33.3 %")


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
    async with watching(settings, "run-1") as driver:
        await driver.shows("agents (1)")
        await feed.take([a_deletion(revision=5)])
        await driver.shows("The run was deleted.", "agents (0)")
        await driver.press("escape")
        await driver.shows("no runs yet: waiting")


async def test_an_outage_of_redis_is_said_and_what_comes_after_it_is_shown(
    settings: Settings, feed: Feed, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "PULSE_SECONDS", 0.1)
    await feed.take([PLAN, a_trial()])
    async with watching(settings, "run-1") as driver:
        await driver.shows("1 of 3 trials")
        redis_server.kill()
        await driver.shows("Trying again", "does not answer", "1 of 3 trials")
        redis_server.restart_empty()
        await feed.take([a_trial(task_id="task-2")])
        await driver.shows("2 of 3 trials")
        await driver.until(lambda: "does not answer" not in driver.text, "all is well again")


async def test_a_redis_that_is_away_at_the_start_is_waited_for(
    settings: Settings, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "PULSE_SECONDS", 0.1)
    monkeypatch.setattr(following, "RETRY_SECONDS", 0.1)
    redis_server.stop()
    async with watching(settings) as driver:
        await driver.shows("does not answer")
        redis_server.start()
        async with Feed(settings) as feed:
            await feed.take([a_trial()])
            await driver.shows("run-1", "1 run ")
            await driver.until(lambda: "does not answer" not in driver.text, "all is well")


async def test_no_password_is_on_the_screen(settings: Settings, redis_server: RedisServer) -> None:
    url = redis_server.url.replace("redis://", "redis://somebody:s3cr3t@")
    async with watching(settings.model_copy(update={"redis": url}), "run-1") as driver:
        await driver.shows("refuses", f"127.0.0.1:{redis_server.port}")
        assert "s3cr3t" not in driver.text
        await driver.press("escape")
        await driver.shows("streamer · 127.0.0.1")
        assert "s3cr3t" not in driver.text


async def test_a_summary_of_a_newer_version_is_named_and_ends_nothing(settings: Settings, feed: Feed) -> None:
    await feed.take([a_trial()])
    key = f"{settings.namespace}:streamer:{{run-1}}:run"
    with redis.Redis.from_url(settings.redis) as client:
        client.set(key, b'{"type": "run_summary", "from": "the future"}')
    async with watching(settings, "run-1") as driver:
        await driver.shows("update this streamer")


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


async def test_the_help_names_the_keys_and_fits_a_small_terminal(settings: Settings) -> None:
    async with watching(settings) as driver:
        await driver.shows("no runs yet: waiting")
        await driver.press("question_mark")
        await driver.shows("open the run under the cursor", "quit", "uplift", "streamer subscribe run")
        await driver.press("escape")
        await driver.shows("no runs yet: waiting")
        await driver.press("q")
        await driver.until(lambda: not driver.app.is_running, "q quits")


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
