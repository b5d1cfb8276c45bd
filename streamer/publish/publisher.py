"""Publish events to the topic `trial-events`, each into the partition of its run, and know that they arrived.

`Publisher` is for asyncio code, `ThreadedPublisher` for everything else. Its loop runs in a thread of its
own, so the caller may block (on a pipe, on a harness) without holding up events on their way.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from streamer.kafka.broker import telling_refusals
from streamer.kafka.clients import KafkaProducer, producer
from streamer.kafka.constants import MAX_MESSAGE_BYTES
from streamer.kafka.errors import KafkaError, TopicMissing
from streamer.kafka.names import Names
from streamer.kafka.partitioner import partition_of_key
from streamer.publish.loop_thread import LoopThread
from streamer.schemas.canonical import canonical_json
from streamer.settings import Settings

LINGER_MS = 5
"""How long a record waits for company, so that a stream of them travels in batches."""

BATCH_BYTES = 512 * 1024
DELIVERY_MS = 30_000
"""After this long without an acknowledgement, retries included, a record counts as not delivered."""

GIVE_UP_SECONDS = 3.0

MAX_IN_FLIGHT = 10_000
"""Records handed over and not acknowledged, at most: about 5 MB of events."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One record for the event topic: `key` is the run id in UTF-8, None if the record names no run."""

    key: bytes | None
    value: bytes


class NotDelivered(Exception):
    """The broker did not acknowledge some records."""

    def __init__(self, failed: int, acknowledged: int, bootstrap: str, first: Exception) -> None:
        super().__init__(
            f"{failed:,} events were not acknowledged by the broker at {bootstrap} ({acknowledged:,} were): "
            f"{first or type(first).__name__}. Publish the same events again: duplicates do not count"
        )


def outgoing(event: Mapping[str, Any]) -> Outgoing:
    """The record of an event.

    >>> outgoing({"type": "run_finished", "run_id": "r"})
    Outgoing(key=b'r', value=b'{"run_id":"r","type":"run_finished"}')
    """
    return Outgoing(str(event["run_id"]).encode(), canonical_json(event))


class Publisher:
    """Publishes from asyncio code; use it as an async context manager, or start and stop it.

    Attributes:
        acknowledged: records that all replicas have.
    """

    def __init__(self, settings: Settings) -> None:
        self.acknowledged = 0
        self._settings = settings
        self._topic = Names(settings.namespace).trial_events
        self._partitions = 0
        self._failed = 0
        self._first_failure: Exception | None = None
        self._in_flight: set[asyncio.Future[Any]] = set()
        self._producer: KafkaProducer = None

    async def start(self) -> None:
        """Connect.

        Raises:
            TopicMissing: the event topic does not exist.
            BrokerRefuses: wrong credentials, or a certificate that is not trusted.
            KafkaError: the broker cannot be reached, or refuses otherwise.
        """
        self._producer = producer(
            self._settings,
            compression_type=self._settings.codec,
            linger_ms=LINGER_MS,
            max_batch_size=BATCH_BYTES,
            max_request_size=MAX_MESSAGE_BYTES,
            request_timeout_ms=DELIVERY_MS,
        )
        try:
            async with telling_refusals(self._settings):
                await self._producer.start()
            self._partitions = await self._count_partitions()
        except BaseException:
            await self._producer.stop()
            raise

    async def send(self, record: Outgoing) -> None:
        """Hand over a record; waits only while too many are on their way. `flush` tells what arrived."""
        while len(self._in_flight) >= MAX_IN_FLIGHT:
            await asyncio.wait(self._in_flight, return_when=asyncio.FIRST_COMPLETED)
        try:
            future = await self._hand_over(record)
        except KafkaError as error:  # too large for the broker, or no room for 30 s
            self._note_failure(error)
            return
        self._in_flight.add(future)
        future.add_done_callback(self._done)

    async def flush(self) -> None:
        """Wait until every record handed over is acknowledged.

        Raises:
            NotDelivered: some were not, since the last flush.
        """
        while self._in_flight:
            await asyncio.wait(self._in_flight)
        failed, first = self._failed, self._first_failure
        self._failed, self._first_failure = 0, None
        if first is not None:
            raise NotDelivered(failed, self.acknowledged, self._settings.bootstrap, first)

    async def stop(self) -> None:
        """Disconnect; what is still on its way gets its time."""
        await self._producer.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                await self.flush()
        finally:
            await self.stop()

    async def _hand_over(self, record: Outgoing) -> asyncio.Future[Any]:
        """Hand a record to aiokafka, for the partition of its run; the future is its acknowledgement."""
        place = partition_of_key(record.key or record.value, self._partitions)
        ack: asyncio.Future[Any] = await self._producer.send(
            self._topic, key=record.key, value=record.value, partition=place
        )
        return ack

    async def _count_partitions(self) -> int:
        """Asks for all topics: asking for one by name may create it, with another partition count."""
        cluster = await self._producer.client.fetch_all_metadata()
        partitions = cluster.partitions_for_topic(self._topic)
        if not partitions:
            raise TopicMissing(self._topic, self._settings.bootstrap)
        return len(partitions)

    def _done(self, future: asyncio.Future[Any]) -> None:
        self._in_flight.discard(future)
        error = asyncio.CancelledError() if future.cancelled() else future.exception()
        if error is None:
            self.acknowledged += 1
        else:
            self._note_failure(error)

    def _note_failure(self, error: BaseException) -> None:
        self._failed += 1
        if self._first_failure is None:
            self._first_failure = error if isinstance(error, Exception) else KafkaError("cancelled")


class ThreadedPublisher:
    """Publishes from blocking code; use it as a context manager, which flushes at its end."""

    def __init__(self, settings: Settings) -> None:
        self._publisher = Publisher(settings)
        self._waiting: deque[Outgoing] = deque()
        self._room = threading.BoundedSemaphore(MAX_IN_FLIGHT)
        self._draining = asyncio.Lock()

    @property
    def acknowledged(self) -> int:
        """Records that all replicas have."""
        return self._publisher.acknowledged

    def send(self, record: Outgoing) -> None:
        """Hand over a record; blocks only while too many are waiting. `flush` tells what arrived."""
        self._room.acquire()
        self._waiting.append(record)
        if len(self._waiting) == 1:  # nobody else wakes the loop
            self._thread.submit(self._drain())

    def flush(self) -> None:
        """Wait until every record handed over is acknowledged.

        Raises:
            NotDelivered: some were not, since the last flush.
        """
        self._thread.submit(self._flush()).result()

    def __enter__(self) -> Self:
        self._thread = LoopThread("publisher")
        try:
            self._thread.submit(self._publisher.start()).result()
        except BaseException:
            self._thread.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """On the way out of an error what is still on its way gets little time: the user waits."""
        try:
            if error is None:
                self.flush()
        finally:
            with suppress(TimeoutError):
                self._thread.submit(self._publisher.stop()).result(GIVE_UP_SECONDS)
                self._thread.stop()

    async def _drain(self) -> None:
        """Send what waits, in order. A record leaves the queue when it is sent: see `send`."""
        async with self._draining:
            while self._waiting:
                await self._publisher.send(self._waiting[0])
                self._waiting.popleft()
                self._room.release()

    async def _flush(self) -> None:
        await self._drain()
        await self._publisher.flush()
