"""Faust's side of Kafka: the app, one fetched batch as one Faust event, the producer; clock and watchdog."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from math import inf
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

import faust
from aiokafka import TopicPartition as KafkaPartition
from aiokafka.errors import IllegalStateError
from aiokafka.structs import OffsetAndMetadata
from faust.sensors.prometheus import FaustMetrics, PrometheusMonitor
from faust.transport.drivers import aiokafka as driver
from faust.types import TP, ConsumerMessage
from prometheus_client import CollectorRegistry
from yarl import URL

from streamer.settings import READ_COMMITTED, Settings
from streamer.storage.kafka import FETCH_WAIT_MS, MAX_MESSAGE_BYTES
from streamer.storage.log import AIOKafkaConsumer, ends_of, stable_end
from streamer.storage.outbox import MAX_RECORD_BYTES, NotStored, Outbox, ProducerRecord, RecordsRefused
from streamer.worker.tables import PatientTableManager

log = logging.getLogger(__name__)

# -----------------------------------------------------------------------------
# Sizes and times of the worker, each with its unit and reason.


MAX_POLL_RECORDS = 4_000
"""Most records in one batch: about 2 MB, and a few tens of milliseconds of folding."""

PAGES_PER_TURN = 50
"""State pages loaded per turn of the event loop: about 30 ms."""

MAX_UNDONE_RECORDS = 8_000
"""Records in processing at which the transport stops fetching, to bound the memory."""

USUAL_RECORD_BYTES = 4 * 1024
"""A larger record counts as several, so records in processing take at most 32 MB and one batch."""

FETCH_TURN_SECONDS = 0.2
"""How long one fetch waits for records; partitions resumed meanwhile wait, too."""

GATHER_MS, GATHER_BYTES = 100, 64 * 1024
"""Time or bytes for which a fetch waits while records come together, or within half of that time. So more
records share its cost. A record on its own does not wait.
"""

EMBEDDED_FETCH_WAIT_MS = 10
"""The embedded broker never wakes a fetch, so this is the latency (p50 3 ms at 10, 130 ms at 500)."""

BROKER_PATIENCE_SECONDS = 300.0
"""How long a request to the broker may take; an abandoned request may still take effect later."""

EMBEDDED_SESSION_TIMEOUT_SECONDS = 3.0
"""The embedded broker waits half the session timeout at each join, rounded up to whole seconds."""


# -----------------------------------------------------------------------------
# Batches of events, and the done ones among them, which may be committed.


RECORDS_PER_TURN = 500


@dataclass(eq=False, slots=True)
class FetchedBatch:
    """The records of one fetch for one partition. `done`: all their results are safe."""

    topic: str
    partition: int
    records: list[Any]
    folded: bool = False
    done: bool = False

    @property
    def last_offset(self) -> int:
        return int(self.records[-1].offset)

    def release(self) -> None:
        self.folded = True
        self.records = []

    def finish(self) -> None:
        self.release()
        self.done = True


@dataclass(eq=False, slots=True)
class _Handed:
    batch: FetchedBatch
    last_offset: int
    count: int


class HandedBatches:
    """Batches in processing, per partition in log order, until they are done and committed.

    >>> from types import SimpleNamespace as Record
    >>> handed = HandedBatches()
    >>> first, second = (FetchedBatch("t", 0, [Record(offset=n, value=b"")]) for n in (0, 7))
    >>> handed.note("t0", first), handed.note("t0", second), handed.undone
    (None, None, 2)
    >>> second.finish(); handed.end_of_done("t0") is None
    True
    >>> first.finish(); handed.end_of_done("t0")
    8
    >>> handed.undone
    0
    """

    def __init__(self) -> None:
        self._by_tp: dict[Any, deque[_Handed]] = {}

    @property
    def undone(self) -> int:
        """Records in processing that are not folded; a large record counts as several, for its memory."""
        return sum(item.count for items in self._by_tp.values() for item in _unfolded(items))

    def waiting(self, tp: Any) -> bool:
        return any(True for _ in _unfolded(self._by_tp.get(tp, deque())))

    def partitions(self) -> list[Any]:
        return [tp for tp, items in self._by_tp.items() if items]

    def note(self, tp: Any, batch: FetchedBatch) -> None:
        self._by_tp.setdefault(tp, deque()).append(_Handed(batch, batch.last_offset, _weight(batch.records)))

    def note_gap(self, tp: Any, end: int) -> None:
        """Note that the log has no event between the last batch and the offset `end`."""
        gap = FetchedBatch(tp.topic, tp.partition, [], folded=True, done=True)
        self._by_tp.setdefault(tp, deque()).append(_Handed(gap, end - 1, 0))

    def end_of_done(self, tp: Any) -> int | None:
        """Remove the leading batches that are done; returns the offset after them, or None."""
        items = self._by_tp.get(tp, deque())
        end = None
        while items and items[0].batch.done:
            end = items.popleft().last_offset + 1
        return end

    def forget(self, tps: Any = None) -> None:
        for tp in list(self._by_tp if tps is None else tps):
            self._by_tp.pop(tp, None)


def _unfolded(items: deque[_Handed]) -> Iterator[_Handed]:
    """The unfolded batches, last first: a partition's batches are folded in order, and many may wait."""
    return takewhile(lambda item: not item.batch.folded, reversed(items))


