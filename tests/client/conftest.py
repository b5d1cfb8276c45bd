"""Readers of a Redis, and a worker in small that writes to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from streamer.client import AsyncStateReader, StateReader
from streamer.settings import Settings
from streamer.storage.redis import RedisSink
from tests.client.following import Worker
from tests.support.servers import RedisServer


@pytest.fixture
def settings(redis_server: RedisServer) -> Settings:
    return Settings(redis=redis_server.url, namespace="team")


@pytest.fixture
async def reader(settings: Settings) -> AsyncIterator[AsyncStateReader]:
    async with AsyncStateReader(settings) as reader:
        yield reader


@pytest.fixture
async def worker(settings: Settings) -> AsyncIterator[Worker]:
    worker = Worker(settings)
    yield worker
    await worker.sink.close()


@pytest.fixture
def hung_redis(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path)
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def sink(settings: Settings) -> AsyncIterator[RedisSink]:
    sink = RedisSink.from_settings(settings)
    yield sink
    await sink.close()


@pytest.fixture
def plain(settings: Settings) -> Iterator[StateReader]:
    with StateReader(settings) as plain:
        yield plain
