"""The producer of a worker: every record it sends to Kafka is awaited. Also the worker's sizes and clock.

Faust only logs a failed send and its flush does not wait for everything, so this is a producer of our own
with the futures kept. Records of one topic and partition travel in record batches (3.8 microseconds a
record, against 92 with Faust's `send_soon`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from aiokafka.errors import InvalidTimestampError

from streamer.schemas.wire import NO_TIMESTAMP
from streamer.settings import Settings
from streamer.storage.kafka import MAX_MESSAGE_BYTES, TOO_LARGE, WRONG_CLOCK, KafkaProducer, producer

log = logging.getLogger(__name__)

# -----------------------------------------------------------------------------
# Sizes and times of the worker, each with its unit and its reason.


MAX_RECORD_BYTES = MAX_MESSAGE_BYTES - 16 * 1024
"""Largest key and value together, before compression: the record batch around them needs some room."""

SEND_BATCH_BYTES = 512 * 1024
"""Records of one topic and partition are sent in record batches of about this size."""

MAX_POLL_RECORDS = 4_000
"""Records in one batch at most: about 2 MB, a few tens of milliseconds of folding."""

PAGES_PER_TURN = 50
"""State pages loaded before the event loop gets its turn: about 30 ms."""

MAX_UNDONE_RECORDS = 8_000
"""Handed on but not done: beyond this the transport stops fetching, which bounds the memory."""

USUAL_RECORD_BYTES = 4 * 1024
"""A larger record counts as several of those not done, which so take 32 MB at most, and one batch more."""

FETCH_TURN_SECONDS = 0.2
"""How long one fetch waits for records: partitions resumed meanwhile have to wait along."""

EMBEDDED_FETCH_WAIT_MS = 10
"""The embedded broker never wakes a fetch: this is the latency (p50 3 ms at 10, 130 ms at 500)."""

BROKER_PATIENCE_SECONDS = 300.0
"""How long a request to the broker may take. Long: a request given up on may still take effect later."""

EMBEDDED_SESSION_TIMEOUT_SECONDS = 3.0
"""The embedded broker waits half the session timeout at each join, rounded up to whole seconds."""


# -----------------------------------------------------------------------------
# Everything a worker writes to Kafka goes through here, and is awaited.


NO_HEADERS: list[tuple[str, bytes]] = []
"""Headers of nearly all records; aiokafka wants a list."""


class ProducerRecord(NamedTuple):
    """One record to write; `value` None is a tombstone, `timestamp_ms` None is now."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None = None
    headers: list[tuple[str, bytes]] = NO_HEADERS


class RecordTooLarge(ValueError):
    """A record is larger than a worker writes, or than the broker takes; it was not written."""

    def __init__(self, record: ProducerRecord, limit: str) -> None:
        super().__init__(f"a record for {record.topic} has {size_of(record):,} bytes, {limit}")


class RecordsRefused(Exception):
    """The broker refuses these records for their size; all others of the same write are written."""

    def __init__(self, records: list[ProducerRecord]) -> None:
        self.records = records
        super().__init__(f"the broker refuses {len(records)} records for their size")


def size_of(record: ProducerRecord) -> int:
    """Bytes of key and value."""
    return len(record.key or b"") + len(record.value or b"")


def fitting(records: list[ProducerRecord]) -> list[ProducerRecord]:
    """The same records.

    Raises:
        RecordTooLarge: one of them would not fit a message.
    """
    for record in records:
        if size_of(record) > MAX_RECORD_BYTES:
            raise RecordTooLarge(record, f"at most {MAX_RECORD_BYTES:,} are written")
    return records


