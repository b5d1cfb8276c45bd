"""Faust's Kafka transport, handing on one fetched batch of the event topic as one Faust event.

Nothing waits for a batch to fill: what one fetch brought is one batch, so the first record travels alone
and a backlog travels in thousands. Other topics (the changelogs) pass through unchanged.

A batch counts as acknowledged only when the processor has called `FetchedBatch.finish`: Faust itself also
acknowledges what raised an exception or was cancelled.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, cast

import faust
from aiokafka import TopicPartition as KafkaPartition
from aiokafka.errors import IllegalStateError
from aiokafka.structs import OffsetAndMetadata
from faust.transport.drivers import aiokafka as driver
from faust.types import TP, ConsumerMessage
from yarl import URL

from streamer.kafka.constants import FETCH_WAIT_MS
from streamer.kafka.consumer import AIOKafkaConsumer
from streamer.kafka.log import ends_of
from streamer.kafka.reader import stable_end
from streamer.settings import READ_COMMITTED, Settings
from streamer.worker.constants import (
    EMBEDDED_FETCH_WAIT_MS,
    FETCH_TURN_SECONDS,
    MAX_UNDONE_RECORDS,
)
from streamer.worker.faust.batches import FetchedBatch, HandedBatches
from streamer.worker.faust.event_consumer import Committed

BY_WORKER = "streamer"
"""Metadata of the offsets that workers commit; what else sets offsets does not know of it."""


class ConsumerThread(driver.AIOKafkaConsumerThread):
    """Faust's consumer thread, with a fetch_max_wait_ms of ours, and without what transactions abort.

    On the embedded broker it never leaves its group: its membership ends with its session. If the leader
    leaves while another member joins, that broker goes on naming the one that left as the leader. No member
    gets partitions from then on.
    """

    logger = logging.getLogger("faust.streamer")
    transport: Transport

    def _create_worker_consumer(self, transport: Any) -> AIOKafkaConsumer:
        consumer = super()._create_worker_consumer(transport)
        consumer._fetch_max_wait_ms = self.transport.fetch_wait_ms
        consumer._isolation_level = READ_COMMITTED
        commit = consumer.commit

        async def commit_as_worker(offsets: Mapping[KafkaPartition, Any]) -> None:
            await commit({tp: OffsetAndMetadata(to.offset, BY_WORKER) for tp, to in offsets.items()})

        consumer.commit = commit_as_worker
        return consumer

    async def on_start(self) -> None:
        """Start the consumer."""
        await super().on_start()
        if self.transport.settings.embedded:
            coordinator = self._ensure_consumer()._coordinator

            async def stay() -> None:
                coordinator.reset_generation()

            coordinator._maybe_leave_group = stay

    def highwater(self, tp: TP) -> Any:
        """Where a partition ends, open transactions left out; None before a fetch."""
        return stable_end(self._ensure_consumer(), tp)


class Consumer(driver.Consumer):
    """Faust's consumer with batches on the event topic. All of it runs in the main loop.

    Attributes:
        handed: the batches that were handed on.
        refolded: partitions that are read from their beginning, whatever offset is committed.
    """

    logger = logging.getLogger("faust.streamer")
    transport: Transport

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.handed = HandedBatches()
        self._fetched: dict[Any, FetchedBatch] = {}
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
        return self._in_batches(records or {}), active

    async def _getmany(self, active_partitions: Any, timeout: float) -> Any:  # noqa: ASYNC109
        """Faust hands its living set over: emptied meanwhile, it would mean all partitions, paused or not."""
        return await super()._getmany(set(active_partitions), min(timeout, FETCH_TURN_SECONDS))

    async def _put_back_dropped(self) -> None:
        """Faust drops what was fetched when it finds the partition paused: go back to where that began."""
        assigned = self.assignment() if self._fetched else set()
        dropped = {tp: batch.records[0].offset for tp, batch in self._fetched.items() if tp in assigned}
        self._fetched.clear()
        if dropped:
            with suppress(IllegalStateError):  # revoked this moment: read again by its next owner
                await self._thread.seek_wait({KafkaPartition(*tp): first for tp, first in dropped.items()})

    async def _wait_until_ebb(self, seconds: float) -> None:
        deadline = self.loop.time() + seconds
        while self.flow_active and not self.should_stop and self.handed.undone > MAX_UNDONE_RECORDS:
            if self.loop.time() > deadline:
                return
            await asyncio.sleep(0.002)

    def _in_batches(self, records: Mapping[Any, list[Any]]) -> dict[Any, list[Any]]:
        self._fetched = {
            TP(*tp): FetchedBatch(tp.topic, tp.partition, found)
            for tp, found in records.items()
            if found and self._is_events(tp)
        }
        return {tp: [self._fetched[tp]] if tp in self._fetched else found for tp, found in records.items()}

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
        self._acked.pop(tp, None)
        self._acked_index.pop(tp, None)
        return self.handed.end_of_done(tp)

    async def _add_gap(self, tp: Any, offset_from: int, offset_to: int) -> None:
        if not self._is_events(tp):
            await super()._add_gap(tp, offset_from, offset_to)

    async def on_partitions_revoked(self, revoked: set[Any]) -> None:
        """Forget the records that were handed on: the next owner of the partitions reads them again."""
        self.handed.forget(revoked)
        await super().on_partitions_revoked(revoked)
        self.handed.forget(revoked)
        self._fetched.clear()

    async def perform_seek(self) -> None:
        """Back to the committed offsets: what was handed on since is read again.

        Faust leaves partitions without a committed offset where they are. Records that were fetched of them
        and dropped in a rebalance would never be read, so they go back to their beginning.
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
        """True if events of the partition are fetched and not folded."""
        return tp in self._fetched or self.handed.waiting(tp)

    async def position(self, tp: TP) -> int | None:
        """Offset of the next record to fetch; None if the partition was revoked this moment."""
        with suppress(IllegalStateError):
            offset: int | None = await super().position(tp)
            return offset
        return None

    async def committed(self, tp: TP) -> Committed:
        """The group's committed offset of a partition, and who committed it."""
        place = KafkaPartition(tp.topic, tp.partition)
        coordinator = self._thread._ensure_consumer()._coordinator
        found = await self._thread.call_thread(coordinator.fetch_committed_offsets, [place])
        if place not in found or found[place].offset < 0:
            return Committed(None, by_others=False)
        told = (
            found[place].metadata == BY_WORKER or self.transport.settings.embedded
        )  # which keeps no metadata
        return Committed(found[place].offset, by_others=not told)

    async def highwaters(self, *partitions: Any) -> Mapping[Any, int]:
        """Ends of the partitions; on the embedded broker as fetches report them (`streamer.kafka.reader`)."""
        if self.transport.settings.embedded:
            return await ends_of(self.transport.settings, partitions)
        reported: Mapping[Any, int] = await super().highwaters(*partitions)
        return reported


class Transport(driver.Transport):
    """The transport of a worker's app; :func:`batch_transport` makes it."""

    Consumer = Consumer
    event_topic: str
    fetch_wait_ms: int
    settings: Settings


def batch_transport(app: faust.App, settings: Settings, event_topic: str) -> Transport:
    """The transport for this app and these settings."""
    transport = Transport([URL(f"kafka://{server}") for server in settings.bootstrap.split(",")], app)
    transport.event_topic = event_topic
    transport.settings = settings
    transport.fetch_wait_ms = EMBEDDED_FETCH_WAIT_MS if settings.embedded else FETCH_WAIT_MS
    return transport
