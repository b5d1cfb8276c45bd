"""The screens that a command shows while it works, on a real Redis."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
import redis

from streamer.client import readers
from streamer.operate.local.broker import Broker
from streamer.settings import Settings
from streamer.storage.kafka import Names, TopicAuthorizationFailedError, partition_of, partitions_of
from streamer.terminal.watch import Session, WatchApp, following
from streamer.terminal.watch.following import newest_trials
from tests.support.events import a_plan, a_retraction, a_trial
from tests.support.servers import RedisServer
from tests.terminal.watch.driving import AT, LARGE, NOT_JSON, PLAN, WRONG, reject, watching
from tests.web.feeding import Feed


async def test_a_session_shows_its_runs_and_messages(settings: Settings, feed: Feed) -> None:
    for run in ("ours", "another"):
        await feed.take([a_trial(run_id=run, finished_at=AT)])
    over: list[bool] = []
    messages, said = ["cannot read \x1b[31mone.json"], ["the page is \x1b[31mhere"]
    session = Session(
        lambda: bool(over),
        lambda: [messages.pop()] if messages else [],
        "ours".__eq__,
        lambda: None,
        lambda: said[0],
    )
    async with watching(settings, session=session) as driver:
        await driver.shows("ours", "1 run", "cannot read", "the page is")
        assert "another" not in driver.text
        assert "\x1b" not in driver.text
        await driver.press("enter")
        await driver.shows("agents (1)", "the page is")
        said[0] = "it is over"
        await driver.shows("it is over")
        over.append(True)
        await driver.until(lambda: not driver.app.is_running, "the screens end")
        assert not driver.app.interrupted


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


async def test_work_that_is_cancelled_before_it_begins_leaves_no_warning(settings: Settings) -> None:
    app = WatchApp(settings, None)
    work = asyncio.sleep(0)
    task = app.spawn(work, lambda _: None)
    task.cancel()
    await asyncio.wait([task])
    assert inspect.getcoroutinestate(work) == inspect.CORO_CLOSED
    await app.reader.close()


async def test_an_update_is_told_by_redis_and_not_asked_for(
    settings: Settings, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in (
        (readers, "FIRST_SILENCE_SECONDS"),
        (readers, "LAST_SILENCE_SECONDS"),
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


async def test_an_outage_of_redis_is_said_and_what_comes_after_it_is_shown(
    settings: Settings, feed: Feed, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "PULSE_SECONDS", 0.1)
    await feed.take([PLAN, a_trial()])
    async with watching(settings, "run-1", budget_usd=2.0) as driver:
        await driver.shows("1 of 3 trials", "terminus:gpt-5", "budget of $2.00")
        current = driver.colors("1 of 3 trials"), driver.colors("terminus:gpt-5")
        budget = driver.colors("budget of $2.00")
        redis_server.kill()
        await driver.shows("Trying again", "does not answer", "1 of 3 trials")
        old = driver.colors("1 of 3 trials"), driver.colors("terminus:gpt-5")
        assert old[0] != current[0], "the last numbers are grey"
        assert old[1] != current[1], "so is the board"
        assert driver.colors("budget of $2.00") != budget, "so is the forecast"
        redis_server.restart_empty()
        await feed.take([a_trial(task_id="task-2")])
        await driver.shows("2 of 3 trials")
        await driver.until(lambda: "does not answer" not in driver.text, "all is well again")
        await driver.until(lambda: driver.colors("terminus:gpt-5") == current[1], "the numbers are current")


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
        await driver.shows("upgrade streamer here")


async def test_rejections_are_counted_by_run(logged: Settings, feed_of_both: Feed) -> None:
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


async def test_an_absent_log_leaves_the_boards(settings: Settings, logged: Settings, feed: Feed) -> None:
    await feed.take([a_trial()])
    away = f"no Kafka broker answers at {settings.bootstrap}"
    for given, said in ((logged, "no topics yet, or this user may not read them"), (settings, away)):
        async with watching(given, "run-1") as driver:
            for head in ("newest trials", "rejections"):
                await driver.shows(f"{head}: {said}", "terminus:gpt-5")
            await driver.press("escape")
            await driver.shows(f"rejections unknown: {said}", "run-1")


async def test_a_broker_that_refuses_is_not_called_absent() -> None:
    """As it does with a wrong password, or an account without the right to read."""

    async def refused() -> AsyncIterator[None]:
        raise TopicAuthorizationFailedError("trial-rejections")
        yield

    with pytest.raises(ValueError, match=r"^.Error 29. TopicAuthorizationFailedError: trial-rejections$"):
        await following._follow(Settings(), refused, print, _raise)


def _raise(problem: str | None) -> None:
    raise ValueError(problem)


async def test_boards_outlive_the_broker(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "RETRY_SECONDS", 0.1)
    monkeypatch.setattr(following, "BROKER_SECONDS", 10.0)  # refused at once while it is away, slow to begin
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


async def test_the_newest_trials_come_first(logged: Settings, feed_of_both: Feed) -> None:
    await feed_of_both.take([a_trial(task_id=f"old-{n}") for n in range(3)])
    await reject(logged)
    async with watching(logged, "run-1") as driver:
        await driver.shows("old-0", "old-1", "old-2", "passed", "rejections (0)")
        await feed_of_both.take([a_trial(task_id="new-1", resolved=False)])
        await driver.shows("new-1", "failed")
        assert driver.order("new-1", "old-0")[0] == "new-1"
        await feed_of_both.take([a_retraction(task_id="old-1")])
        await driver.until(lambda: "old-1" not in driver.text, "what was retracted is gone")


async def test_as_much_of_the_log_is_read_as_it_takes_and_so_many_trials_are_kept(
    logged: Settings, feed_of_both: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One trial of the run lies before many of others in the same partition: the third look finds it."""
    monkeypatch.setattr(following, "FIRST_LOOK", 2)
    monkeypatch.setattr(following, "FURTHER", 4)
    monkeypatch.setattr(following, "KEPT", 3)
    await feed_of_both.take([a_trial(task_id="mine")])
    partitions = len(await partitions_of(logged, Names(logged.namespace).scored_trials))
    ours, runs = partition_of("run-1", partitions), (f"other-{n}" for n in range(100))
    beside = [run for run in runs if partition_of(run, partitions) == ours]
    await feed_of_both.take([a_trial(run_id=run) for run in beside[:20]])
    assert len(beside) >= 20
    async with aclosing(newest_trials(logged, "run-1")) as batches:  # type: ignore[type-var]
        assert [row.task_id for row in await anext(batches)] == ["mine"]
    await feed_of_both.take([a_trial(task_id=f"t{n}") for n in range(6)])
    async with aclosing(newest_trials(logged, "run-1")) as batches:  # type: ignore[type-var]
        assert len(await anext(batches)) == 3