class TopicRecreated(RuntimeError):
    """A topic was deleted and created again while the worker wrote to it."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"topic {topic} was deleted and made again. The worker ends; the next one fills it")


Written = Callable[[str, int, int, Sequence[ProducerRecord]], None]
"""Called with records that were acknowledged: topic, partition, offset of the first, records."""


class Producer:
    """Producer of the worker.

    Idempotent where the broker can (the embedded one cannot): a request that timed out and still took
    effect later must not put an old page over a newer one. Once the broker refuses the time of this
    machine's clock, records carry no time: a wrong clock does not end the worker.

    Args:
        check_alive: called before every write; ends the process if it was stopped for too long.
        written: called with the records that the broker has acknowledged.
    """

    def __init__(self, settings: Settings, check_alive: Callable[[], None], written: Written) -> None:
        self._check_alive = check_alive
        self._written = written
        self._idempotent = not settings.embedded
        self._written_to: dict[tuple[str, int], int] = {}
        self._ends: dict[tuple[str, int], int] = {}
        self._foreign_ranges: dict[tuple[str, int], list[tuple[int, int]]] = {}
        self._settings = settings
        self._producer = self._new_producer()
        self._out_of_order = False
        self._usual_time: int | None = None

    async def start(self) -> None:
        """Connect."""
        await self._producer.start()

    async def stop(self) -> None:
        """Disconnect; nothing is pending, since every write was awaited."""
        await self._producer.stop()

    async def write(self, records: Iterable[ProducerRecord]) -> None:
        """Write and wait until the broker has acknowledged every record.

        Raises:
            RecordsRefused: some are too large for the broker; all others are written.
            aiokafka.errors.KafkaError: the broker refused a record or did not answer. Others may be written.
        """
        left = await self._attempt(records)
        if not left:
            return
        refused = [record for record in left if await self._attempt([record])]
        if refused:
            raise RecordsRefused(refused)

    async def _attempt(self, records: Iterable[ProducerRecord]) -> list[ProducerRecord]:
        """Write; if the broker refuses a record batch for its size, the records that are not written."""
        if self._out_of_order:
            await self._renew()
        usual_time = self._usual_time
        by_place: dict[tuple[str, int], list[ProducerRecord]] = {}
        for record in records:
            by_place.setdefault((record.topic, record.partition), []).append(record)
        sends = [self._write_to(topic, partition, outs) for (topic, partition), outs in by_place.items()]
        results = await asyncio.gather(*sends, return_exceptions=True)
        failures: list[tuple[list[ProducerRecord], BaseException]] = []
        for result in results:
            if isinstance(result, BaseException):
                raise result
            failures += result
        left = [record for group, _ in failures for record in group]
        if usual_time is None and any(isinstance(error, InvalidTimestampError) for _, error in failures):
            if self._usual_time is None:
                log.warning("%s. Until then this worker's records carry no time", WRONG_CLOCK)
            self._usual_time, self._out_of_order = NO_TIMESTAMP, True
            return await self._attempt(left)
        if any(isinstance(error, TOO_LARGE) for _, error in failures):
            self._out_of_order = True
            return left
        for _, error in failures:
            raise error
        return []

    async def _write_to(
        self, topic: str, partition: int, records: list[ProducerRecord]
    ) -> list[tuple[list[ProducerRecord], BaseException]]:
        """Write record batches; those that failed, with the reason."""
        acks: list[Any] = []
        starts = [0]
        builder, usual_time = self._producer.create_batch(), self._usual_time
        for number, record in enumerate(records):
            if not _append(builder, record, usual_time):
                acks.append(await self._send(builder, topic, partition))
                starts.append(number)
                builder = self._producer.create_batch()
                _append(builder, record, usual_time)
        acks.append(await self._send(builder, topic, partition))
        places = await asyncio.gather(*acks, return_exceptions=True)
        failures = []
        for start, stop, place in zip(starts, [*starts[1:], len(records)], places, strict=True):
            if isinstance(place, BaseException):
                failures.append((records[start:stop], place))
            else:
                self._written(topic, partition, place.offset, records[start:stop])
                self._note(topic, partition, place.offset, stop - start)
        return failures

    async def _renew(self) -> None:
        """A new producer: after a refusal, the sequence numbers of the old one have a lasting gap."""
        self._out_of_order = False
        old, self._producer = self._producer, self._new_producer()
        await old.stop()
        await self._producer.start()

    def _new_producer(self) -> KafkaProducer:
        return producer(
            self._settings,
            enable_idempotence=self._idempotent,
            compression_type=self._settings.codec,
            max_batch_size=SEND_BATCH_BYTES,
            max_request_size=MAX_MESSAGE_BYTES,
            request_timeout_ms=int(BROKER_PATIENCE_SECONDS * 1000),
        )

    def written_to(self, topic: str, partition: int) -> int:
        """The offset after the last record that was written here, 0 without one."""
        return self._written_to.get((topic, partition), 0)

    def answered_to(self, topic: str, partition: int) -> int:
        """Like `written_to`, or the first offset that others wrote, while it waits to be looked at."""
        foreign = self._foreign_ranges.get((topic, partition), ())
        return min([self.written_to(topic, partition), *(start for start, _ in foreign)])

    def note_ends(self, ends: Mapping[tuple[str, int], int]) -> None:
        """Where topics and partitions end that were just read; what others append later is foreign."""
        self._ends |= ends
        for place in ends:
            self._foreign_ranges.pop(place, None)

    def take_foreign_ranges(self, topic: str, partition: int, end: int) -> list[tuple[int, int]]:
        """Drain the ranges of offsets, up to `end`, that others have written among ours."""
        place = (topic, partition)
        known = self._ends.setdefault(place, end)
        self._ends[place] = max(known, end)
        tail = [(known, end)] if end > known else []
        return self._foreign_ranges.pop(place, []) + tail

    def note_foreign_range(self, topic: str, partition: int, start: int, stop: int) -> None:
        """Others have written these offsets."""
        self._foreign_ranges.setdefault((topic, partition), []).append((start, stop))

    def _note(self, topic: str, partition: int, first: int, count: int) -> None:
        place = (topic, partition)
        if self._idempotent and 0 <= first < self.written_to(topic, partition):
            raise TopicRecreated(topic)
        self._written_to[place] = max(self.written_to(topic, partition), first + count)
        if place in self._ends:
            if first > self._ends[place]:
                self.note_foreign_range(topic, partition, self._ends[place], first)
            self._ends[place] = max(self._ends[place], first + count)

    async def _send(self, builder: Any, topic: str, partition: int) -> Any:
        self._check_alive()
        return await self._producer.send_batch(builder, topic, partition=partition)


def _append(builder: Any, record: ProducerRecord, usual_time: int | None) -> bool:
    """False if the record batch is full; the first record always fits."""
    timestamp = usual_time if record.timestamp_ms is None else record.timestamp_ms
    appended = builder.append(key=record.key, value=record.value, timestamp=timestamp, headers=record.headers)
    return appended is not None


# -----------------------------------------------------------------------------
# The clock of the worker's intervals: a suspended machine counts as time that passes.


def clock() -> float:
    """Seconds that pass also while the process or the machine sleeps."""
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boottime is None else time.clock_gettime(boottime)
