"""What happens to a batch of events: fold, save its pages, publish what changed, finish.

The loop that calls it stands in `agents`: fold, save, publish, finish. Batches that were fetched by then are
processed together, whatever their partitions: they share their writes. State pages are acknowledged first.
Rejections and forwarded records follow. Then come summaries, scored trials and news, and Redis beside them.
That is done at once or, with a backlog, for several turns together (`PublishRate`) and some runs at a time
(`PublishQueue`). Batches are done when all runs that they touched are published and the pages that others
replaced are removed. Whatever fails or is cancelled, nothing more is acknowledged: the worker ends, and the
next owner folds the batches again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from streamer.folding.fold import Folded
from streamer.folding.slots import RunUpdate
from streamer.schemas.wire import LogRecord
from streamer.storage.kafka import partition_of, said_of
from streamer.storage.outbox import ProducerRecord
from streamer.storage.redis import RedisSink
from streamer.worker.metrics import Metrics
from streamer.worker.partition import Partition, Pending, PublishRate, RecordEncoder
from streamer.worker.producer import Producer, RecordsRefused, fitting
from streamer.worker.publisher import (
    CheckpointWriter,
    IdleRuns,
    QuarantineWriter,
    SummaryPublisher,
    publishable,
    run_of,
)
from streamer.worker.tables import Tables
from streamer.worker.transport import BatchStream, FetchedBatch, portions

# -----------------------------------------------------------------------------
# Where a run belongs, and records that came to the wrong place.
#
# Producers' default partitioners differ, so equal keys do not mean equal partitions. A record that does not
# lie in partition murmur2(run_id) mod N is sent there. Only where it lies decides that, no header: clients
# write headers too. The copy lies right, so it is never sent on, as long as workers agree about N. They do:
# each checks N against the topics whenever partitions are assigned, and ends if it differs.


FORWARDED = "streamer-forwarded"
"""Header of a copy, for people who look at the log: partition and offset of the original."""


def reroute(misplaced: list[tuple[LogRecord, str]], partitions: int) -> list[ProducerRecord]:
    """Misplaced records with their run ids -> what to send on."""
    return [_copy(record, run_id, partition_of(run_id, partitions)) for record, run_id in misplaced]


def _copy(record: LogRecord, run_id: str, target: int) -> ProducerRecord:
    origin = f"{record.partition}:{record.offset}".encode()
    return ProducerRecord(
        record.topic,
        target,
        run_id.encode("utf-8"),
        record.value,
        record.timestamp if record.timestamp >= 0 else None,
        [*(header for header in record.headers if header[0] != FORWARDED), (FORWARDED, origin)],
    )


# -----------------------------------------------------------------------------
# The processor: batches of events in, everything that follows from them out, then done.


log = logging.getLogger(__name__)

RECORDS_TOGETHER = 4_000
"""Batches with so many records, or more, are not held back for others."""

MOST_SCORED_WAITING = 2_000
"""Scored trials that wait for the next publication under load; more would grow with the backlog."""

MOST_UNCOUNTED = 50_000
"""Trials of a partition's runs that wait to be counted: about 25 MB."""

OVERDUE_SECONDS = 60.0
"""After so long in the queue, runs are published faster: a crash would fold their batches again."""


@dataclass(frozen=True, slots=True)
class Together:
    """Fetched batches, of whatever partitions, that are processed together.

    Attributes:
        batches: in the order of their arrival; at least one.
        ownership: the one under which they came.
    """

    batches: list[FetchedBatch]
    ownership: int


@dataclass(slots=True)
class Changes:
    """What folding batches brought about, until it is published.

    Attributes:
        batches: that were folded; [] if another worker owns their partitions now.
        pages: changed state pages, to be saved first.
        replaced: by partition, tombstones of the pages that those replace; sent when all is published.
        touched: by partition, runs that changed.
        more_than_starts: runs of which more changed than the list of trials in flight.
        asides: rejections, and events for other partitions.
        next_offsets: by partition, the offset after the last event.
    """

    batches: list[FetchedBatch] = field(default_factory=list)
    pages: list[ProducerRecord] = field(default_factory=list)
    replaced: dict[int, list[ProducerRecord]] = field(default_factory=dict)
    touched: dict[int, set[str]] = field(default_factory=dict)
    more_than_starts: set[str] = field(default_factory=set)
    asides: list[ProducerRecord] = field(default_factory=list)
    next_offsets: dict[int, int] = field(default_factory=dict)


