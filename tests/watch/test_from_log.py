"""What only the log knows: rejections, and a log that is not there."""

from __future__ import annotations

import pytest

from streamer.operate.local.broker import Broker
from streamer.settings import Settings
from streamer.terminal.watch import following
from tests.support.events import a_plan, a_trial
from tests.watch.driving import LARGE, watching
from tests.watch.rejecting import NOT_JSON, WRONG, reject
from tests.web.feeding import Feed


async def test_rejections_are_counted_by_run_and_the_newest_is_shown(
    logged: Settings, feed_of_both: Feed
) -> None:
    await feed_of_both.take([a_plan(tasks=3), a_trial()])
    await reject(logged, NOT_JSON)
    async with watching(logged, None, LARGE) as driver:
        await driver.shows("1 rejection in the log (streamer rejections list)")
    await reject(logged, WRONG)
    async with watching(logged, "run-1", LARGE) as driver:
        await driver.shows("rejections (1)", "1 more name no run", "invalid_field", "Field 'resolved'")
        await reject(logged, WRONG.replace(b'"yes"', b'"[bold]no[/]"'))
        await driver.shows("rejections (2)", "'[bold]no[/]'")
        await driver.press("escape")
        await driver.shows("3 rejections in the log (streamer rejections list)")


async def test_a_log_without_topics_is_said_to_have_none(logged: Settings, feed: Feed) -> None:
    await feed.take([a_trial()])
    async with watching(logged, "run-1") as driver:
        for head in ("newest trials", "rejections"):
            await driver.shows(f"{head}: the log has no topics yet", "terminus:gpt-5")


async def test_a_broker_that_goes_away_leaves_the_boards_and_the_newest_trials_until_it_is_back(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "RETRY_SECONDS", 0.1)
    monkeypatch.setattr(following, "BROKER_SECONDS", 0.5)
    with Broker() as broker:
        own = settings.model_copy(update={"bootstrap": broker.bootstrap, "embedded": True})
        events = [a_plan(tasks=3, attempts=1), a_trial()]
        async with Feed(own, log=True) as feed:
            await feed.take(events)
        async with watching(own, "run-1", LARGE) as driver:
            await driver.shows("task-1", "1 of 3 trials")
            broker.stop()
            await driver.shows(f"newest trials: no Kafka broker answers at {own.bootstrap}")
            await driver.shows("terminus:gpt-5", "1 of 3 trials", "task-1")
            await driver.shows("rejections: no Kafka broker answers")
            broker.start()
            async with Feed(own, log=True, epoch=2) as feed:
                await feed.take([*events, a_trial(task_id="task-2")])
            await driver.shows("task-2", "2 of 3 trials")
            await driver.until(lambda: "no Kafka broker" not in driver.text, "the log is read again")


async def test_a_broker_that_is_away_leaves_the_boards(settings: Settings, feed: Feed) -> None:
    await feed.take([a_trial()])
    async with watching(settings, "run-1") as driver:
        await driver.shows("newest trials: no Kafka broker answers at 127.0.0.1:1", "terminus:gpt-5")
        await driver.press("escape")
        await driver.shows("rejections unknown: no Kafka broker answers at 127.0.0.1:1", "run-1")
