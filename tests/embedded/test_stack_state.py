"""What `up` reads from its Redis, and writes there."""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis

from streamer.operate.local import tell_problem, worker_is_up_to
from streamer.operate.local.processes import free_port
from streamer.settings import Settings
from streamer.storage.entries import Keys
from tests.support.servers import RedisServer

KEYS = Keys("team")
LOADED = {0: 40, 1: 7}
CURRENT: dict[str, Any] = {"partitions": [0, 1], "catching_up": [], "folded_to": {"0": 40, "1": 7}}
GOES_ON = CURRENT | {"folded_to": {"0": 90, "1": 8}, "lag": {"0": 20, "1": 1}}
BEHIND = CURRENT | {"folded_to": {"0": 90, "1": 6}}


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        ([], False),
        ([CURRENT], True),
        ([CURRENT | {"partitions": []}], False),
        ([CURRENT | {"catching_up": [1]}], False),
        ([BEHIND], False),
        ([BEHIND, CURRENT], True),
        ([GOES_ON], True),
    ],
    ids=["no worker", "current", "without partitions", "catching up", "behind", "one of two", "events go on"],
)
def test_it_is_seen_that_a_worker_has_folded_what_the_journal_brought(
    redis_server: RedisServer, reports: list[dict[str, Any]], expected: bool
) -> None:
    with redis.Redis.from_url(redis_server.url) as client:
        for number, report in enumerate(reports):
            client.hset(KEYS.workers, str(number), json.dumps(report))
    assert worker_is_up_to(LOADED, Settings(redis=redis_server.url, namespace="team")) is expected


def test_a_problem_stands_for_some_seconds(redis_server: RedisServer) -> None:
    tell_problem(Settings(redis=redis_server.url, namespace="team"), "The disk is full.")
    with redis.Redis.from_url(redis_server.url) as client:
        assert client.get(KEYS.stack_problem) == b"The disk is full."
        assert 0 < int(client.pttl(KEYS.stack_problem)) <= 3_000


def test_without_redis_no_worker_is_seen_and_nothing_is_raised() -> None:
    settings = Settings(redis=f"redis://127.0.0.1:{free_port()}/0")
    assert not worker_is_up_to({}, settings)
    tell_problem(settings, "The disk is full.")
