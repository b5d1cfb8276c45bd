"""What the Redis of `up` holds about its stack: how far workers are, and what is wrong with the journal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

from streamer.redis.connect import sync_client
from streamer.redis.errors import RedisError
from streamer.redis.keys import Keys
from streamer.settings import Settings

REDIS_SECONDS = 1.0
PROBLEM_MILLISECONDS = 3_000
"""How long a problem stands in Redis; it is written again before."""


def worker_is_up_to(loaded: Mapping[int, int], settings: Settings) -> bool:
    """True once a worker has folded what the journal brought, however much has come since.

    Args:
        loaded: events of the journal, by partition; they are the first ones of its log.
    """
    try:
        with sync_client(settings.redis, {}, REDIS_SECONDS) as client:
            told = client.hvals(Keys(settings.namespace).workers)
    except RedisError:
        return False
    return any(_is_up_to(loaded, json.loads(report)) for report in cast(list[bytes], told))


def tell_problem(settings: Settings, problem: str) -> None:
    """Write a problem for `streamer status`. In Redis, since a disk that is full takes no file."""
    with suppress(RedisError), sync_client(settings.redis, {}, REDIS_SECONDS) as client:
        client.set(Keys(settings.namespace).stack_problem, problem, px=PROBLEM_MILLISECONDS)


def _is_up_to(loaded: Mapping[int, int], report: dict[str, Any]) -> bool:
    """True for the heartbeat of a worker that owns partitions and has folded so many events of each."""
    if not report.get("partitions") or report["catching_up"]:
        return False
    return all(report["folded_to"][str(number)] >= loaded.get(number, 0) for number in report["partitions"])
