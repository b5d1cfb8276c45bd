"""The outbox, through which everything goes to Kafka: each record is known to be stored or not.

`Outbox` writes to any topic and `EventOutbox` writes events, both for asyncio code. `ThreadedPublisher` is
for blocking code, with its loop in a separate thread.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain, takewhile
from typing import Any, NamedTuple, Self, TypeAlias, TypeVar

from aiokafka import AIOKafkaProducer
from aiokafka.errors import InvalidTimestampError, MessageSizeTooLargeError, RecordListTooLargeError

from streamer.schemas.base import canonical_json
from streamer.schemas.events import AnyEvent
from streamer.schemas.wire import NO_TIMESTAMP, Reason
from streamer.settings import Settings
from streamer.storage.kafka import (
    MAX_MESSAGE_BYTES,
    REFUSED_FOR_GOOD,
    WRONG_CLOCK,
    KafkaConnectionError,
    KafkaError,
    Names,
    TopicMissing,
    partition_of_key,
    said_of,
    telling_refusals,
)
from streamer.text import counted

# -----------------------------------------------------------------------------
# An event loop in a separate thread, for blocking code, or code with a loop that must not be delayed.


T = TypeVar("T")
JOIN_SECONDS = 1.0
LOGGERS = (
    "aiokafka",
    *(f"aiokafka.{name}" for name in ("cluster", "conn", "producer.producer", "producer.sender")),
)
"""The loggers of a producer; a filter on one does not affect its children."""

_quiet: set[int] = set()


class LoopThread:
    """An event loop in a daemon thread, which never keeps the process from ending."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def stop(self) -> None:
        """End the loop when its work is done, or after one second."""
        self.submit(self._stop())
        self._thread.join(JOIN_SECONDS)

    async def _stop(self) -> None:
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others)
        await asyncio.sleep(0)  # a connection that was just closed releases its socket
        self.loop.stop()

    def _run(self) -> None:
        with _quiet_thread():
            self.loop.run_forever()
            self.loop.close()


@contextmanager
def _quiet_thread() -> Iterator[None]:
    """Silence aiokafka in this thread, so that it does not write to the caller's terminal.

    It logs every failed attempt, dozens a second while the broker is away. The logger `streamer.client`
    reports a problem once, and everything at level DEBUG.
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
# Records on their way to Kafka, and the outcome of each.


log = logging.getLogger(__name__)

BATCH_BYTES = 512 * 1024

MAX_RECORD_BYTES = MAX_MESSAGE_BYTES - 16 * 1024
"""Largest key and value together, before compression, which leaves room for the record batch around them."""

DELIVERY_SECONDS = 30.0
"""Time after which an unacknowledged record batch is given up; but see `Outbox`."""

STOP_SECONDS = 3.0
MAX_IN_FLIGHT = 10_000
"""The most records on their way at once: about 5 MB of events."""

_TOO_LARGE = (MessageSizeTooLargeError, RecordListTooLargeError)
NO_HEADERS: list[tuple[str, bytes]] = []
"""Headers of most records; aiokafka requires a list."""


class ProducerRecord(NamedTuple):
    """One record to write. `value` None is a tombstone, `timestamp_ms` None is now."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None = None
    headers: list[tuple[str, bytes]] = NO_HEADERS

    @property
    def size(self) -> int:
        return len(self.key or b"") + len(self.value or b"")


@dataclass(frozen=True, slots=True)
class NotStored:
    """A record without an acknowledgement. Unless refused, it may be stored, now or later."""

    error: Exception

    @property
    def too_large(self) -> bool:
        return isinstance(self.error, _TOO_LARGE)

    @property
    def refused(self) -> bool:
        """Whether the broker refuses the record however often it is sent."""
        return isinstance(self.error, (*_TOO_LARGE, *REFUSED_FOR_GOOD))


Result: TypeAlias = int | NotStored
"""The offset of a stored record, or why it may not be stored."""


def missing(results: Iterable[Result]) -> list[NotStored]:
    return [result for result in results if isinstance(result, NotStored)]


