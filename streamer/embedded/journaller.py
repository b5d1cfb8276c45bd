"""Between the broker and the journal: load the journal into a fresh broker, then copy what comes in.

A record is safe from SIGKILL once it is in the journal. Between the broker's acknowledgement and that moment
lie a fetch (FETCH_WAIT_MS when there is little traffic) and the backlog under load. `drain` closes this
window whenever the journaller is told to end before the broker does. It stays open when the journaller or
the broker themselves are killed, or the machine stops.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Any

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from streamer.embedded.errors import EmbeddedError
from streamer.embedded.frames import Entry
from streamer.embedded.journal import Journal
from streamer.settings import Settings
from streamer.sinks.consumer import AIOKafkaConsumer
from streamer.sinks.names import Names

FETCH_WAIT_MS = 10
"""The embedded broker never wakes a fetch: this is how late a record is seen (and how often it is asked)."""

SYNC_SECONDS = 0.1
"""At most this much is lost by a power cut, and the disk is synced at most this often."""

DRAIN_SECONDS = 10.0
MAX_BATCH_BYTES = 512 * 1024
MAX_MESSAGE_BYTES = 4 * 1024 * 1024
FORWARDED = "streamer-forwarded"
"""Header of a copy that a worker made of a misplaced record; the original is in the journal already."""

Positions = dict[int, int]
"""By partition of the event topic: the offset of the first record that is not in the journal."""


async def create_event_topic(settings: Settings) -> None:
    """Create the event topic in a fresh broker, which otherwise makes one of 4 partitions at first use."""
    admin = AIOKafkaAdminClient(**settings.kafka_options())
    await admin.start()
    try:
        await admin.create_topics([NewTopic(Names(settings.namespace).trial_events, settings.partitions, 1)])
    finally:
        await admin.close()


async def replay(settings: Settings, entries: Iterable[Entry]) -> tuple[int, Positions]:
    """Publish the journal's entries into the fresh event topic.

    An entry of a partition beyond the settings' count lies in another one (the worker forwards it). Returns
    how many entries, and where the journaller goes on.
    """
    positions = dict.fromkeys(range(settings.partitions), 0)
    count = 0
    async with _producer(settings) as producer:
        loader = _Loader(producer, Names(settings.namespace).trial_events, positions)
        for count, entry in enumerate(entries, 1):  # noqa: B007  (the count is used after the loop)
            await loader.add(entry)
        await loader.flush()
    return count, positions


async def follow(settings: Settings, journal: Journal, positions: Positions) -> None:
    """Copy records into the journal for ever; `positions` moves along."""
    last_sync = time.monotonic()
    async with _consumer(settings) as consumer:
        _seek(consumer, settings, positions)
        while True:
            _copy(await consumer.getmany(timeout_ms=int(SYNC_SECONDS * 1000)), journal, positions)
            if journal.dirty and time.monotonic() - last_sync >= SYNC_SECONDS:
                await asyncio.to_thread(journal.sync)
                last_sync = time.monotonic()


async def drain(settings: Settings, journal: Journal, positions: Positions) -> None:
    """Copy everything that the broker holds at this moment; EmbeddedError after DRAIN_SECONDS.

    A new consumer, because only its first fetch is surely younger than the call. The ends come from the
    fetches: what this broker answers to ListOffsets stops short of the last batch.
    """
    try:
        async with asyncio.timeout(DRAIN_SECONDS), _consumer(settings) as consumer:
            await _copy_to_the_ends(consumer, settings, journal, positions)
    except TimeoutError:
        raise EmbeddedError(
            f"The broker did not hand over all its events within {DRAIN_SECONDS:g} s at the end: the last "
            "ones may be missing from the journal. Publish them again; repeats do no harm."
        ) from None
    finally:
        journal.sync()


async def _copy_to_the_ends(
    consumer: AIOKafkaConsumer, settings: Settings, journal: Journal, positions: Positions
) -> None:
    ends: Positions = {}
    partitions = _seek(consumer, settings, positions)
    while len(ends) < len(partitions) or any(positions[at] < end for at, end in ends.items()):
        _copy(await consumer.getmany(timeout_ms=FETCH_WAIT_MS), journal, positions)
        for partition in partitions:
            end = consumer.highwater(partition)
            if end is not None:
                ends.setdefault(partition.partition, end)


def _producer(settings: Settings) -> AIOKafkaProducer:
    return AIOKafkaProducer(
        **settings.kafka_options(),
        compression_type=settings.codec,
        max_batch_size=MAX_BATCH_BYTES,
        max_request_size=MAX_MESSAGE_BYTES,
    )


def _consumer(settings: Settings) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        **settings.kafka_options(),
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=FETCH_WAIT_MS,
        max_partition_fetch_bytes=MAX_MESSAGE_BYTES,
    )


def _seek(consumer: AIOKafkaConsumer, settings: Settings, positions: Positions) -> list[TopicPartition]:
    topic = Names(settings.namespace).trial_events
    partitions = [TopicPartition(topic, partition) for partition in positions]
    consumer.assign(partitions)
    for partition in partitions:
        consumer.seek(partition, positions[partition.partition])
    return partitions


def _copy(batches: dict[TopicPartition, list[Any]], journal: Journal, positions: Positions) -> None:
    for place, records in batches.items():
        journal.append(
            Entry(place.partition, record.timestamp, record.key, record.value)
            for record in records
            if not any(name == FORWARDED for name, _ in record.headers)
        )
        positions[place.partition] = records[-1].offset + 1


class _Loader:
    """Publishes entries in record batches; those of one partition in order, several partitions at once."""

    def __init__(self, producer: AIOKafkaProducer, topic: str, positions: Positions) -> None:
        self._producer = producer
        self._topic = topic
        self._positions = positions
        self._open: dict[int, Any] = {}
        self._sent: dict[int, tuple[Any, int]] = {}

    async def add(self, entry: Entry) -> None:
        partition = entry.partition % len(self._positions)
        if not self._append(partition, entry):
            await self._send(partition)
            self._append(partition, entry)  # the first record of a batch always fits

    async def flush(self) -> None:
        """Send what is open and wait for every acknowledgement."""
        for partition in list(self._open):
            await self._send(partition)
        for partition in list(self._sent):
            await self._acknowledged(partition)

    def _append(self, partition: int, entry: Entry) -> bool:
        if partition not in self._open:
            self._open[partition] = self._producer.create_batch()
        timestamp = entry.timestamp_ms if entry.timestamp_ms >= 0 else None
        batch = self._open[partition]
        return batch.append(key=entry.key, value=entry.value, timestamp=timestamp) is not None

    async def _send(self, partition: int) -> None:
        await self._acknowledged(partition)
        batch = self._open.pop(partition)
        future = await self._producer.send_batch(batch, self._topic, partition=partition)
        self._sent[partition] = (future, batch.record_count())

    async def _acknowledged(self, partition: int) -> None:
        """Wait for the last batch of a partition. Its offset counts repeats of a send that was retried."""
        if partition in self._sent:
            future, records = self._sent.pop(partition)
            self._positions[partition] = (await future).offset + records
