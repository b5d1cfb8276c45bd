"""A Redis, a broker and a feed for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from streamer.settings import Settings
from tests.support.servers import RedisServer
from tests.web.feeding import PARTITIONS, Feed


@pytest.fixture
def settings(redis_server: RedisServer, namespace: str) -> Settings:
    """A Redis of the test's own; no broker answers."""
    return Settings(redis=redis_server.url, namespace=namespace, bootstrap="127.0.0.1:1")


@pytest.fixture
def logged(settings: Settings, embedded_broker: str) -> Settings:
    broker = {"bootstrap": embedded_broker, "embedded": True, "partitions": PARTITIONS}
    return settings.model_copy(update=broker)


@pytest.fixture
async def feed(settings: Settings) -> AsyncIterator[Feed]:
    async with Feed(settings) as feed:
        yield feed


@pytest.fixture
async def feed_of_both(logged: Settings) -> AsyncIterator[Feed]:
    async with Feed(logged, log=True) as feed:
        yield feed
