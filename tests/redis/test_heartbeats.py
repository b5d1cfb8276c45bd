"""Heartbeats of workers in Redis."""

from __future__ import annotations

from datetime import UTC, datetime

import redis

from tests.redis.conftest import MakeSink
from tests.redis.owner import KEYS


async def test_heartbeats_of_workers_killed_long_ago_are_forgotten(
    make_sink: MakeSink, client: redis.Redis
) -> None:
    sink = make_sink()
    for worker, day in [("dead", 1), ("stale", 2), ("alive", 3)]:
        await sink.heartbeat(worker, {}, at=datetime(2026, 1, day, 1, tzinfo=UTC))
    assert client.hkeys(KEYS.workers) == ["stale", "alive"]


async def test_a_heartbeat_that_finds_redis_emptied_does_not_stand_and_the_next_one_does(
    make_sink: MakeSink, client: redis.Redis
) -> None:
    sink, at = make_sink(), datetime(2026, 1, 1, tzinfo=UTC)
    await sink.heartbeat("w", {}, at=at)
    client.flushall()
    await sink.heartbeat("w", {}, at=at)
    assert client.hkeys(KEYS.workers) == []
    await sink.heartbeat("w", {}, at=at)
    assert client.hkeys(KEYS.workers) == ["w"]
