"""A broker, a Redis and (if wanted) a worker, with the settings that find them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from streamer.settings import Settings
from streamer.worker.process import ensure_topics
from tests.support.servers import RedisServer
from tests.support.worker_process import WorkerProcess

PARTITIONS = 3


@dataclass
class Online:
    """A deployment of a namespace of its own; `worker` is not running unless asked for."""

    settings: Settings
    redis: RedisServer
    worker: WorkerProcess

    @property
    def environment(self) -> dict[str, str]:
        """STREAMER_* variables for a command line."""
        return {
            "STREAMER_BOOTSTRAP": self.settings.bootstrap,
            "STREAMER_REDIS": self.settings.redis,
            "STREAMER_NAMESPACE": self.settings.namespace,
            "STREAMER_EMBEDDED": str(self.settings.embedded),
        }


def bootstrap_of(request: pytest.FixtureRequest, engine: str) -> str:
    """Address of the engine's broker, shared by the session."""
    return str(request.getfixturevalue("embedded_broker" if engine == "embedded" else "kafka_bootstrap"))


@contextmanager
def online(directory: Path, bootstrap: str, engine: str, *, worker: bool) -> Iterator[Online]:
    """Topics, an empty Redis, and a running worker if wanted; all of it ends with the block."""
    redis = RedisServer(directory)
    redis.start()
    given = {
        "bootstrap": bootstrap,
        "redis": redis.url,
        "namespace": f"t{uuid.uuid4().hex[:12]}",
        "embedded": engine == "embedded",
        "partitions": PARTITIONS,
        "session_timeout_seconds": 6,
    }
    settings = Settings.model_validate(given)
    asyncio.run(ensure_topics(settings))
    process = WorkerProcess(directory, given)
    try:
        with process:
            if worker:
                process.start()
            yield Online(settings, redis, process)
    finally:
        redis.stop()
