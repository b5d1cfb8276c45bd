"""What a partition owes the world, published: summaries, scored trials, news, and Redis beside them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from dataclasses import replace

from streamer.aggregate.changes import Cut, SummaryChange
from streamer.redis.sink import RedisSink
from streamer.worker.alive import Pulse
from streamer.worker.coverage import mark_key
from streamer.worker.debt import Bill
from streamer.worker.idle import IdleRuns
from streamer.worker.meter import Meter
from streamer.worker.output import Out, Output, fitting
from streamer.worker.partition import Partition
from streamer.worker.publishing import Publisher
from streamer.worker.quarantine import Ward
from streamer.worker.tables import Tables

log = logging.getLogger(__name__)

RUNS_PER_WRITE = 200
"""Runs published together, so that neither memory nor the loop suffers: about 30 MB of summaries."""

SCORED_PER_WRITE = 1_000
"""Scored trials published together: about 1 MB."""


class Emission:
    """Publishes what partitions owe. Whatever fails is raised, and no batch is done from then on.

    That is up to whoever catches it: what was cut is drained, so the partitions have to be abandoned.
    """

    def __init__(
        self,
        *,
        tables: Tables,
        publisher: Publisher,
        output: Output,
        sink: RedisSink,
        pulse: Pulse,
        idle: IdleRuns,
        meter: Meter,
        ward: Ward,
    ) -> None:
        self._tables = tables
        self._publisher = publisher
        self._output = output
        self._ward = ward
        self._sink = sink
        self._pulse = pulse
        self._idle = idle
        self._meter = meter

    async def pay(self, partitions: Iterable[Partition]) -> bool:
        """Publish runs that these partitions owe, as many as are published together; true if there were any.

        Batches to which nothing is owed any more are done.
        """
        paying = payable(partitions)
        runs = _shares(paying)
        owed = [(partition, run_id) for partition, run_ids in runs for run_id in run_ids]
        if owed:
            await self._publish(owed)
        for partition, run_ids in runs:
            partition.debt.paid(run_ids)
            await self._ward.admit(partition)
        await self._settle([bill for partition in paying if (bill := partition.debt.settled()) is not None])
        return bool(owed)

    async def _publish(self, runs: list[tuple[Partition, str]]) -> None:
        cuts: list[Cut] = []
        outs: list[Out] = []
        for partition, run_id in runs:
            with partition.guard(run_id):
                cut = partition.pipeline.run(run_id).take_changes()
                outs += fitting(self._publisher.of_cut(partition.number, cut))
                cuts.append(cut)
            await asyncio.sleep(0)
        self._pulse.check()
        began = time.perf_counter()
        partitions = {partition.number: partition for partition, _ in runs}
        await asyncio.gather(self._ward.write(partitions, outs), self._sink.write(cuts))
        self._meter.publish_took(time.perf_counter() - began)

    async def publish_again(self, partition: Partition, run_id: str) -> None:
        """Publish a run that was folded again: all of it, without news, and that other groups are gone."""
        await self.publish_scored(partition, [run_id])
        cuts: list[Cut] = []
        if partition.pipeline.knows(run_id):
            with partition.guard(run_id):
                cut = partition.pipeline.run(run_id).take_changes(news=False)
                cut.summaries += self._gone(partition, run_id, cut.summaries)
                records = fitting(self._publisher.of_cut(partition.number, cut))
                cuts.append(cut)
        if cuts:
            await self._ward.write({partition.number: partition}, records)
            await self._sink.write(cuts)

    def _gone(self, partition: Partition, run_id: str, standing: list[SummaryChange]) -> list[SummaryChange]:
        """Tombstones of the groups that a run has no more; of everything, if the run is deleted."""
        version = partition.pipeline.run(run_id).state.state_version
        orphans = self._publisher.orphans(partition.number, {run_id: standing}, partition.epoch)
        gone = [replace(orphan, state_version=version) for orphan in orphans if orphan.kind != "run"]
        return gone if standing else [*gone, partition.deleted(run_id, version)]

    async def publish_scored(self, partition: Partition, runs: Iterable[str]) -> None:
        """Publish the scored trials of runs alone, some at a time."""
        outs: list[Out] = []
        for run_id in runs:
            while found := self._scored(partition, run_id):
                outs += found
                if len(outs) >= SCORED_PER_WRITE:
                    await self._ward.write({partition.number: partition}, outs)
                    outs = []
                await asyncio.sleep(0)
        await self._ward.write({partition.number: partition}, outs)

    def _scored(self, partition: Partition, run_id: str) -> list[Out]:
        """Some scored trials of a run; [] if none waits, or the run is set apart."""
        found: list[Out] = []
        if partition.pipeline.knows(run_id):
            with partition.guard(run_id):
                changes = partition.pipeline.run(run_id).take_scored(SCORED_PER_WRITE)
                found = fitting(self._publisher.of_scored(partition.number, changes))
        return found

    async def publish_recovered(self, partition: Partition) -> None:
        """Publish marked runs, and what differs from the tables, and reconcile the sink.

        Scored trials of marked runs come last, so that a board need not wait for them: should the worker end
        before they are out, the same events are folded again and mark their runs again. Otherwise, and where
        they follow from another basis than those that are out, only the summaries tell that, and come last.
        """
        runs = partition.pipeline.runs()
        current: dict[str, list[SummaryChange]] = {}
        later: list[str] = []
        for start in range(0, len(runs), RUNS_PER_WRITE):
            outs: list[Out] = []
            for run_id in runs[start : start + RUNS_PER_WRITE]:
                recovered: list[Out] = []
                with partition.guard(run_id):
                    cut = partition.pipeline.run(run_id).take_summaries()
                    current[run_id] = list(cut.summaries)
                    recovered = self._recovered(partition, run_id, cut)
                if run_id in partition.marked and partition.mark is None:
                    later.append(run_id)
                else:
                    await self.publish_scored(partition, [run_id])
                outs += recovered
                await asyncio.sleep(0)
            await self._ward.write({partition.number: partition}, outs)
        current = {run: changes for run, changes in current.items() if partition.pipeline.knows(run)}
        orphans = self._publisher.orphans(partition.number, current, partition.epoch)
        await self._output.write(self._publisher.of_summaries(partition.number, orphans))
        await self._ward.admit(partition)
        partition.caught_up = True  # its summaries are published; where Redis is away, it gets them later
        self._idle.recovered(partition)
        await self._sink.reconcile(partition.run_ids())
        await self.publish_scored(partition, later)
        await self._ward.admit(partition)
        await self._mark(partition)
        await self._settle([partition.debt.cancel()])
        partition.marked.clear()
        log.info(
            "partition %d: caught up at offset %d, %d runs", partition.number, partition.position, len(runs)
        )

    def _recovered(self, partition: Partition, run_id: str, cut: Cut) -> list[Out]:
        """What of a recovered run has to be published; scored trials only if anything has, or all."""
        if run_id not in partition.marked:
            cut.summaries = [c for c in cut.summaries if self._publisher.differs(c)]
            if not cut.summaries and not partition.refill:
                partition.pipeline.run(run_id).forget_scored()
        return fitting(self._publisher.of_cut(partition.number, cut))

    async def _settle(self, bills: list[Bill]) -> None:
        """Everything on these is published: until now the replaced pages told what has to be withdrawn."""
        await self._output.write(out for bill in bills for out in bill.replaced)
        for batch in (batch for bill in bills for batch in bill.batches):
            batch.finish()

    async def _mark(self, partition: Partition) -> None:
        """The pages are whole, and acknowledged: say so among them."""
        if partition.mark is not None:
            out = self._tables.trials.put(partition.number, mark_key(partition.number), partition.mark)
            await self._output.write([out])
            partition.mark = None


def _shares(paying: list[Partition]) -> list[tuple[Partition, list[str]]]:
    """What each of them publishes next: the same number of runs, and what is left by those that owe fewer."""
    shares, left = [], RUNS_PER_WRITE
    for before, partition in enumerate(sorted(paying, key=lambda partition: len(partition.debt.runs))):
        runs = partition.debt.next_runs(max(1, left // (len(paying) - before)))
        left -= len(runs)
        shares.append((partition, runs))
    return shares


def payable(partitions: Iterable[Partition]) -> list[Partition]:
    """Those that owe something and may publish it."""
    return [
        partition
        for partition in partitions
        if partition.debt and partition.caught_up and not partition.marked and not partition.abandoned
    ]
