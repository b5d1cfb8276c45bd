"""An outage of Redis is shown and waited out."""

from __future__ import annotations

import pytest
import redis

from streamer.client import readers
from streamer.settings import Settings
from streamer.terminal.watch import following
from tests.support.events import a_trial
from tests.support.servers import RedisServer
from tests.watch.driving import AT, PLAN, watching
from tests.web.feeding import Feed


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
        await driver.shows("update this streamer")