@dataclass(slots=True)
class _Lane:
    topic: str
    partition: int
    records: Sequence[ProducerRecord]
    results: list[Result]
    due: list[int]
    most: int = MAX_IN_FLIGHT

    def give_up(self, count: int, error: Exception) -> None:
        for number in self.due[:count]:
            self.results[number] = NotStored(error)
        self.due = self.due[count:]


class Outbox:
    """A writer of records to Kafka: an async context manager, or use `start` and `stop`.

    The records of a write keep their order in each partition, with one record batch on its way at a time. If
    the broker refuses its size, smaller batches follow, until the record that is too large is alone. After
    any other failure the partition gets no more of this write.

    Args:
        idempotent: send each record batch until it arrives or is refused; none arrives after a later one.
        keeps_time: False: once the broker refuses the time of this machine's clock, records carry none.
        check: called before each record batch is sent.
        stored: called with each acknowledged batch: topic, partition, offset of the first, records.

    Attributes:
        broken: a record was neither stored nor refused; later ones may arrive, but see `Delivery`.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        patience_seconds: float | None = None,
        idempotent: bool = False,
        keeps_time: bool = True,
        check: Callable[[], object] = lambda: None,
        stored: Callable[[str, int, int, Sequence[ProducerRecord]], object] = lambda *_: None,
    ) -> None:
        self.broken = False
        self._settings = settings
        self._patience_seconds = patience_seconds or DELIVERY_SECONDS
        self._idempotent = idempotent
        self._keeps_time = keeps_time
        self._check = check
        self._stored = stored
        self._usual_time: int | None = None
        self._out_of_order = False
        self._renewing = asyncio.Lock()
        self._starting: asyncio.Task[None] | None = None
        self._producer: AIOKafkaProducer = None

    async def start(self) -> None:
        """Connect. Several tasks may wait for it, and cancelling one of them does not stop it.

        Raises BrokerRefuses for wrong credentials or an untrusted certificate, else KafkaError.
        """
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
        await asyncio.shield(self._starting)

    async def stop(self) -> None:
        """Disconnect without waiting for records on their way. A start that hangs is dropped when it ends."""
        if self._starting is not None:
            self._stopping = asyncio.create_task(self._stop(self._starting))
            if self._starting.done():
                await asyncio.shield(self._stopping)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def write(self, records: Sequence[ProducerRecord], seconds: float | None = None) -> list[Result]:
        """Write records, and return their results in order. `seconds` limits each record batch."""
        results: list[Result] = [0] * len(records)
        lanes: dict[tuple[str, int], _Lane] = {}
        for number, record in enumerate(records):
            place = record.topic, record.partition
            if record.size > MAX_RECORD_BYTES:
                results[number] = NotStored(MessageSizeTooLargeError(f"a record has {record.size:,} bytes"))
            elif place in lanes:
                lanes[place].due.append(number)
            else:
                lanes[place] = _Lane(*place, records, results, [number])
        while any(lane.due for lane in lanes.values()):
            try:
                await self._renew()
            except KafkaError as error:
                for lane in lanes.values():
                    lane.give_up(len(lane.due), error)
                break
            sending = (self._send(lane, seconds) for lane in lanes.values())
            for failure in await asyncio.gather(*sending, return_exceptions=True):
                if failure is not None:
                    raise failure
        self.broken = self.broken or not all(result.refused for result in missing(results))
        return results

    async def store(self, records: Sequence[ProducerRecord]) -> None:
        for result in missing(await self.write(records)):
            raise result.error

    async def _send(self, lane: _Lane, seconds: float | None) -> None:
        """Send the record batches in turn; returns early if the rest must be sent in another way."""
        while lane.due:
            usual_time = self._usual_time
            batch, count = self._packed(lane.records[number] for number in lane.due[: lane.most])
            try:
                self._check()
                async with asyncio.timeout(seconds):
                    ack = await self._producer.send_batch(batch, lane.topic, partition=lane.partition)
                    first = (await ack).offset
            except TimeoutError:
                limit = self._patience_seconds if seconds is None else seconds
                return lane.give_up(len(lane.due), TimeoutError(f"no acknowledgement within {limit:g} s"))
            except _TOO_LARGE as error:
                self._out_of_order = True
                lane.most = max(1, count // 2)
                return lane.give_up(int(count == 1), error)
            except InvalidTimestampError as error:
                self._out_of_order = True
                if self._keeps_time or usual_time is not None:
                    return lane.give_up(len(lane.due), error)
                if self._usual_time is None:
                    log.warning("%s. Until then, records have no time", WRONG_CLOCK)
                self._usual_time = NO_TIMESTAMP
                return None
            except Exception as error:
                return lane.give_up(len(lane.due), error)
            sent, lane.due, lane.most = lane.due[:count], lane.due[count:], 2 * lane.most
            for offset, number in enumerate(sent, first):
                lane.results[number] = offset
            self._stored(lane.topic, lane.partition, first, [lane.records[number] for number in sent])
        return None

    def _packed(self, records: Iterable[ProducerRecord]) -> tuple[Any, int]:
        batch, usual_time = self._producer.create_batch(), self._usual_time

        def fits(record: ProducerRecord) -> bool:
            _, _, key, value, own_time, headers = record
            time = usual_time if own_time is None else own_time
            return batch.append(key=key, value=value, timestamp=time, headers=headers) is not None

        return batch, sum(1 for _ in takewhile(fits, records))

    async def _renew(self) -> None:
        """Replace the producer after a refusal, which leaves a permanent gap in its sequence numbers."""
        async with self._renewing:  # refusals of several partitions at once need one new producer
            if self._out_of_order and self._idempotent:
                old, new = self._producer, self._new_producer()
                try:
                    await new.start()
                except BaseException:
                    await new.stop()
                    raise
                self._producer, self._out_of_order = new, False
                await old.stop()

    async def _start(self) -> None:
        self._producer = self._new_producer()
        try:
            async with telling_refusals(self._settings):
                await self._producer.start()
            await self._look()
        except BaseException:
            await self._producer.stop()
            raise

    async def _look(self) -> None:
        """Fetch from the broker what the first record needs."""

    async def _stop(self, starting: asyncio.Task[None]) -> None:
        await asyncio.wait([starting])
        if starting.cancelled() or starting.exception():
            return  # which has cleaned up
        with suppress(Exception):
            async with asyncio.timeout(STOP_SECONDS):
                waiting = self._producer._message_accumulator
                waiting.fail_all(KafkaConnectionError("dropped"))
                for batch in chain(*waiting._batches.values(), waiting._pending_batches):
                    batch.future.exception()  # else asyncio logs that no task looked at it
                await self._producer.client.close()
                await self._producer.stop()

    def _new_producer(self) -> AIOKafkaProducer:
        return AIOKafkaProducer(
            **self._settings.kafka_options(),
            acks="all",
            enable_idempotence=self._idempotent,
            compression_type=self._settings.codec,
            max_batch_size=BATCH_BYTES,
            max_request_size=MAX_MESSAGE_BYTES,
            request_timeout_ms=int(self._patience_seconds * 1000),
        )


async def store(settings: Settings, records: Sequence[ProducerRecord]) -> None:
    """Write a few records over a separate connection; raises BrokerRefuses, KafkaError."""
    async with Outbox(settings) as outbox:
        await outbox.store(records)


# -----------------------------------------------------------------------------
# Events on their way to the topic `trial-events`, each to the partition of its run.


class Outgoing(NamedTuple):
    """One record for the event topic: `key` is the run id in UTF-8, None without a run."""

    key: bytes | None
    value: bytes
    timestamp_ms: int | None = None
    headers: list[tuple[str, bytes]] = NO_HEADERS

    @classmethod
    def of(cls, event: AnyEvent | Reason, value: bytes) -> Self:
        return cls(None if isinstance(event, Reason) else event.run_id.encode(), value)


class NotDelivered(Exception):
    def __init__(self, failed: int, acknowledged: int, bootstrap: str, first: Exception) -> None:
        lost = f"{counted(failed, 'event')} {'was' if failed == 1 else 'were'} not acknowledged"
        super().__init__(
            f"{lost} by the broker at {bootstrap} ({acknowledged:,} were): "
            f"{said_of(first)}. Publish the same events again: duplicates do not count"
        )


def outgoing(event: Mapping[str, Any]) -> Outgoing:
    """The record of an event.

    >>> outgoing({"type": "run_finished", "run_id": "r"})[:2]
    (b'r', b'{"run_id":"r","type":"run_finished"}')
    """
    return Outgoing(str(event["run_id"]).encode(), canonical_json(event))


class EventOutbox(Outbox):
    """A writer of events. `start` also raises TopicMissing if the event topic does not exist."""

    _topic = ""
    _partitions = 0

    async def publish(self, events: Iterable[Outgoing], seconds: float | None = None) -> list[Result]:
        places = ((partition_of_key(event.key or event.value, self._partitions), event) for event in events)
        records = [ProducerRecord(self._topic, partition, *event) for partition, event in places]
        return await self.write(records, seconds)

    async def _look(self) -> None:
        await self._producer.client.force_metadata_update()
        self._topic = Names(self._settings.namespace).trial_events
        self._partitions = len(self._producer.client.cluster.partitions_for_topic(self._topic) or ())
        if not self._partitions:
            raise TopicMissing(self._topic, self._settings.bootstrap)


class ThreadedPublisher:
    """A publisher for blocking code: a context manager that flushes at its end."""

    def __init__(self, settings: Settings) -> None:
        self.acknowledged = 0
        self._settings = settings
        self._failed: list[NotStored] = []
        self._waiting: deque[Outgoing] = deque()
        self._room = threading.BoundedSemaphore(MAX_IN_FLIGHT)
        self._draining = asyncio.Lock()
        self._outbox = EventOutbox(settings)

    def send(self, record: Outgoing) -> None:
        """Queue a record; blocks only while too many wait. `flush` reports failures."""
        self._room.acquire()
        self._waiting.append(record)
        if len(self._waiting) == 1:  # nobody else wakes the loop
            self._thread.submit(self._drain())

    def flush(self, seconds: float | None = None) -> None:
        """Wait until all records are acknowledged; raises NotDelivered, or TimeoutError after `seconds`."""
        self._thread.submit(self._drain()).result(seconds)
        failed, self._failed = self._failed, []
        if failed:
            raise NotDelivered(len(failed), self.acknowledged, self._settings.bootstrap, failed[0].error)

    def __enter__(self) -> Self:
        self._thread = LoopThread("publisher")
        try:
            self._thread.submit(self._outbox.start()).result()
        except BaseException:
            self._thread.stop()
            raise
        return self

    def __exit__(self, _: object, error: BaseException | None, *__: object) -> None:
        """Flush, but only briefly after an error, because the user waits."""
        try:
            with suppress(*(NotDelivered, TimeoutError) if error else ()):
                self.flush(STOP_SECONDS if error else None)
        finally:
            self._thread.submit(self._outbox.stop()).result()
            self._thread.stop()

    async def _drain(self) -> None:
        async with self._draining:  # one batch of records after the other keeps them in order
            while self._waiting:
                records = [self._waiting.popleft() for _ in range(len(self._waiting))]
                try:
                    failed = missing(await self._outbox.publish(records))
                except Exception as error:  # after any error, these are not known to be stored
                    failed = [NotStored(error)] * len(records)
                self._failed += failed
                self.acknowledged += len(records) - len(failed)
                self._room.release(len(records))


class RecordsRefused(Exception):
    """Records that the broker refuses for their size; all others of the same write are written."""

    def __init__(self, records: list[ProducerRecord]) -> None:
        self.records = records
        super().__init__(f"the broker refuses {len(records)} records as too large")
