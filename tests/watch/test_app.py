"""The screens that a command shows while it works, on a real Redis."""

from __future__ import annotations

from streamer.settings import Settings
from streamer.terminal.watch import Session
from tests.support.events import a_trial
from tests.watch.driving import watching
from tests.web.feeding import Feed

AT = "2026-01-31T11:59:00Z"


async def test_the_screens_of_a_session_show_its_runs_and_messages_and_end_with_it(
    settings: Settings, feed: Feed
) -> None:
    await feed.take([a_trial(run_id="ours", finished_at=AT)])
    await feed.take([a_trial(run_id="another", finished_at=AT)])
    over: list[bool] = []
    messages = ["cannot read \x1b[31mone.json"]
    session = Session(
        lambda: bool(over), lambda: [messages.pop()] if messages else [], "ours".__eq__, lambda: None
    )
    async with watching(settings, session=session) as driver:
        await driver.shows("ours", "1 run", "cannot read")
        assert "another" not in driver.text
        assert "\x1b" not in driver.text
        over.append(True)
        await driver.until(lambda: not driver.app.is_running, "the screens end")
        assert not driver.app.interrupted


async def test_the_line_of_a_session_stands_on_every_screen_and_changes_with_it(
    settings: Settings, feed: Feed
) -> None:
    await feed.take([a_trial(run_id="ours", finished_at=AT)])
    said = ["the page is \x1b[31mhere"]
    session = Session(lambda: False, list, lambda _: True, lambda: None, lambda: said[0])
    async with watching(settings, session=session) as driver:
        await driver.shows("1 run", "the page is")
        assert "\x1b" not in driver.text
        await driver.press("enter")
        await driver.shows("agents (1)", "the page is")
        said[0] = "it is over"
        await driver.shows("it is over")


async def test_a_session_opens_its_run_once_it_is_known(settings: Settings, feed: Feed) -> None:
    await feed.take([a_trial(run_id="ours", finished_at=AT)])
    known: list[str] = []
    session = Session(lambda: False, list, lambda _: True, lambda: next(iter(known), None))
    async with watching(settings, session=session) as driver:
        await driver.shows("1 run")
        known.append("ours")
        await driver.shows("agents (1)", "terminus:gpt-5")
        await driver.press("escape")
        await driver.shows("1 run")
        await driver.press("ctrl+c")
        await driver.until(lambda: not driver.app.is_running, "Ctrl-C ends it")
        assert driver.app.interrupted
