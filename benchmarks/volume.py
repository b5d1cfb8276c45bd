"""What a backlog writes to Kafka, after compression and before compaction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import redis

from benchmarks.common import Scale, events
from benchmarks.machine import WORKERS
from benchmarks.rows import Measured, Row, Sites
from benchmarks.site import Deployment, ready_at

TIMES_THE_EVENTS = 2.0


def volume(scale: Scale, sites: Sites) -> Measured:
    """Row: bytes in all topics except the events' own, for each byte of an event."""
    with Deployment(sites["kafka"]) as deployment:
        deployment.keep_all_that_is_written()
        size = 0

        def counted() -> Iterator[bytes]:
            nonlocal size
            for line in events(scale.backlog):
                size += len(line)
                yield line

        expected = deployment.load(counted())
        before = _redis_bytes(deployment)
        worker = deployment.worker(WORKERS)
        try:
            ready_at(worker)
            deployment.wait_until_current(expected, worker)
            by_topic, in_redis = deployment.written_by_topic(), _redis_bytes(deployment) - before
        finally:
            worker.kill()
    times = sum(by_topic.values()) / size
    what = f"bytes written to Kafka for each of an event, backlog of {scale.backlog:,}"
    details = {
        "times": times,
        "event_bytes": size / scale.backlog,
        "by_topic": {topic: taken / size for topic, taken in by_topic.items()},
        "redis_bytes_a_run": in_redis / len(expected),
    }
    return Measured([Row(what, [times], "x", "<=", TIMES_THE_EVENTS)], details)


def _redis_bytes(deployment: Deployment) -> int:
    with redis.Redis.from_url(deployment.site.redis_url) as client:
        return int(cast(dict[str, int], client.info("memory"))["used_memory"])
