"""A run in Redis and in the log, as a worker would have written it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from streamer.settings import Settings
from streamer.web.report import RunData
from tests.support.servers import RedisServer
from tests.web.feeding import Feed
from tests.web.report.reporting import DATA


@pytest.fixture
def settings(redis_server: RedisServer, embedded_broker: str, namespace: str) -> Settings:
    return Settings(
        redis=redis_server.url, namespace=namespace, bootstrap=embedded_broker, embedded=True, partitions=2
    )


@pytest.fixture
async def feed(settings: Settings) -> AsyncIterator[Feed]:
    async with Feed(settings, log=True) as feed:
        yield feed


@pytest.fixture
def environment(settings: Settings) -> dict[str, str]:
    return {
        "STREAMER_REDIS": settings.redis,
        "STREAMER_BOOTSTRAP": settings.bootstrap,
        "STREAMER_NAMESPACE": settings.namespace,
        "STREAMER_EMBEDDED": "true",
    }


@pytest.fixture(params=DATA)
def data(request: pytest.FixtureRequest) -> RunData:
    return DATA[request.param]()
