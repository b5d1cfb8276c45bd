"""Publishers of events to `trial-events`, which know what arrived; and an event loop in a thread.

`Publisher` is for asyncio code, `ThreadedPublisher` for everything else. Its loop runs in a thread of its
own, so the caller may block (on a pipe, on a harness) without holding up events on their way.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from streamer.schemas.wire import canonical_json
from streamer.settings import Settings
from streamer.storage.kafka import (
    MAX_MESSAGE_BYTES,
    TOO_LARGE,
    KafkaConnectionError,
    KafkaError,
    KafkaProducer,
    Names,
    TopicMissing,
    partition_of_key,
    producer,
    said_of,
    telling_refusals,
)

# -----------------------------------------------------------------------------
# An event loop in a thread of its own, for code that blocks or has a loop that must not be held up.


T = TypeVar("T")
JOIN_SECONDS = 1.0

LOGGERS = (
    "aiokafka",
    "aiokafka.cluster",
    "aiokafka.conn",
    "aiokafka.producer.producer",
    "aiokafka.producer.sender",
)
"""The loggers that a producer writes to; a filter does not reach the loggers below its own."""

_quiet: set[int] = set()


class LoopThread:
    """A running loop; a daemon, so that it never keeps the process from ending."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run it there; from any thread but its own."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def stop(self) -> None:
        """End the loop when everything in it has ended; waits a second for that at most."""
        self.submit(self._stop())
        self._thread.join(JOIN_SECONDS)

    async def _stop(self) -> None:
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others)
        await asyncio.sleep(0)  # a connection that was closed just now lets go of its socket
        self.loop.stop()

    def _run(self) -> None:
        with _quiet_thread():
            self.loop.run_forever()
            self.loop.close()


@contextmanager
def _quiet_thread() -> Iterator[None]:
    """Nothing is heard of aiokafka from this thread meanwhile: it must not write on the caller's terminal.

    It logs every failed attempt, dozens a second while the broker is away. The logger `streamer.client`
    reports once what matters of it; set that to DEBUG to see all of it.
    """
    for name in LOGGERS:
        logging.getLogger(name).addFilter(_is_heard)
    _quiet.add(threading.get_ident())
    try:
        yield
    finally:
        _quiet.discard(threading.get_ident())


def _is_heard(record: logging.LogRecord) -> bool:
    return record.thread not in _quiet or logging.getLogger("streamer.client").isEnabledFor(logging.DEBUG)


# -----------------------------------------------------------------------------
# Publish events to the topic `trial-events`, each into the partition of its run, and know that they arrived.


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
            f"{said_of(first)}. Publish the same events again: duplicates do not count"
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

    async def __aexit__(self, _: object, error: BaseException | None, *__: object) -> None:
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

    def __exit__(self, _: object, error: BaseException | None, *__: object) -> None:
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


# -----------------------------------------------------------------------------
# One connection to the broker that says of a batch whether it arrived, and can be dropped at any moment.


STOP_SECONDS = 3.0


class BrokerConnection(Publisher):
    """A publisher that says of each batch whether it arrived.

    Attributes:
        broken: a batch did not arrive; later ones may, but see `Delivery`.
    """

    broken = False
    _starting: asyncio.Task[None]
    _dropping: asyncio.Task[None]

    async def start(self) -> None:
        """As Publisher.start; from here on metadata are asked for all topics: see `_count_partitions`."""
        await super().start()
        await self._producer.client.force_metadata_update()

    async def connect(self) -> None:
        """Start. A cancelled caller goes its way, and the start comes to its own end: it holds a socket."""
        self._starting = asyncio.create_task(self.start())
        await asyncio.shield(self._starting)

    async def deliver(self, records: Sequence[Outgoing], patience_seconds: float) -> Exception | None:
        """Send these; None when all are acknowledged, else the first thing that went wrong.

        Some may have arrived nevertheless, or arrive later.
        """
        error = await self._deliver(records, patience_seconds)
        self.broken = self.broken or not (error is None or too_large(error))
        return error

    async def _deliver(self, records: Sequence[Outgoing], patience_seconds: float) -> Exception | None:
        acks: list[asyncio.Future[Any]] = []
        try:
            async with asyncio.timeout(patience_seconds):
                for record in records:
                    acks.append(await self._hand_over(record))
                await asyncio.wait(acks)
        except TimeoutError:
            return TimeoutError(f"no acknowledgement within {patience_seconds:g} s")
        except Exception as error:  # whatever it is, the events are not there
            return error
        finally:
            for ack in acks:
                ack.add_done_callback(_heard)
        failures = (ack.exception() for ack in acks)
        return next((failure for failure in failures if isinstance(failure, Exception)), None)

    async def drop(self) -> None:
        """Disconnect without waiting for what is on its way; a start that hangs is dropped when it ends."""
        self._dropping = asyncio.create_task(self._drop())
        if self._starting.done():
            await asyncio.shield(self._dropping)

    async def _drop(self) -> None:
        await asyncio.wait([self._starting])
        if self._starting.cancelled() or self._starting.exception():
            return  # which has cleaned up
        with suppress(Exception):
            async with asyncio.timeout(STOP_SECONDS):
                accumulator = self._producer._message_accumulator
                accumulator.fail_all(KafkaConnectionError("dropped"))
                await self._producer.client.close()
                await self._producer.stop()


def too_large(error: Exception | None) -> bool:
    """Whether the broker refuses the batch for its size: no connection will change that."""
    return isinstance(error, TOO_LARGE)


def _heard(ack: asyncio.Future[Any]) -> None:
    """Nobody awaits this result: retrieve its exception to silence asyncio."""
    if not ack.cancelled():
        ack.exception()
