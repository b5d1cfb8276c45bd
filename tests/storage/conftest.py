"""Either broker; a client to look at Redis with, and writers that are closed at the end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from redis import Redis

from streamer.settings import Settings
from streamer.storage.redis import RedisSink
from tests.storage.owner import KEYS, MakeSink, Worker
from tests.support.layers import ENGINES
from tests.support.servers import RedisServer


@pytest.fixture(params=ENGINES)
def settings(request: pytest.FixtureRequest) -> Settings:
    fixture = "embedded_broker" if request.param == "embedded" else "kafka_bootstrap"
    return Settings(bootstrap=request.getfixturevalue(fixture), embedded=request.param == "embedded")


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator[Redis]:
    """What a user sees: text, RESP2."""
    with Redis.from_url(redis_server.url, decode_responses=True, protocol=2) as client:
        yield client


@pytest.fixture
async def make_sink(redis_server: RedisServer) -> AsyncIterator[MakeSink]:
    sinks: list[RedisSink] = []

    def make(**arguments: Any) -> RedisSink:
        settings = {"keys": KEYS, "timeout_seconds": 2.0, **arguments}
        sinks.append(RedisSink(redis_server.url, **settings))
        return sinks[-1]

    yield make
    for sink in sinks:
        await sink.close()


@pytest.fixture
def sink(make_sink: MakeSink) -> RedisSink:
    return make_sink()


@pytest.fixture
def worker(make_sink: MakeSink) -> Worker:
    return Worker(make_sink)
