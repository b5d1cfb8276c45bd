"""The processor: one batch of events in, everything that follows from it out, then done.

Order within a batch: state pages are acknowledged first; then rejections and forwarded records; then
summaries, scored trials and news, and Redis beside them, at once or, with a backlog, for several batches
together (`pace`); then the pages that others replaced are removed, and the batch is done. Whatever fails,
nothing is acknowledged: the worker ends, and the batch is folded again by whoever comes next.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import faust

from streamer.aggregate.changes import Cut, SummaryChange
from streamer.pipeline import Folded
from streamer.sinks.redis import RedisSink
from streamer.worker.alive import Pulse
from streamer.worker.batches import Batch
from streamer.worker.coverage import mark_key
from streamer.worker.idle import IdleRuns
from streamer.worker.meter import Meter
from streamer.worker.output import Out, Output
from streamer.worker.pace import Pace
from streamer.worker.partition import Partition
from streamer.worker.placement import forward
from streamer.worker.publishing import Publisher
from streamer.worker.tables import Tables

log = logging.getLogger(__name__)

RUNS_PER_WRITE = 200
"""Runs published together, so that neither memory nor the loop suffers: about 30 MB of summaries."""

SCORED_PER_WRITE = 1_000
"""Scored trials published together: about 1 MB."""

MOST_SCORED_WAITING = 2_000
"""Scored trials that wait for the next publication under load; more would grow with the backlog."""

RECORDS_PER_TURN = 250
"""Records folded before the event loop gets its turn: about 25 ms."""


class Processor:
    """Folds batches into the partitions this worker owns and publishes what changed.

    Attributes:
        partitions: by number; replaced by a rebuild after every rebalance.
        pace: how often to publish while there is a backlog: one for all partitions, as they share the time.
        idle: closes runs and opens them again.
        lock: held while a batch, a rebuild or the end of a catch-up is at work.

    Args:
        count: partitions of the event topic.
        behind: whether more records of a partition are known to wait; gets it and the next offset.
    """

    def __init__(
        self,
        app: faust.App,
        count: int,
        *,
        tables: Tables,
        publisher: Publisher,
        output: Output,
        sink: RedisSink,
        pulse: Pulse,
        behind: Callable[[int, int], bool],
        idle: IdleRuns,
        meter: Meter,
    ) -> None:
        self.partitions: dict[int, Partition] = {}
        self.pace = Pace()
        self.lock = asyncio.Lock()
        self._app = app
        self._count = count
        self._tables = tables
        self._publisher = publisher
        self._output = output
        self._sink = sink
        self._pulse = pulse
        self._behind = behind
        self.idle = idle
        self._meter = meter

    async def run(self, stream: Any) -> None:
        """Process batches for as long as the stream gives any."""
        async for batch in stream:
            await self.handle(batch)

    async def handle(self, batch: Batch) -> None:
        """Process a batch; never returns if that failed."""
        try:
            async with self.lock:
                await self._process(batch)
        except Exception as error:
            await self.give_up(error)

    async def give_up(self, error: Exception) -> None:
        """End the worker; never returns, so that nothing that was not done counts as done."""
        log.critical("the worker ends: %s: %s", type(error).__name__, error)
        await self._app.crash(error)
        await asyncio.Event().wait()

    async def publish_passed(self) -> None:
        """Publish the partitions that have passed what was recovered; the caller holds the lock."""
        for partition in self.partitions.values():
            if not partition.caught_up and partition.passed:
                await self._publish_recovered(partition)

    def summaries(self) -> Iterator[SummaryChange]:
        """Everything this worker owns and has caught up with, as it stands."""
        for partition in list(self.partitions.values()):
            if partition.caught_up:
                yield from self.idle.summaries(partition)

    async def _process(self, batch: Batch) -> None:
        partition = self.partitions[batch.partition]
        self._pulse.check()
        next_offset = batch.last_offset + 1
        began = time.perf_counter()
        folded = await self._fold(partition, batch.records)
        self._meter.fold_took(time.perf_counter() - began)
        self.idle.touch(partition, folded.touched)
        partition.replaced += await self._save(partition, folded.touched)
        await self._output.write(self._aside(partition, folded))
        partition.position = next_offset
        partition.unfinished.append(batch)
        batch.release()
        if not partition.caught_up:
            partition.marked |= folded.touched
            await self._end_catch_up(partition)
            return
        partition.owed |= folded.touched
        if not self._behind(partition.number, next_offset):
            held = self.partitions.values()  # nothing else is handed on, so some may have waited for this
            await self._pay([other for other in held if not self._behind(other.number, other.position)])
        elif self.pace.due():
            await self.publish_owed()
        elif sum(map(partition.pipeline.scored_waiting, partition.owed)) > MOST_SCORED_WAITING:
            await self._publish_scored(partition, partition.owed)

    async def publish_owed(self) -> None:
        """Publish what batches of the past left owing; the caller holds the lock."""
        began = self.pace.now()
        if await self._pay(self.partitions.values()):
            self.pace.published(self.pace.now() - began)

    async def _pay(self, partitions: Iterable[Partition]) -> bool:
        """Publish what these partitions owe; then their batches are done. True if they owed anything."""
        owed = False
        for partition in list(partitions):
            if not partition.caught_up:
                continue
            runs, partition.owed = partition.owed, set()
            if runs:
                owed = True
                await self._publish(partition, runs)
            await self._remove_replaced(partition)
            _finish(partition)
        return owed

    async def _end_catch_up(self, partition: Partition) -> None:
        """While catching up nothing is published, and a successor would catch up too: batches are done."""
        if partition.passed:
            await self._publish_recovered(partition)
        _finish(partition)

    async def _fold(self, partition: Partition, records: list[Any]) -> Folded:
        """Fold in portions, so that the loop gets its turns however long the records take."""
        folded = Folded()
        for portion in portions(records, partition.silent_to):
            found = partition.pipeline.fold(portion)
            self._meter.folded(found)
            if found.of_closed:
                found.touched |= await self._fold_closed(partition, found)
            folded.touched |= found.touched
            if portion[0].offset >= partition.silent_to:
                folded.rejections += found.rejections
                folded.misplaced += found.misplaced
            await asyncio.sleep(0)
        return folded

    async def _fold_closed(self, partition: Partition, found: Folded) -> set[str]:
        """Open the runs again whose records were handed back, and fold those; the runs."""
        for run_id in dict.fromkeys(run_id for _, run_id in found.of_closed):
            await self.idle.open(partition, run_id)
        opened = partition.pipeline.fold(record for record, _ in found.of_closed)
        self._meter.folded(opened)
        return opened.touched

    async def _save(self, partition: Partition, runs: set[str]) -> list[Out]:
        """Write the pages and wait; returns the tombstones of pages that they replace."""
        pages = [page for run_id in runs for page in partition.pipeline.page_writes(run_id)]
        outs = [self._tables.trials.put(partition.number, page.key, page.value) for page in pages]
        await self._output.write(out for out in outs if out.value is not None)
        return [out for out in outs if out.value is None]

    def _aside(self, partition: Partition, folded: Folded) -> list[Out]:
        """Rejections, and records that go to another partition."""
        forwards, rejections = forward(folded.misplaced, self._count)
        return forwards + self._publisher.of_rejections(partition.number, folded.rejections + rejections)

    async def _publish(self, partition: Partition, runs: set[str]) -> None:
        left = iter(runs)
        while together := list(islice(left, RUNS_PER_WRITE)):
            await self._publish_together(partition, together)

    async def _publish_together(self, partition: Partition, runs: list[str]) -> None:
        cuts: list[Cut] = []
        outs: list[Out] = []
        for run_id in runs:
            cuts.append(partition.pipeline.cut(run_id))
            outs += self._publisher.of_cut(partition.number, cuts[-1])
            await asyncio.sleep(0)
        self._pulse.check()
        began = time.perf_counter()
        await asyncio.gather(self._output.write(outs), self._sink.write(cuts))
        self._meter.publish_took(time.perf_counter() - began)

    async def _publish_scored(self, partition: Partition, runs: Iterable[str]) -> None:
        """Publish the scored trials of runs alone, some at a time."""
        outs: list[Out] = []
        for run_id in runs:
            while changes := partition.pipeline.scored(run_id, SCORED_PER_WRITE):
                outs += self._publisher.of_scored(partition.number, changes)
                if len(outs) >= SCORED_PER_WRITE:
                    await self._output.write(outs)
                    outs = []
                await asyncio.sleep(0)
        await self._output.write(outs)

    async def _publish_recovered(self, partition: Partition) -> None:
        """Publish marked runs, and what differs from the tables; then reconcile the sink."""
        runs = partition.pipeline.runs()
        current: dict[str, list[SummaryChange]] = {}
        for start in range(0, len(runs), RUNS_PER_WRITE):
            outs: list[Out] = []
            for run_id in runs[start : start + RUNS_PER_WRITE]:
                cut = partition.pipeline.recut(run_id)
                current[run_id] = list(cut.summaries)
                if run_id not in partition.marked:
                    cut.summaries = [c for c in cut.summaries if self._publisher.differs(c)]
                if cut.summaries or run_id in partition.marked:
                    await self._publish_scored(partition, [run_id])
                    outs += self._publisher.of_cut(partition.number, cut)
                partition.pipeline.forget_scored(run_id)
                await asyncio.sleep(0)
            await self._output.write(outs)
        orphans = self._publisher.orphans(partition.number, current, partition.epoch)
        await self._output.write(self._publisher.of_summaries(partition.number, orphans))
        await self._mark(partition)
        await self._remove_replaced(partition)
        partition.caught_up = True
        partition.marked.clear()
        self.idle.recovered(partition)
        await self._sink.reconcile(self.idle.summaries(partition))
        log.info(
            "partition %d: caught up at offset %d, %d runs", partition.number, partition.position, len(runs)
        )

    async def _remove_replaced(self, partition: Partition) -> None:
        """Only when everything is published: until then the replaced pages tell what has to be withdrawn."""
        if partition.replaced:
            await self._output.write(partition.replaced)
            partition.replaced.clear()

    async def _mark(self, partition: Partition) -> None:
        """The pages are whole, and acknowledged: say so among them."""
        if partition.mark is not None:
            out = self._tables.trials.put(partition.number, mark_key(partition.number), partition.mark)
            await self._output.write([out])
            partition.mark = None


def portions(records: list[Any], silent_to: int) -> Iterator[list[Any]]:
    """Cut records into what is folded in one turn; none reaches from before `silent_to` beyond it.

    >>> from types import SimpleNamespace as Record
    >>> cut = portions([Record(offset=offset) for offset in (3, 5, 8)], 5)
    >>> [[record.offset for record in portion] for portion in cut]
    [[3], [5, 8]]
    """
    before = sum(record.offset < silent_to for record in records)
    for part in (records[:before], records[before:]):
        for start in range(0, len(part), RECORDS_PER_TURN):
            yield part[start : start + RECORDS_PER_TURN]


def _finish(partition: Partition) -> None:
    for batch in partition.unfinished:
        batch.finish()
    partition.unfinished.clear()
