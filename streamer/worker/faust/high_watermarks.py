"""Where partitions end, on a broker whose ListOffsets stops short.

The embedded broker answers ListOffsets(latest) with the base offset of the last record batch plus one. The
high watermark in its fetch responses is right.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from aiokafka import TopicPartition

from streamer.kafka.consumer import AIOKafkaConsumer
from streamer.settings import Settings
from streamer.worker.limits import EMBEDDED_FETCH_WAIT_MS, MAX_MESSAGE_BYTES

DEADLINE_SECONDS = 60.0


async def high_watermarks(settings: Settings, reported: Mapping[Any, int]) -> dict[Any, int]:
    """The offset after the last record of each partition, from one fetch at each reported end.

    Args:
        reported: what ListOffsets answered; None where it answered nothing.

    Raises:
        TimeoutError: the broker did not answer the fetches within a minute.
    """
    wanted = {TopicPartition(tp.topic, tp.partition): tp for tp, end in reported.items() if end is not None}
    if not wanted:
        return dict(reported)
    consumer = AIOKafkaConsumer(
        **settings.consumer_options(),
        group_id=None,
        enable_auto_commit=False,
        fetch_max_wait_ms=EMBEDDED_FETCH_WAIT_MS,
        max_partition_fetch_bytes=MAX_MESSAGE_BYTES,
    )
    await consumer.start()
    try:
        consumer.assign(list(wanted))
        for plain, tp in wanted.items():
            consumer.seek(plain, reported[tp])
        async with asyncio.timeout(DEADLINE_SECONDS):
            ends = await _high_watermarks(consumer, list(wanted))
    finally:
        await consumer.stop()
    return {**reported, **{wanted[plain]: end for plain, end in ends.items()}}


async def _high_watermarks(consumer: AIOKafkaConsumer, partitions: list[TopicPartition]) -> dict[Any, int]:
    ends: dict[Any, int] = {}
    while len(ends) < len(partitions):
        await consumer.getmany(timeout_ms=EMBEDDED_FETCH_WAIT_MS)
        ends.update({tp: end for tp in partitions if (end := consumer.highwater(tp)) is not None})
    return ends
