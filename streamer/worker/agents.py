"""The agent of the events and its steps: fold a batch, queue the runs it changed, publish those that are due.

Three things differ from other agents of Faust:

- An event is everything that one fetch brought of one partition. Batches that are ready together are folded
  together. A run is published at once, or 0.5 s after its last publication. With a backlog the worker folds
  for ten seconds between two rounds.
- Table writes return after the acknowledgement (`save`). Faust's cannot be awaited, and it only logs
  failures. State pages of a run are acknowledged first. Summaries, scored trials and notifications follow,
  with Redis in parallel.
- An offset may be committed only after `finish`: when all runs of its batch are published and the replaced
  pages are removed. Faust acknowledges after an exception, too. Here, after a failure nothing more is
  acknowledged: the worker ends, and the next owner folds the batches again.

docs/engines.md has the reasons. docs/upstream has the faults behind them, each with a script.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from math import inf
from typing import Any

from streamer.folding.fold import Folded
from streamer.folding.slots import RunUpdate
from streamer.storage.kafka import partition_of, said_of
from streamer.storage.outbox import ProducerRecord
from streamer.storage.redis import RedisSink
from streamer.worker.metrics import EFFECTS, Metrics
from streamer.worker.partition import Partition, RecordEncoder, reroute
from streamer.worker.publisher import (
    CheckpointWriter,
    IdleRuns,
    QuarantineWriter,
    SummaryPublisher,
    publishable,
)
from streamer.worker.tables import Tables
from streamer.worker.transport import BatchStream, FetchedBatch, Producer, StreamerApp, clock, portions

# -----------------------------------------------------------------------------
# The processor: batches of events in, all their results out, then done.


log = logging.getLogger(__name__)

RECORDS_TOGETHER = 4_000

MOST_SCORED_WAITING = 2_000
"""Scored trials that may wait for the next publication under load."""

MOST_UNCOUNTED = 50_000
"""Trials of a partition's runs that may wait to be counted: about 25 MB."""

MOST_UNSAVED = 5_000
"""Slots of a partition's runs whose state pages may wait to be saved: usually 5 MB of pages per write."""

BACKLOG_RECORDS = 1_000
"""Waiting records that count as a backlog: at least a tenth of a second of work."""

BACKLOG_SECONDS = 10.0
"""How long a worker with a backlog folds between two rounds, as each summary replaces the one before.

Against 2 s, a drain of 32 runs takes 15 % less time.
"""

ROUND_SECONDS = 2.0
"""Time after which a round of publications ends with its current write. Wide runs may take longer."""

SHORTEST_WAIT_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class Together:
    batches: list[FetchedBatch]
    ownership: int


@dataclass(slots=True)
class Changes:
    batches: list[FetchedBatch] = field(default_factory=list)
    touched: dict[int, set[str]] = field(default_factory=dict)
    asides: list[ProducerRecord] = field(default_factory=list)
    next_offsets: dict[int, int] = field(default_factory=dict)