def _weight(records: list[Any]) -> int:
    size = sum(len(record.value or b"") for record in records)
    return max(len(records), size // USUAL_RECORD_BYTES)


def portions(records: list[Any], silent_to: int) -> Iterator[list[Any]]:
    """Portions of records to fold in one turn, without crossing `silent_to`.

    >>> from types import SimpleNamespace as Record
    >>> cut = portions([Record(offset=offset) for offset in (3, 5, 8)], 5)
    >>> [[record.offset for record in portion] for portion in cut]
    [[3], [5, 8]]
    """
    before = 0
    if records and records[0].offset < silent_to:
        before = sum(record.offset < silent_to for record in records)
    for part in (records[:before], records[before:]):
        for start in range(0, len(part), RECORDS_PER_TURN):
            yield part[start : start + RECORDS_PER_TURN]


# -----------------------------------------------------------------------------
# A partition of a topic, as our own type.


class TopicPartition(NamedTuple):
    """One partition's name; equal to the tuples of Faust and aiokafka.

    >>> TopicPartition("trial-events", 3) == ("trial-events", 3)
    True
    """

    topic: str
    partition: int


# -----------------------------------------------------------------------------
# The interface of the group's consumer for the rest of the worker; `transport.Consumer` implements it.


class Committed(NamedTuple):
    """A committed offset, if there is one; `by_others`: another client set it."""

    offset: int | None
    by_others: bool


class EventConsumer(Protocol):
    """The consumer of events and changelogs; `refolded` partitions are read from their beginning."""

    handed: HandedBatches
    refolded: set[TopicPartition]

    def assignment(self) -> AbstractSet[TopicPartition]:
        """The partitions assigned now, including changelogs."""

    def highwater(self, place: TopicPartition, /) -> int | None:
        """The end of a partition at the last fetch; None before one."""

    def pending(self, place: TopicPartition, /) -> bool:
        """True if events of the partition are fetched and not folded."""

    async def position(self, place: TopicPartition, /) -> int | None:
        """Offset of the next record to fetch; None if the partition is no longer ours."""

    async def committed(self, place: TopicPartition, /) -> Committed:
        """The group's committed offset of a partition, and who committed it."""

    async def highwaters(self, *places: TopicPartition) -> Mapping[TopicPartition, int]:
        """The offset after the last record of each partition, according to the broker."""

    async def earliest_offsets(self, *places: TopicPartition) -> Mapping[TopicPartition, int]:
        """Offset of the first record that each partition still has."""


# -----------------------------------------------------------------------------
# The Faust app that the settings describe.


HEARTBEATS_PER_SESSION = 3
COMMIT_SECONDS = 1.0
"""A killed worker's successor folds at most this much again, besides unpublished events."""


class StreamerApp(faust.App):
    logger = logging.getLogger("faust.streamer")

    def _create_directories(self) -> None:
        """Create no directories, because the stores create their own."""

    @property
    def event_consumer(self) -> EventConsumer:
        return cast(EventConsumer, self.consumer)

    @property
    def rebalances(self) -> int:
        return int(self.rebalancing_count)

    @property
    def is_settled(self) -> bool:
        return not (self.rebalancing or self.in_recovery)

    @property
    def unrecovered(self) -> int:
        """Changelog records that the present recovery must still read; 0 without a recovery."""
        remaining = self._manager.recovery.active_remaining_total() if self.in_recovery else 0
        return max(0, int(remaining))

    def assigned_partitions(self, topic: str) -> list[int]:
        return sorted(tp.partition for tp in self.assignor.assigned_actives() if tp.topic == topic)

    def check_recovered(self) -> None:
        self._manager.check_recovered()

    def changelog_ends(self) -> dict[tuple[str, int], int]:
        last = self._manager.recovery.active_highwaters
        return {(tp.topic, tp.partition): offset + 1 for tp, offset in last.items()}

    def known_end(self, place: TopicPartition) -> int:
        """The known end of a partition; 0 if it is not assigned, or before a fetch."""
        consumer = self.event_consumer
        return (consumer.highwater(place) if place in consumer.assignment() else None) or 0

    def waiting(self, topic: str, partition: int, next_offset: int) -> int:
        """Number of records known to be in the log from this offset on."""
        return max(0, self.known_end(TopicPartition(topic, partition)) - next_offset)

    def report_to(self, registry: CollectorRegistry) -> None:
        self.monitor = PrometheusMonitor(metrics=FaustMetrics.create(registry, "faust"))

    async def wait_for_crash(self) -> None:
        await self._crashed.wait()

    def leave_group_at_the_end(self) -> None:
        """Make a stop leave the consumer group, even if the group would wait for this worker's return."""
        thread = getattr(self.consumer, "_thread", None)
        consumer = thread and thread._consumer
        if consumer is not None and consumer._coordinator is not None:
            consumer._coordinator._group_instance_id = None

    @property
    def _manager(self) -> PatientTableManager:
        return cast(PatientTableManager, self.tables)


def session_seconds(settings: Settings) -> float:
    """Session timeout: on the embedded broker at most 3 s, since a join waits for half of it."""
    seconds = settings.session_timeout_seconds
    return min(seconds, EMBEDDED_SESSION_TIMEOUT_SECONDS) if settings.embedded else seconds


def app_options(settings: Settings, state: Path | None = None) -> dict[str, Any]:
    session = session_seconds(settings)
    return {
        "env_prefix": "STREAMER_FAUST",  # otherwise variables such as BROKER_URL would override these
        "broker": [f"kafka://{server}" for server in settings.bootstrap.split(",")],
        "store": "memory://",  # each table brings its own
        "datadir": state or Path(os.devnull),
        "web_enabled": False,
        "topic_disable_leader": True,
        "topic_partitions": settings.partitions,
        "topic_replication_factor": settings.replication,
        "table_standby_replicas": settings.standby_replicas,
        "broker_session_timeout": session,
        "broker_heartbeat_interval": session / HEARTBEATS_PER_SESSION,
        "broker_request_timeout": BROKER_PATIENCE_SECONDS,
        "broker_rebalance_timeout": BROKER_PATIENCE_SECONDS,
        "broker_commit_interval": COMMIT_SECONDS,
        "broker_max_poll_records": MAX_POLL_RECORDS,
        "consumer_group_instance_id": None if state is None or settings.embedded else _instance_of(state),
        "consumer_max_fetch_size": MAX_MESSAGE_BYTES,
        "producer_compression_type": settings.codec,
        "producer_max_request_size": MAX_MESSAGE_BYTES,
        "stream_wait_empty": True,
        "stream_recovery_delay": 0.0,
        "TableManager": PatientTableManager,
        "ssl_context": settings.ssl_context(),
        **_credentials(settings),
    }


def _instance_of(directory: Path) -> str:
    """The lasting name of a directory's worker in its group; Faust refuses another host's assignment."""
    file = directory / "instance"
    if not file.exists():
        file.write_text(uuid.uuid4().hex[:12])
    return f"{file.read_text()}-{socket.gethostname()}"


def _credentials(settings: Settings) -> dict[str, Any]:
    """Faust's options for SASL; TLS without SASL needs only the SSL context."""
    if not settings.security_protocol.startswith("SASL"):
        return {}
    options = settings.kafka_options()
    return {
        "broker_credentials": faust.SASLCredentials(
            username=options["sasl_plain_username"],
            password=options["sasl_plain_password"],
            mechanism=settings.sasl_mechanism,
            ssl_context=options["ssl_context"],
        )
    }


# -----------------------------------------------------------------------------
# Faust's Kafka transport, which passes on one fetched batch of the event topic as one Faust event.
#
# Batches do not wait to fill, except 100 ms for further records while records arrive (`GATHER_MS`). One fetch
# is one batch, so the first record after a pause is alone, and a backlog comes in thousands. Other topics
# (the changelogs) pass through unchanged.
#
# A batch counts as acknowledged only when the processor has called `FetchedBatch.finish`: Faust itself also
# acknowledges batches that raised an exception or were cancelled.


BY_WORKER = "streamer"
"""Metadata that identifies the offsets committed by workers."""


class ConsumerThread(driver.AIOKafkaConsumerThread):
    """Faust's consumer thread, with longer fetches under load, and without aborted transactions.

    On the embedded broker it never leaves its group: its membership ends with its session. If the leader
    leaves while another member joins, this broker keeps naming the old leader, and no member gets partitions.
    """

    logger = logging.getLogger("faust.streamer")
    transport: Transport

    def _create_worker_consumer(self, transport: Any) -> AIOKafkaConsumer:
        consumer = super()._create_worker_consumer(transport)
        # Faust has no options for these two, and commits without the metadata that shows a worker whether
        # another client moved the offset.
        consumer._fetch_max_wait_ms = self.transport.fetch_wait_ms
        consumer._isolation_level = READ_COMMITTED
        commit = consumer.commit

        async def commit_as_worker(offsets: Mapping[KafkaPartition, Any]) -> None:
            await commit({tp: OffsetAndMetadata(to.offset, BY_WORKER) for tp, to in offsets.items()})

        consumer.commit = commit_as_worker
        return consumer

    def gather(self, busy: bool) -> None:
        """Let fetches wait for more than one record while many arrive (`GATHER_MS`)."""
        fetcher = self._ensure_consumer()._fetcher
        if fetcher is not None:
            fetcher._fetch_min_bytes = GATHER_BYTES if busy else 1
            fetcher._fetch_max_wait_ms = GATHER_MS if busy else self.transport.fetch_wait_ms

    async def on_start(self) -> None:
        await super().on_start()
        if self.transport.settings.embedded:
            coordinator = self._ensure_consumer()._coordinator

            async def stay() -> None:
                coordinator.reset_generation()

            coordinator._maybe_leave_group = stay

    def highwater(self, tp: TP) -> Any:
        return stable_end(self._ensure_consumer(), tp)


class Consumer(driver.Consumer):
    logger = logging.getLogger("faust.streamer")
    _thread: ConsumerThread
    transport: Transport

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.handed = HandedBatches()
        self._fetched: dict[Any, FetchedBatch] = {}
        self._fetched_at = -inf
        self.refolded: set[TP] = set()
        super().__init__(*args, **kwargs)

    def _new_consumer_thread(self) -> ConsumerThread:
        return ConsumerThread(self, loop=self.loop, beacon=self.beacon)

    def _is_events(self, tp: Any) -> bool:
        return bool(tp.topic == self.transport.event_topic)

    async def _wait_next_records(self, timeout: float) -> tuple[Any, Any]:  # noqa: ASYNC109
        if self.flow_active and not self.app.in_recovery and self.handed.undone > MAX_UNDONE_RECORDS:
            await self._wait_until_ebb(timeout)
            return {}, self._get_active_partitions()
        await self._put_back_dropped()
        records, active = await super()._wait_next_records(timeout)
        self._thread.gather(self._is_busy(sum(map(len, (records or {}).values()))))
        return self._in_batches(records or {}), active

    def _is_busy(self, fetched: int) -> bool:
        """Whether the next records probably come soon: the last ones came together or in quick succession."""
        if not fetched:
            return False
        before, self._fetched_at = self._fetched_at, self.loop.time()
        return fetched > 1 or self._fetched_at - before < GATHER_MS / 2_000

    async def _getmany(self, active_partitions: Any, timeout: float) -> Any:  # noqa: ASYNC109
        """Copy Faust's live set. If it were emptied meanwhile, it would mean all partitions, paused
        or not.
        """
        return await super()._getmany(set(active_partitions), min(timeout, FETCH_TURN_SECONDS))

    async def _put_back_dropped(self) -> None:
        """Go back to the records that Faust fetched, and dropped because the partition was paused."""
        assigned = self.assignment() if self._fetched else set()
        dropped = {tp: batch.records[0].offset for tp, batch in self._fetched.items() if tp in assigned}
        self._fetched.clear()
        if dropped:
            with suppress(IllegalStateError):  # revoked just now: its next owner reads it again
                await self._thread.seek_wait({KafkaPartition(*tp): first for tp, first in dropped.items()})

    async def _wait_until_ebb(self, seconds: float) -> None:
        deadline = self.loop.time() + seconds
        while self.flow_active and not self.should_stop and self.handed.undone > MAX_UNDONE_RECORDS:
            if self.loop.time() > deadline:
                return
            await asyncio.sleep(0.002)

    def _in_batches(self, records: Mapping[Any, list[Any]]) -> dict[Any, list[Any]]:
        self._fetched = {
            TP(*tp): FetchedBatch(tp.topic, tp.partition, result)
            for tp, result in records.items()
            if result and self._is_events(tp)
        }
        return {tp: [self._fetched[tp]] if tp in self._fetched else result for tp, result in records.items()}

    def _to_message(self, tp: Any, record: Any) -> ConsumerMessage:
        if not isinstance(record, FetchedBatch):
            return super()._to_message(tp, record)
        self.handed.note(TP(*tp), record)
        self._fetched.pop(TP(*tp), None)
        last = record.records[-1]
        return ConsumerMessage(
            record.topic,
            record.partition,
            record.last_offset,
            last.timestamp / 1000.0,
            last.timestamp_type,
            [],
            None,
            cast(Any, record),
            None,
            0,
            0,
            TP(*tp),
            generation_id=self.app.consumer_generation_id,
        )

    # -- commits: the end of the done prefix of batches ---------------------------------------------

    def _filter_tps_with_pending_acks(self, topics: Any = None) -> Iterator[Any]:
        tps = {*super()._filter_tps_with_pending_acks(), *self.handed.partitions()}
        return (tp for tp in tps if topics is None or tp in topics or tp.topic in topics)

    def _new_offset(self, tp: Any) -> int | None:
        if not self._is_events(tp):
            offset: int | None = super()._new_offset(tp)
            return offset
        # Only done batches may be committed. Faust also acknowledges a batch whose agent raised an exception.
        self._acked.pop(tp, None)
        self._acked_index.pop(tp, None)
        return self.handed.end_of_done(tp)

    async def _add_gap(self, tp: Any, offset_from: int, offset_to: int) -> None:
        if not self._is_events(tp):
            await super()._add_gap(tp, offset_from, offset_to)

    async def on_partitions_revoked(self, revoked: set[Any]) -> None:
        """Remove the batches of revoked partitions: their next owner reads them again."""
        self.handed.forget(revoked)
        await super().on_partitions_revoked(revoked)
        self.handed.forget(revoked)  # again: a fetch may have brought batches meanwhile
        self._fetched.clear()

    async def perform_seek(self) -> None:
        """Seek the committed offsets, so that later batches are read again.

        Faust leaves partitions without a committed offset where they are. Records that were fetched and then
        dropped in a rebalance would never be read, so these partitions go back to their beginning.
        """
        self.handed.forget()
        await super().perform_seek()
        assigned = [tp for tp in self.assignment() if self._is_events(tp)]
        for tp in self.refolded:
            self._read_offset[tp] = None
        fresh = [
            KafkaPartition(*tp) for tp in assigned if not self._committed_offset[tp] or tp in self.refolded
        ]
        if fresh:
            await self._thread.seek_to_beginning(*fresh)
        self._fetched.clear()

    def pending(self, tp: TP) -> bool:
        return tp in self._fetched or self.handed.waiting(tp)

    async def position(self, tp: TP) -> int | None:
        with suppress(IllegalStateError):
            offset: int | None = await super().position(tp)
            return offset
        return None

    async def committed(self, tp: TP) -> Committed:
        place = KafkaPartition(tp.topic, tp.partition)
        coordinator = self._thread._ensure_consumer()._coordinator
        result = await self._thread.call_thread(coordinator.fetch_committed_offsets, [place])
        if place not in result or result[place].offset < 0:
            return Committed(None, by_others=False)
        told = (
            result[place].metadata == BY_WORKER or self.transport.settings.embedded
        )  # which keeps no metadata
        return Committed(result[place].offset, by_others=not told)

    async def highwaters(self, *partitions: Any) -> Mapping[Any, int]:
        """Ends of the partitions; on the embedded broker by fetches (`streamer.storage.log`)."""
        if self.transport.settings.embedded:
            return await ends_of(self.transport.settings, partitions)
        reported: Mapping[Any, int] = await super().highwaters(*partitions)
        return reported


class Transport(driver.Transport):
    Consumer = Consumer
    event_topic: str
    fetch_wait_ms: int
    settings: Settings


def batch_transport(app: faust.App, settings: Settings, event_topic: str) -> Transport:
    transport = Transport([URL(f"kafka://{server}") for server in settings.bootstrap.split(",")], app)
    transport.event_topic = event_topic
    transport.settings = settings
    transport.fetch_wait_ms = EMBEDDED_FETCH_WAIT_MS if settings.embedded else FETCH_WAIT_MS
    return transport


# -----------------------------------------------------------------------------
# The batches of the event topic, for the processor.


class BatchStream:
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __aiter__(self) -> AsyncIterator[FetchedBatch]:
        batches: AsyncIterator[FetchedBatch] = aiter(self._stream)
        return batches

    @property
    def drained(self) -> bool:
        return bool(self._stream.channel.queue.empty())


class AsFetched(faust.Schema[Any, Any]):
    """Schema of the event topic. It decodes nothing: the pipeline rejects bad bytes."""

    def loads_key(self, app: Any, message: Any, **_: Any) -> Any:
        return message.key

    def loads_value(self, app: Any, message: Any, **_: Any) -> Any:
        return message.value


# -----------------------------------------------------------------------------
# Everything that a worker writes to Kafka passes through here, and is awaited.
#
# Faust only logs a failed send, and its flush does not wait for everything. So a worker writes through an
# outbox, in record batches (3.8 microseconds a record, against 92 with Faust's `send_soon`).


class RecordTooLarge(ValueError):
    """A record too large for a worker or for the broker; it was not written."""

    def __init__(self, record: ProducerRecord, limit: str) -> None:
        super().__init__(f"a record for {record.topic} has {record.size:,} bytes, {limit}")


def fitting(records: list[ProducerRecord]) -> list[ProducerRecord]:
    for record in records:
        if record.size > MAX_RECORD_BYTES:
            raise RecordTooLarge(record, f"at most {MAX_RECORD_BYTES:,} are written")
    return records


class TopicRecreated(RuntimeError):
    def __init__(self, topic: str) -> None:
        super().__init__(f"topic {topic} was deleted and recreated. The worker ends; the next one fills it")


class Producer:
    """The outbox of the worker, which tracks its own offsets and the ranges that others have written.

    It is idempotent if the broker can be; the embedded one cannot. A request that timed out and took effect
    later must not put an old page over a newer one. A wrong clock does not end the worker.

    `written` is called with acknowledged records: topic, partition, offset of the first, records. Set it
    before the first write.
    """

    written: Callable[[str, int, int, Sequence[ProducerRecord]], None]

    def __init__(self, settings: Settings, check_alive: Callable[[], None]) -> None:
        self._idempotent = not settings.embedded
        self._written_to: dict[tuple[str, int], int] = {}
        self._ends: dict[tuple[str, int], int] = {}
        self._foreign_ranges: dict[tuple[str, int], list[tuple[int, int]]] = {}
        self.outbox = Outbox(
            settings,
            patience_seconds=BROKER_PATIENCE_SECONDS,
            idempotent=self._idempotent,
            keeps_time=False,
            check=check_alive,
            stored=self._note,
        )
        self.start, self.stop = self.outbox.start, self.outbox.stop

    async def write(self, records: Iterable[ProducerRecord]) -> None:
        """Write, and wait until the broker has acknowledged every record.

        Raises RecordsRefused if some are too large for the broker; all others are written. After a KafkaError
        some may be written.
        """
        records = list(records)
        refused = []
        for record, result in zip(records, await self.outbox.write(records), strict=True):
            if isinstance(result, NotStored):
                if not result.too_large:
                    raise result.error
                refused.append(record)
        if refused:
            raise RecordsRefused(refused)

    def written_to(self, topic: str, partition: int) -> int:
        return self._written_to.get((topic, partition), 0)

    def answered_to(self, topic: str, partition: int) -> int:
        """`written_to`, or a lower offset that others wrote and that is not yet checked."""
        foreign = self._foreign_ranges.get((topic, partition), ())
        return min([self.written_to(topic, partition), *(start for start, _ in foreign)])

    def note_ends(self, ends: Mapping[tuple[str, int], int]) -> None:
        self._ends |= ends
        for place in ends:
            self._foreign_ranges.pop(place, None)

    def take_foreign_ranges(self, topic: str, partition: int, end: int) -> list[tuple[int, int]]:
        """Take the ranges of offsets, up to `end`, that others wrote among ours."""
        place = (topic, partition)
        known = self._ends.setdefault(place, end)
        self._ends[place] = max(known, end)
        tail = [(known, end)] if end > known else []
        return self._foreign_ranges.pop(place, []) + tail

    def note_foreign_range(self, topic: str, partition: int, start: int, stop: int) -> None:
        self._foreign_ranges.setdefault((topic, partition), []).append((start, stop))

    def _note(self, topic: str, partition: int, first: int, records: Sequence[ProducerRecord]) -> None:
        self.written(topic, partition, first, records)
        place, end = (topic, partition), first + len(records)
        if self._idempotent and 0 <= first < self.written_to(topic, partition):
            raise TopicRecreated(topic)
        self._written_to[place] = max(self.written_to(topic, partition), end)
        if place in self._ends:
            if first > self._ends[place]:
                self.note_foreign_range(topic, partition, self._ends[place], first)
            self._ends[place] = max(self._ends[place], end)


# -----------------------------------------------------------------------------
# The clock of the worker's intervals, which runs on while the machine is suspended.


def clock() -> float:
    """Seconds that pass even while the process or machine sleeps."""
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boottime is None else time.clock_gettime(boottime)


# -----------------------------------------------------------------------------
# A worker that was stopped for longer than its session is a zombie: it ends before it writes again.
#
# While it did not run (SIGSTOP, a suspended laptop, a starved machine) its partitions went to another worker.
# Its pages would be harmless, because a writer rewrites only its own, but its summaries would be outdated.


WATCHDOG_TICK_SECONDS = 0.2
EXIT_CODE = 75
"""EX_TEMPFAIL: restart the worker."""


def _exit(gap_seconds: float) -> None:
    log.critical(
        "was suspended for %.1f s, longer than its session; its partitions now belong to another worker. "
        "Exiting without writing; start it again",
        gap_seconds,
    )
    sys.stderr.flush()
    os._exit(EXIT_CODE)


class Watchdog:
    """Ends the process if it stood still for longer than its session, in seconds.

    A separate thread records the time, so that a long computation does not count as a stop. In tests `expire`
    replaces the end of the process.

    >>> seconds = iter([0.0, 1.0, 11.5])
    >>> watchdog = Watchdog(10, now=lambda: next(seconds), expire=lambda gap: print("expired after", gap))
    >>> watchdog.check()
    >>> watchdog.check()
    expired after 11.5
    """

    def __init__(
        self,
        session_seconds: float,
        *,
        now: Callable[[], float] = clock,
        expire: Callable[[float], None] = _exit,
    ) -> None:
        self._session = session_seconds
        self._now = now
        self._expire = expire
        self._last = now()
        self._stopped = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._note_time, name="watchdog", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def check(self) -> None:
        """End the process if it did not run for a whole session; call it before every write."""
        gap = self._now() - self._last
        if gap > self._session:
            self._expire(gap)

    def _note_time(self) -> None:
        while not self._stopped.wait(WATCHDOG_TICK_SECONDS):
            self.check()
            self._last = self._now()
