"""Either broker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from redis import Redis

from streamer.settings import Settings
from streamer.storage.entries import Keys
from streamer.storage.redis import RedisSink
from tests.support.layers import ENGINES
from tests.support.servers import RedisServer


@pytest.fixture(params=ENGINES)
def settings(request: pytest.FixtureRequest) -> Settings:
    fixture = "embedded_broker" if request.param == "embedded" else "kafka_bootstrap"
    return Settings(bootstrap=request.getfixturevalue(fixture), embedded=request.param == "embedded")


# -----------------------------------------------------------------------------
# A client to look at Redis with, and writers that are closed at the end.


MakeSink = Callable[..., RedisSink]


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator[Redis]:
    """What a user sees: text, RESP2."""
    with Redis.from_url(redis_server.url, decode_responses=True, protocol=2) as client:
        yield client


@pytest.fixture
async def make_sink(redis_server: RedisServer) -> AsyncIterator[MakeSink]:
    """Make a sink on the test's Redis; arguments as RedisSink's."""
    sinks: list[RedisSink] = []

    def make(**arguments: Any) -> RedisSink:
        settings = {"keys": Keys(), "timeout_seconds": 2.0, **arguments}
        sinks.append(RedisSink(redis_server.url, **settings))
        return sinks[-1]

    yield make
    for sink in sinks:
        await sink.close()


@pytest.fixture
def sink(make_sink: MakeSink) -> RedisSink:
    return make_sink()
