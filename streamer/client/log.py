"""Read a topic from its beginning to where it ends now, without a consumer group.

The end of a partition is the last stable offset in the first fetch response: what a transaction may still
abort is not waited for. It is never ListOffsets(latest): the embedded broker answers that with the base
offset of the last record batch plus one, and readers that believe it stop short.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator
from typing import Any, TypeAlias

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from streamer.kafka.broker import telling_refusals
from streamer.kafka.consumer import AIOKafkaConsumer
from streamer.kafka.ends import stable_end
from streamer.kafka.partitioner import partition_of
from streamer.settings import Settings

ConsumerRecord: TypeAlias = Any
"""aiokafka's record: topic, partition, offset, timestamp (Unix ms), key, value (bytes or None), headers."""

FETCH_WAIT_MS = 50
"""How long the broker may hold a fetch that finds nothing; the embedded one always holds it that long."""

PATIENCE_SECONDS = 60.0
"""A partition that gives nothing new for so long cannot be read."""

REQUEST_MS = 15_000
FETCH_BYTES = 4 * 1024 * 1024


class TopicMissing(Exception):
    """There is no such topic."""

    def __init__(self, topic: str, bootstrap: str) -> None:
        super().__init__(
            f"topic {topic!r} does not exist on {bootstrap}. A worker creates the topics when it starts: "
            "start one, or check --bootstrap and --namespace, and that your user may see it"
        )


class TopicUnreadable(Exception):
    """The broker stopped answering before the end of the topic."""

    def __init__(self, topic: str, partitions: list[int]) -> None:
        super().__init__(
            f"topic {topic!r}: nothing came from partitions {partitions} for {PATIENCE_SECONDS:.0f} seconds, "
            "before their end. Look at the broker, then try again"
        )


def read_topic(
    settings: Settings, topic: str, partitions: Collection[int] | None = None, *, run_id: str | None = None
) -> Iterator[ConsumerRecord]:
    """Every record of a topic up to its present end; in offset order within a partition.

    Args:
        settings: where the broker is.
        topic: full name, namespace included (`streamer.kafka.names.Names`).
        partitions: only these; all if None.
        run_id: only the partition that this run lives in.

    Raises:
        TopicMissing: there is no such topic.
        TopicUnreadable: the broker fell silent before the end.
        aiokafka.errors.KafkaError: the broker cannot be reached, or refuses.
    """
    batches = read_batches(settings, topic, partitions, run_id=run_id)

    async def following() -> list[ConsumerRecord]:
        return await anext(batches, [])

    with asyncio.Runner() as runner:
        try:
            while batch := runner.run(following()):
                yield from batch
        finally:
            runner.run(batches.aclose())  # type: ignore[attr-defined]


async def read_batches(
    settings: Settings,
    topic: str,
    partitions: Collection[int] | None = None,
    *,
    run_id: str | None = None,
    start: int = 0,
) -> AsyncIterator[list[ConsumerRecord]]:
    """As :func:`read_topic`, in batches as fetched, none of them empty; `start`: from this offset on."""
    consumer = AIOKafkaConsumer(
        **settings.consumer_options(),
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=FETCH_WAIT_MS,
        max_partition_fetch_bytes=FETCH_BYTES,
        request_timeout_ms=REQUEST_MS,
    )
    try:
        numbers = await partitions_of(settings, topic)
        wanted = numbers if partitions is None else numbers & set(partitions)
        if run_id is not None:
            wanted &= {partition_of(run_id, len(numbers))}
        left = {TopicPartition(topic, number) for number in wanted}
        await consumer.start()
        consumer.assign(list(left))
        for tp in left if start else ():
            consumer.seek(tp, start)
        async for batch in _to_the_end(consumer, topic, left):
            yield batch
    finally:
        await consumer.stop()


async def partitions_of(settings: Settings, topic: str) -> set[int]:
    """Numbers of the partitions of a topic. Asks for all topics: asking for one by name may create it."""
    admin = AIOKafkaAdminClient(**settings.kafka_options(), request_timeout_ms=REQUEST_MS)
    try:
        async with telling_refusals(settings):
            await admin.start()
        topics = {found["topic"]: found["partitions"] for found in await admin.describe_topics()}
    finally:
        await admin.close()
    if topic not in topics:
        raise TopicMissing(topic, settings.bootstrap)
    return {found["partition"] for found in topics[topic]}


async def _to_the_end(
    consumer: AIOKafkaConsumer, topic: str, left: set[TopicPartition]
) -> AsyncIterator[list[ConsumerRecord]]:
    ends: dict[TopicPartition, int] = {}
    clock = asyncio.get_running_loop().time
    heard = clock()
    while left:
        fetched = await consumer.getmany(*left, timeout_ms=FETCH_WAIT_MS)
        ends |= {tp: end for tp in left - ends.keys() if (end := stable_end(consumer, tp)) is not None}
        for tp, records in fetched.items():
            heard = clock()
            if before_end := [record for record in records if record.offset < ends[tp]]:
                yield before_end
        done = {tp for tp in left if tp in ends and await consumer.position(tp) >= ends[tp]}
        if done:
            heard = clock()
            consumer.pause(*done)
            left = left - done
        elif clock() - heard > PATIENCE_SECONDS:
            raise TopicUnreadable(topic, sorted(tp.partition for tp in left))
