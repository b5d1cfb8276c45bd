"""One subscription for all viewers of a process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import pytest
import redis

from streamer.client.queries import ReaderError
from streamer.client.readers import AsyncStateReader, StateUpdate
from streamer.settings import Settings
from streamer.storage.entries import Keys
from streamer.web.live import Hub
from tests.support.events import a_trial
from tests.support.eventually import eventually
from tests.support.servers import RedisServer
from tests.web.feeding import Feed
from tests.web.serving import Serving
from tests.web.viewer import Watch, converged


async def test_any_number_of_viewers_cost_one_redis_subscription(
    serving: Serving, feed: Feed, settings: Settings, watch: Watch, redis_server: RedisServer
) -> None:
    await feed.take([a_trial(), a_trial(run_id="run-2")])
    for number in range(50):
        await watch(serving, f"/api/runs/run-{1 + number % 2}/updates").open()
    channel = Keys(settings.namespace).updates
    with redis.Redis.from_url(redis_server.url) as client:
        assert client.pubsub_numsub(channel) == [(channel.encode(), 1)]
    health = serving.get("/api/health").json()
    assert (health["viewers"], health["subscriptions"], health["following"]) == (50, 1, True)


async def test_viewers_that_left_are_not_counted(serving: Serving, feed: Feed, watch: Watch) -> None:
    await feed.take([a_trial()])
    viewers = [await watch(serving).open() for _ in range(5)]
    for viewer in viewers:
        await viewer.close()
    await eventually(lambda: serving.get("/api/health").json()["viewers"] == 0, "all have left")


async def test_viewers_sit_out_a_redis_that_goes_away_and_comes_back(
    serving: Serving, feed: Feed, watch: Watch, redis_server: RedisServer
) -> None:
    await feed.take([a_trial()])
    viewer = await watch(serving).open()
    redis_server.stop()
    assert serving.get("/api/health").json()["following"] is False
    answer = serving.get("/api/runs")
    assert (answer.status, answer.headers["content-type"]) == (503, "application/problem+json")
    redis_server.start()
    await feed.take([a_trial(task_id="task-2")])
    await converged(viewer, feed)


async def test_an_outage_is_logged_once_and_not_at_each_try(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("streamer.web.live.RETRY_SECONDS", 0.0)
    reader = AwayTwiceThenUnreadable()
    following = asyncio.create_task(Hub(cast(AsyncStateReader, reader)).follow())
    await eventually(lambda: reader.tries >= 30, "thirty tries")
    following.cancel()
    said = [record.getMessage() for record in caplog.records if record.name == "streamer.web"]
    assert said == ["Redis is away", "Redis is away", "the summary is of a newer version"]


class AwayTwiceThenUnreadable:
    """A reader that fails ten times, has an update, fails in the same way, and then in another one."""

    def __init__(self) -> None:
        self.tries = 0

    async def updates(self) -> AsyncIterator[StateUpdate]:
        self.tries += 1
        if self.tries == 11:
            yield StateUpdate("r", "run", "", "key", None)
        raise ReaderError("Redis is away" if self.tries <= 20 else "the summary is of a newer version")
