"""Questions to the group's consumer while partitions come and go."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import IllegalStateError

from streamer.worker.transport import Consumer, TopicPartition

PLACE = TopicPartition("trial-events", 3)


async def test_a_partition_that_was_revoked_this_moment_has_no_position() -> None:
    without_assignment = AIOKafkaConsumer(bootstrap_servers="127.0.0.1:1")
    with pytest.raises(IllegalStateError):
        await without_assignment.position(PLACE)
    consumer: Any = Consumer.__new__(Consumer)
    consumer._thread = SimpleNamespace(position=without_assignment.position)
    assert await cast(Consumer, consumer).position(PLACE) is None
    await without_assignment.stop()