@dataclass(eq=False, repr=False)
class Processor:
    """Folds batches into the partitions that this worker owns, and publishes changes.

    A rebuild replaces `partitions` after every rebalance (`own`), which `ownership` counts. The `lock` is
    held during a batch, a rebuild or the end of a catch-up. `check_alive` ends the process if it was stopped
    for longer than its session.
    """

    crash: Callable[[Exception], Awaitable[None]]
    count: int
    tables: Tables
    encoder: RecordEncoder
    producer: Producer
    sink: RedisSink
    check_alive: Callable[[], None]
    waiting: Callable[[int, int], int]
    idle: IdleRuns
    measures: Metrics
    checkpoints: CheckpointWriter

    def __post_init__(self) -> None:
        self.partitions: dict[int, Partition] = {}
        self.ownership = 0
        self.now = clock
        self._rest_until = -inf
        self._queued = asyncio.Event()
        self.lock = asyncio.Lock()
        shared = (self.tables, self.encoder, self.producer, self.sink)
        self.quarantine_writer = QuarantineWriter(*shared)
        self.summary_publisher = SummaryPublisher(
            *shared, self.check_alive, self.idle, self.measures, self.checkpoints, self.quarantine_writer
        )

    async def together(self, stream: BatchStream) -> AsyncIterator[Together]:
        waiting: list[FetchedBatch] = []
        ownership = self.ownership
        async for one in stream:
            if ownership != self.ownership:
                ownership, waiting = self.ownership, []
            waiting.append(one)
            if stream.drained or sum(len(batch.records) for batch in waiting) >= RECORDS_TOGETHER:
                batches, waiting = waiting, []
                yield Together(batches, ownership)

    @asynccontextmanager
    async def whole(self) -> AsyncIterator[None]:
        """Everything in the block, or nothing: an error ends the worker, and this never returns.

        It holds the lock, so that no rebuild, repair or end of a catch-up comes between two steps.
        """
        try:
            async with self.lock:
                with self.all_or_nothing():
                    yield
        except Exception as error:
            await self.give_up(error)

    def own(self, partitions: dict[int, Partition]) -> None:
        self.partitions = partitions
        self.ownership += 1

    async def give_up(self, error: Exception) -> None:
        log.critical("the worker ends: %s: %s", type(error).__name__, said_of(error))
        await self.crash(error)
        await asyncio.Event().wait()

    async def publish_passed(self) -> None:
        """Publish the partitions that have passed their recovered state; the caller holds the lock."""
        with self.all_or_nothing():
            for partition in self._owned():
                if not (partition.caught_up or partition.abandoned) and partition.passed:
                    await self.summary_publisher.publish_recovered(partition)

    def run_ids(self) -> Iterator[str]:
        for partition in self._owned():
            if partition.caught_up:
                yield from partition.run_ids()

    def current(self, run_id: str) -> RunUpdate:
        """A whole run as published; an empty update if this worker has not caught up with it."""
        partition = self.partitions.get(partition_of(run_id, self.count))
        if partition and partition.caught_up:
            return self.idle.current(partition, run_id)
        return RunUpdate(run_id)

    async def until_due(self) -> None:
        """Wait until a run may be due; a newly queued batch may make one due."""
        while (left := self._seconds_left()) > 0:
            self._queued.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(max(left, SHORTEST_WAIT_SECONDS) if left < inf else None):
                    await self._queued.wait()

    async def publish_due(self, go_on: Callable[[], bool] = lambda: True) -> None:
        """Publish the runs that are due; `go_on` is called before each write. The caller holds the lock."""
        with self.all_or_nothing():
            if self._rest_left() <= 0:
                await self._publish(ROUND_SECONDS, go_on, in_parts=not self._is_behind())
            if go_on():
                await self._relieve()

    async def publish_last(self, seconds: float) -> None:
        """Publish all waiting runs as far as time allows, without a rest: there is no later chance."""
        for partition in self._owned():
            partition.publish_queue.end_rests()
        with self.all_or_nothing():
            await self._publish(seconds)

    async def _publish(
        self, seconds: float, go_on: Callable[[], bool] = lambda: True, *, in_parts: bool = False
    ) -> None:
        began = self.now()
        while go_on() and await self.summary_publisher.flush(self._owned(), in_parts=in_parts):
            ended = self.now()
            self._rest_until = ended + BACKLOG_SECONDS
            if ended - began > seconds:
                return

    def _rest_left(self) -> float:
        left = self._rest_until - self.now()
        return left if left > 0 and self._is_behind() else 0.0

    def _is_behind(self) -> bool:
        waiting = sum(self.waiting(partition.number, partition.position) for partition in self._owned())
        return waiting > BACKLOG_RECORDS

    def _seconds_left(self) -> float:
        ready = publishable(self._owned())
        left = min((partition.publish_queue.seconds_left() for partition in ready), default=inf)
        return max(left, self._rest_left()) if left < inf else left

    def _owned(self) -> list[Partition]:
        return list(self.partitions.values())

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Abandon the partitions if the block ends with an error or cancellation.

        Changes that were taken for a publication are gone, so a second attempt would publish nothing, and
        finish the batches.
        """
        stored = self._owned()
        try:
            yield
        except BaseException:
            for partition in stored:
                partition.abandoned = True
            raise

    async def fold(self, batch: Together) -> Changes:
        """Fold the batch, unless it was fetched before a rebalance: its records will be read again."""
        changes = Changes()
        if batch.ownership != self.ownership or any(partition.abandoned for partition in self._owned()):
            return changes
        self.check_alive()
        began = time.perf_counter()
        for one in batch.batches:
            partition = self.partitions[one.partition]
            expected = changes.next_offsets.get(one.partition, partition.position)
            changes.next_offsets[one.partition] = one.last_offset + 1
            await self.checkpoints.note_deleted(partition, expected, one.records[0].offset)
            folded = await self._fold(partition, one.records)
            changes.batches.append(one)
            changes.touched.setdefault(partition.number, set()).update(folded.touched)
            changes.asides += self._aside(partition, folded)
        self.measures.fold.observe(time.perf_counter() - began)
        return changes

    async def _fold(self, partition: Partition, records: list[Any]) -> Folded:
        """Fold in portions, so that the event loop gets its turns however long the records take.

        Leaves out rejections and misplaced records before `partition.silent_to`, which are already written.
        """
        folded = Folded()
        for portion in portions(records, partition.silent_to):
            result = partition.pipeline.fold(portion)
            self._note(partition, result)
            if result.of_closed:
                opened = await self._fold_closed(partition, result)
                result.touched |= opened.touched
            folded.touched |= result.touched
            if portion[0].offset >= partition.silent_to:
                folded.rejections += result.rejections
                folded.misplaced += result.misplaced
            await asyncio.sleep(0)
        return folded

    async def _fold_closed(self, partition: Partition, result: Folded) -> Folded:
        for run_id in dict.fromkeys(run_id for _, run_id in result.of_closed):
            await self.idle.open(partition, run_id)
        opened = partition.pipeline.fold(record for record, _ in result.of_closed)
        self._note(partition, opened)
        return opened

    def _note(self, partition: Partition, folded: Folded) -> None:
        measures = self.measures
        for name, effect in EFFECTS.items():
            if count := getattr(folded, name):
                measures.events.labels(effect).inc(count)
        measures.rejections.inc(len(folded.rejections))
        measures.missing_times.inc(folded.missing_times)
        measures.forwarded.inc(len(folded.misplaced))
        partition.quarantined_events += folded.quarantined_events

    async def queue(self, changes: Changes) -> None:
        """Queue the batch and the runs that it changed, and write its rejections."""
        if not changes.batches:
            return
        await self.quarantine_writer.write_aside(changes.asides)
        batches: dict[int, list[FetchedBatch]] = {}
        for batch in changes.batches:
            batches.setdefault(batch.partition, []).append(batch)
            batch.release()
        for number, touched in changes.touched.items():
            partition = self.partitions[number]
            await self.quarantine_writer.admit(partition)
            runs = set(filter(partition.pipeline.knows, touched))
            self.idle.touch(partition, runs)
            partition.position = changes.next_offsets[number]
            self.enqueue(partition, runs, batches[number])
        await self.publish_passed()

    def enqueue(
        self, partition: Partition, runs: Iterable[str], batches: Iterable[FetchedBatch] = ()
    ) -> None:
        """Queue changed runs, and wake `until_due`, which waits without an end while no run is queued."""
        partition.publish_queue.add(runs, batches)
        self._queued.set()

    async def _relieve(self) -> None:
        for partition in self._owned():
            if partition.abandoned:
                continue
            runs = list(filter(partition.pipeline.knows, partition.publish_queue.runs))
            states = [partition.pipeline.run(run_id).state for run_id in runs]
            scored = sum(state.changes.scored_waiting for state in states) if partition.caught_up else 0
            unsaved = sum(state.changes.slots_waiting for state in states)
            if scored > MOST_SCORED_WAITING or unsaved > MOST_UNSAVED:
                unsaved_runs = [state.run_id for state in states if state.changes.slots_waiting]
                replaced = await self.summary_publisher.save((partition, run_id) for run_id in unsaved_runs)
                partition.publish_queue.add_replaced(replaced)
                if partition.caught_up:
                    await self.summary_publisher.publish_scored(partition, runs)
            if sum(state.counts.waiting for state in states) > MOST_UNCOUNTED:
                for state in states:
                    with partition.guard(state.run_id):
                        state.count()
                    await asyncio.sleep(0)

    def _aside(self, partition: Partition, folded: Folded) -> list[ProducerRecord]:
        rejections = self.encoder.of_rejections(partition.number, folded.rejections)
        return reroute(folded.misplaced, self.count) + rejections


# -----------------------------------------------------------------------------
# The Faust agent that takes a partition's batches through these steps.


def add_agent(app: StreamerApp, events: Any, processor: Processor) -> None:
    """Give the event topic its agent."""

    @app.agent(events, name="streamer.fold")
    async def fold(stream: Any) -> None:
        """Fold each batch, queue the runs that it touched, and publish those that are due."""
        batches = processor.together(BatchStream(stream))
        async for batch in batches:
            async with processor.whole():
                changes = await processor.fold(batch)
                await processor.queue(changes)
                await processor.publish_due()
