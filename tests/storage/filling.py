"""Topics with record batches of given sizes."""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaProducer
from aiokafka.admin import NewTopic

from streamer.settings import Settings
from streamer.storage.kafka import administering


def fill(settings: Settings, topic: str, batches: list[tuple[int, int]]) -> None:
    """Create a topic of three partitions and send, for each (partition, size), one batch of that size."""
    asyncio.run(create_and_fill(settings, topic, batches))


async def create_and_fill(settings: Settings, topic: str, batches: list[tuple[int, int]]) -> None:
    async with administering(settings) as admin:
        await admin.create_topics([NewTopic(topic, 3, 1)])
    await append(settings, topic, batches)


async def append(settings: Settings, topic: str, batches: list[tuple[int, int]]) -> None:
    """Send further record batches: (partition, size) each."""
    async with AIOKafkaProducer(**settings.kafka_options()) as producer:
        for partition, size in batches:
            batch = producer.create_batch()
            for number in range(size):
                batch.append(key=b"k", value=b"%d" % number, timestamp=1_700_000_000_000 + number)
            await (await producer.send_batch(batch, topic, partition=partition))
