"""Read a topic from its beginning to where it ends now, without a consumer group."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterator

from streamer.kafka.partitioner import partition_of
from streamer.kafka.partitions import partitions_of
from streamer.kafka.reader import LogRecord, PartitionId, PartitionReader
from streamer.settings import Settings


def read_topic(
    settings: Settings, topic: str, partitions: Collection[int] | None = None, *, run_id: str | None = None
) -> Iterator[LogRecord]:
    """Every record of a topic up to its present end; in offset order within a partition.

    Args:
        settings: where the broker is.
        topic: full name, namespace included (`streamer.kafka.names.Names`).
        partitions: only these; all if None.
        run_id: only the partition that this run lives in.

    Raises:
        TopicMissing: there is no such topic.
        TopicUnreadable: the broker fell silent before the end.
        KafkaError: the broker cannot be reached, or refuses.
    """
    batches = read_batches(settings, topic, partitions, run_id=run_id)

    async def following() -> list[LogRecord]:
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
) -> AsyncIterator[list[LogRecord]]:
    """As :func:`read_topic`, in batches as fetched, none of them empty.

    Args:
        partitions: only these; all if None.
        start: from this offset on.
    """
    numbers = await partitions_of(settings, topic)
    wanted = numbers if partitions is None else numbers & set(partitions)
    if run_id is not None:
        wanted &= {partition_of(run_id, len(numbers))}
    places = [(topic, number) for number in wanted]
    async with PartitionReader(settings, places) as reader:
        ends = await reader.ends()
        async for batch in reader.read(dict.fromkeys(places, start) if start else {}, ends):
            yield batch


async def read_partition(settings: Settings, place: PartitionId) -> list[LogRecord]:
    """All records of one partition that exists, up to its present end; for small topics."""
    async with PartitionReader(settings, [place]) as reader:
        ends = await reader.ends()
        return [record async for batch in reader.read({}, ends) for record in batch]


async def records_between(
    settings: Settings, place: PartitionId, start: int | None, stop: int
) -> AsyncGenerator[list[LogRecord]]:
    """Batches of the records with `start` <= offset < `stop`; `start` None: the first one.

    Waits for a broker that is away, however long.

    Raises:
        KafkaError: the broker refuses.
    """
    async with PartitionReader(settings, [place]) as reader:
        begin = {} if start is None else {place: start}
        async for batch in reader.read(begin, {place: stop}, patience_seconds=None):
            yield batch


async def beginning_of(settings: Settings, topic: str, run_id: str) -> int:
    """Offset of the first record that is still there, in the partition that a run lives in.

    Raises:
        TopicMissing: there is no such topic.
        KafkaError: the broker cannot be reached, or refuses.
    """
    beginnings = await beginnings_of(settings, topic)
    return beginnings[partition_of(run_id, len(beginnings))]


async def beginnings_of(settings: Settings, topic: str) -> dict[int, int]:
    """Offset of the first record that is still there, by partition; raises as :func:`beginning_of`."""
    places = [(topic, number) for number in sorted(await partitions_of(settings, topic))]
    async with PartitionReader(settings, places) as reader:
        return {number: offset for (_, number), offset in (await reader.beginnings()).items()}


async def ends_of(settings: Settings, places: Collection[PartitionId]) -> dict[PartitionId, int]:
    """Where partitions end now; see :meth:`PartitionReader.ends`."""
    if not places:
        return {}
    async with PartitionReader(settings, places) as reader:
        return await reader.ends()