@dataclass(eq=False, repr=False)
class Processor:
    """Folds batches into the partitions this worker owns, and publishes what changed.

    Attributes:
        partitions: by number; replaced by a rebuild after every rebalance (`own`).
        ownership: counts those rebuilds.
        publish_rate: how often to publish while there is a backlog; one for all partitions.
        idle: closes runs and opens them again.
        quarantine_writer: writes down which runs are set apart.
        summary_publisher: publishes what changed.
        lock: held while a batch, a rebuild or the end of a catch-up is at work.

    Args:
        crash: ends the worker; gets the reason.
        count: partitions of the event topic.
        check_alive: ends the process if it was stopped for longer than its session.
        waiting: how many records of a partition are known to wait; gets it and the next offset.
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
        self.publish_rate = PublishRate()
        self.lock = asyncio.Lock()
        shared = (self.tables, self.encoder, self.producer, self.sink)
        self.quarantine_writer = QuarantineWriter(*shared)
        self.summary_publisher = SummaryPublisher(
            *shared, self.check_alive, self.idle, self.measures, self.checkpoints, self.quarantine_writer
        )

    async def together(self, stream: BatchStream) -> AsyncIterator[Together]:
        """Batches as the stream brings them, those together that are there at once.

        Args:
            stream: has `drained`, true if its next batch has not arrived yet.
        """
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
        """Everything that is done here, or nothing: an error ends the worker, and this never returns.

        Holds the lock, so that no rebuild, repair or end of a catch-up comes between two steps.
        """
        try:
            async with self.lock:
                with self.all_or_nothing():
                    yield
        except Exception as error:
            await self.give_up(error)

    def own(self, partitions: dict[int, Partition]) -> None:
        """Take over these partitions, as they were recovered; the caller holds the lock."""
        self.partitions = partitions
        self.ownership += 1

    async def give_up(self, error: Exception) -> None:
        """End the worker; never returns, so that nothing that was not done counts as done."""
        log.critical("the worker ends: %s: %s", type(error).__name__, said_of(error))
        await self.crash(error)
        await asyncio.Event().wait()

    async def publish_passed(self) -> None:
        """Publish the partitions that have passed what was recovered; the caller holds the lock."""
        with self.all_or_nothing():
            for partition in self._owned():
                if not (partition.caught_up or partition.abandoned) and partition.passed:
                    await self.summary_publisher.publish_recovered(partition)

    def run_ids(self) -> Iterator[str]:
        """Every run of the partitions that this worker owns and has caught up with."""
        for partition in self._owned():
            if partition.caught_up:
                yield from partition.run_ids()

    def current(self, run_id: str) -> RunUpdate:
        """All of such a run as published; nothing of any other run."""
        partition = self.partitions.get(partition_of(run_id, self.count))
        if partition and partition.caught_up:
            return self.idle.current(partition, run_id)
        return RunUpdate(run_id)

    def is_due(self) -> bool:
        """Whether it is time to publish, in view of the backlog."""
        stored = self._owned()
        waiting = sum(self.waiting(partition.number, partition.position) for partition in stored)
        overdue = any(partition.publish_queue.pending_seconds > OVERDUE_SECONDS for partition in stored)
        return self.publish_rate.due(waiting, overdue=overdue)

    async def flush(self, *, seconds: float | None = None) -> None:
        """Publish what earlier batches left in the queue; the caller holds the lock.

        Args:
            seconds: the last time, for so long, also with a backlog, and from now on nothing rests; None:
                until a backlog forms.
        """
        if seconds is not None:
            for partition in self._owned():
                partition.publish_queue.end_rest()
        with self.all_or_nothing():
            async for done in self._publish_queued(seconds):
                await self.finish(done)

    async def _publish_queued(self, seconds: float | None = None) -> AsyncIterator[list[Pending]]:
        """Publish some runs at a time; what is done after each write."""
        start = self.publish_rate.now()
        while publishable(self._owned()):
            began = self.publish_rate.now()
            published, done = await self.summary_publisher.flush(self._owned())
            if published:
                self.publish_rate.published(self.publish_rate.now() - began)
            yield done
            if self.publish_rate.now() - start > seconds if seconds is not None else not self.is_due():
                return

    def _owned(self) -> list[Partition]:
        return list(self.partitions.values())

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Abandon the partitions if what is done here ends by an error or a cancellation.

        What was cut for a publication is drained: another one would find nothing to publish, and count
        batches as done.
        """
        stored = self._owned()
        try:
            yield
        except BaseException:
            for partition in stored:
                partition.abandoned = True
            raise

    async def fold(self, batch: Together) -> Changes:
        """Fold the batch into the partitions, and take from the runs what is to be saved.

        Nothing comes of a batch that was fetched before a rebalance: its records will be read again.
        """
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
            changes.more_than_starts |= folded.more_than_starts
            changes.asides += self._aside(partition, folded)
        self.measures.fold_took(time.perf_counter() - began)
        for number, runs in changes.touched.items():
            writes = self._pages(number, runs)
            changes.pages += [row for row in writes if row.value is not None]
            changes.replaced[number] = [row for row in writes if row.value is None]
        return changes

    async def _fold(self, partition: Partition, records: list[Any]) -> Folded:
        """Fold in portions, so that the event loop gets its turns however long the records take.

        Rejections and misplaced records before `partition.silent_to` are left out: they were written before.
        """
        folded = Folded()
        for portion in portions(records, partition.silent_to):
            result = partition.pipeline.fold(portion)
            self._note(partition, result)
            if result.of_closed:
                opened = await self._fold_closed(partition, result)
                result.touched |= opened.touched
                result.more_than_starts |= opened.more_than_starts
            folded.touched |= result.touched
            folded.more_than_starts |= result.more_than_starts
            if portion[0].offset >= partition.silent_to:
                folded.rejections += result.rejections
                folded.misplaced += result.misplaced
            await asyncio.sleep(0)
        return folded

    async def _fold_closed(self, partition: Partition, result: Folded) -> Folded:
        """Open the runs again whose records were handed back, and fold those."""
        for run_id in dict.fromkeys(run_id for _, run_id in result.of_closed):
            await self.idle.open(partition, run_id)
        opened = partition.pipeline.fold(record for record, _ in result.of_closed)
        self._note(partition, opened)
        return opened

    def _note(self, partition: Partition, folded: Folded) -> None:
        """Count what a fold reported; a run in quarantine that was deleted is to be folded again."""
        self.measures.folded(folded)
        partition.quarantined_events += folded.quarantined_events
        partition.let_go_of_failed()
        partition.deletions |= folded.deletions

    def _pages(self, number: int, runs: Iterable[str]) -> list[ProducerRecord]:
        """The changed state pages of runs, and the tombstones of those that they replace."""
        partition = self.partitions[number]
        writes: list[ProducerRecord] = []
        for run_id in filter(partition.pipeline.knows, runs):
            with partition.guard(run_id):
                pages = partition.pipeline.run(run_id).take_pages()
                writes += fitting([self.tables.trials.put(number, p.key, p.value) for p in pages])
        return writes

    async def save(self, number: int, run_id: str) -> list[ProducerRecord]:
        """Save the pages of a run outside of a batch; the tombstones of those that they replace."""
        writes = self._pages(number, [run_id])
        await self.tables.trials.save([row for row in writes if row.value is not None], self.quarantine)
        known = self.partitions[number].pipeline.knows(run_id)
        return [row for row in writes if row.value is None and known]

    def quarantine(self, refusal: RecordsRefused) -> None:
        """Set the runs apart of which the broker refuses a page for its size."""
        self.quarantine_writer.refused(self.partitions, refusal, {})

    async def publish(self, changes: Changes) -> AsyncIterator[list[Pending]]:
        """Publish what follows from a batch whose pages are saved, if it is time; yields what is done then.

        A batch is done when every run that it touched is published. That may be this batch, and earlier ones.
        """
        if not changes.batches:
            return
        await self.quarantine_writer.write_aside(changes.asides)
        for batch in changes.batches:
            partition = self.partitions[batch.partition]
            partition.position = batch.last_offset + 1
            partition.publish_queue.add_batch(batch)
            batch.release()
        for number, touched in changes.touched.items():
            await self._queue(self.partitions[number], touched, changes)
        await self.publish_passed()
        if self.is_due():
            async for done in self._publish_queued():
                yield done
        await self._work_off_what_piled_up(changes.touched)

    async def _queue(self, partition: Partition, touched: set[str], changes: Changes) -> None:
        """Let runs wait for their publication, and with them the tombstones of replaced pages."""
        known = partition.pipeline.knows
        replaced = [row for row in changes.replaced[partition.number] if known(run_of(row))]
        await self.quarantine_writer.admit(partition)
        runs = set(filter(known, touched))
        partition.publish_queue.add_replaced(replaced)
        self.idle.touch(partition, runs)
        if partition.caught_up:
            partition.publish_queue.add_runs(runs & changes.more_than_starts)
            partition.publish_queue.add_started(runs - changes.more_than_starts)
        else:  # nothing is published, and no batch is done
            partition.touched_in_catch_up |= runs

    async def finish(self, done: Sequence[Pending]) -> None:
        """Remove the pages that others replaced, and let the offsets of these batches be committed."""
        await self.summary_publisher.finish(done)

    async def _work_off_what_piled_up(self, numbers: Iterable[int]) -> None:
        """Runs that wait for their summaries shall not take more memory the longer they wait."""
        for number in numbers:
            partition = self.partitions[number]
            pipeline = partition.pipeline
            waiting = [pipeline.run(run_id) for run_id in partition.publish_queue.runs]
            if sum(run.scored_waiting for run in waiting) > MOST_SCORED_WAITING:
                await self.summary_publisher.publish_scored(partition, partition.publish_queue.runs)
            runs = [pipeline.run(run_id).state for run_id in partition.publish_queue.runs]
            if sum(run.counts.waiting for run in runs) > MOST_UNCOUNTED:
                for run in runs:
                    with partition.guard(run.run_id):
                        run.count()
                    await asyncio.sleep(0)

    def _aside(self, partition: Partition, folded: Folded) -> list[ProducerRecord]:
        """Rejections, and records that go to another partition."""
        rejections = self.encoder.of_rejections(partition.number, folded.rejections)
        return reroute(folded.misplaced, self.count) + rejections
