"""The batch transport alone, on real brokers."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from streamer.worker.producer import MAX_POLL_RECORDS, MAX_UNDONE_RECORDS

ROOT = Path(__file__).parents[2]


async def create(bootstrap: str, topic: str) -> None:
    """Create the topic with one partition."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic(topic, 1, 1)])
    await admin.close()


def probe(
    bootstrap: str, topic: str, *, embedded: bool, count: int, seconds: float, raise_after: int = 0
) -> Any:
    """What the probe saw."""
    asyncio.run(create(bootstrap, topic))
    arguments = [bootstrap, topic, str(int(embedded)), str(count), str(seconds), str(raise_after)]
    command = [sys.executable, "-m", "tests.worker.transport_probe", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[0])


def check_first_alone_then_thousands(seen: Any, count: int) -> None:
    """The first record alone, later ones in large batches, all committed, never too many at once."""
    assert seen["sizes"][0] == 1
    assert sum(seen["sizes"]) == count
    assert max(seen["sizes"]) >= 1_000
    assert seen["committed"] == count
    assert seen["peak"] <= MAX_UNDONE_RECORDS + MAX_POLL_RECORDS


def test_the_first_record_travels_alone_then_thousands(embedded_broker: str, namespace: str) -> None:
    seen = probe(embedded_broker, namespace, embedded=True, count=60_000, seconds=0.05)
    check_first_alone_then_thousands(seen, 60_000)


@pytest.mark.kafka
def test_the_first_record_travels_alone_then_thousands_on_kafka(kafka_bootstrap: str, namespace: str) -> None:
    seen = probe(kafka_bootstrap, namespace, embedded=False, count=60_000, seconds=0.05)
    check_first_alone_then_thousands(seen, 60_000)


def test_a_batch_that_raised_is_not_committed(embedded_broker: str, namespace: str) -> None:
    seen = probe(embedded_broker, namespace, embedded=True, count=3_000, seconds=0.0, raise_after=1)
    assert seen["sizes"] == [1]
    assert seen["committed"] == 1
