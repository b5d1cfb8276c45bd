"""What the Redis of `up` holds about its stack: how far workers are, and what is wrong with the journal."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, cast

from streamer.redis.connect import sync_client
from streamer.redis.errors import RedisError
from streamer.redis.keys import Keys
from streamer.settings import Settings

REDIS_SECONDS = 1.0
PROBLEM_MILLISECONDS = 3_000
"""How long a problem stands in Redis; it is written again before."""


def worker_is_current(settings: Settings) -> bool:
    """True once a worker owns the partitions and has folded what the journal brought."""
    try:
        with sync_client(settings.redis, {}, REDIS_SECONDS) as client:
            told = client.hvals(Keys(settings.namespace).workers)
    except RedisError:
        return False
    return any(_is_current(json.loads(report)) for report in cast(list[bytes], told))


def tell_problem(settings: Settings, problem: str) -> None:
    """Write a problem for `streamer status`. In Redis, since a disk that is full takes no file."""
    with suppress(RedisError), sync_client(settings.redis, {}, REDIS_SECONDS) as client:
        client.set(Keys(settings.namespace).stack_problem, problem, px=PROBLEM_MILLISECONDS)


def _is_current(report: dict[str, Any]) -> bool:
    """True for the heartbeat of a worker that owns partitions and lags behind in none."""
    return bool(report.get("partitions")) and not report["catching_up"] and not any(report["lag"].values())
