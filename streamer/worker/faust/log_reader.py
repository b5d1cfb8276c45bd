"""Reading a part of a topic again, beside the consumer of the group."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import aiokafka

from streamer.kafka.consumer import AIOKafkaConsumer
from streamer.settings import Settings
from streamer.worker.faust.topic_partition import TopicPartition
from streamer.worker.limits import MAX_MESSAGE_BYTES

WAIT_MS = 200


async def records_between(
    settings: Settings, place: TopicPartition, start: int | None, stop: int
) -> AsyncGenerator[list[Any]]:
    """Batches of aiokafka's ConsumerRecords with `start` <= offset < `stop`; `start` None: the first one.

    Raises:
        aiokafka.errors.KafkaError: the broker is away, or refuses.
    """
    consumer = AIOKafkaConsumer(
        **settings.consumer_options(),
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=MAX_MESSAGE_BYTES,
    )
    await consumer.start()
    try:
        plain = aiokafka.TopicPartition(*place)
        consumer.assign([plain])
        if start is not None:
            consumer.seek(plain, start)
        while await consumer.position(plain) < stop:
            found = (await consumer.getmany(timeout_ms=WAIT_MS)).get(plain, [])
            yield [record for record in found if record.offset < stop]
    finally:
        await consumer.stop()
