"""A run is folded again on request: which runs are in quarantine, and who was asked in vain."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from streamer.client.queries import UnknownRun, WorkerStatus
from streamer.operate.health import quarantined, repair
from streamer.settings import Settings
from tests.support.servers import RedisServer


class Reader:
    """Workers as their heartbeats tell."""

    def __init__(self, *workers: WorkerStatus) -> None:
        self._workers = list(workers)

    def workers(self) -> list[WorkerStatus]:
        return self._workers


def a_worker(name: str, minutes_ago: int = 0, **status: Any) -> WorkerStatus:
    return WorkerStatus(name, datetime.now(UTC) - timedelta(minutes=minutes_ago), status)


def test_the_runs_in_quarantine_are_those_of_live_workers() -> None:
    reader: Any = Reader(
        a_worker("one", quarantined={"a": "why"}),
        a_worker("two", quarantined={"b": "because"}),
        a_worker("dead", minutes_ago=60, quarantined={"c": "long ago"}),
        a_worker("of an earlier version"),
    )
    assert quarantined(reader) == {"a": "why", "b": "because"}


def test_nobody_is_asked_to_repair_a_run_that_does_not_exist(redis_server: RedisServer) -> None:
    with pytest.raises(UnknownRun):
        repair(Settings(redis=redis_server.url), "nobody", wait_seconds=0)
