"""Publishes what changed: summaries, scored trials and news to Kafka, and the same summaries to Redis."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from streamer.aggregate.changes import RunUpdate, SummaryChange
from streamer.redis.sink import RedisSink
from streamer.worker.faust.producer import Producer, ProducerRecord, fitting
from streamer.worker.processing.checkpoint_writer import CheckpointWriter
from streamer.worker.processing.idle import IdleRuns
from streamer.worker.processing.measures import Measures
from streamer.worker.processing.partition import Partition
from streamer.worker.processing.publish_queue import Pending
from streamer.worker.processing.quarantine import QuarantineWriter
from streamer.worker.processing.record_encoding import RecordEncoder

log = logging.getLogger(__name__)

RUNS_PER_WRITE = 200
"""Runs published together, so that neither memory nor the loop suffers: about 30 MB of summaries."""

SCORED_PER_WRITE = 1_000
"""Scored trials published together: about 1 MB."""


class SummaryPublisher:
    """Publishes the queues of partitions.

    Whatever fails is raised. The caller must then abandon the partitions: their changes are drained, and a
    second attempt would find nothing to publish.
    """

    def __init__(
        self,
        *,
        encoder: RecordEncoder,
        producer: Producer,
        sink: RedisSink,
        check_alive: Callable[[], None],
        idle: IdleRuns,
        measures: Measures,
        checkpoints: CheckpointWriter,
        quarantine_writer: QuarantineWriter,
    ) -> None:
        self._encoder = encoder
        self._producer = producer
        self._quarantine_writer = quarantine_writer
        self._sink = sink
        self._check_alive = check_alive
        self._idle = idle
        self._measures = measures
        self._checkpoints = checkpoints

    async def flush(self, partitions: Iterable[Partition]) -> bool:
        """Publish the next runs of these queues, as many as are published together; true if there were any.

        A batch is done when all its runs are published.
        """
        ready = publishable(partitions)
        shares = _shares(ready)
        runs = [(partition, run_id) for partition, run_ids in shares for run_id in run_ids]
        if runs:
            await self._publish(runs)
        for partition, run_ids in shares:
            partition.publish_queue.discard(run_ids)
            partition.publish_queue.add_started(_waiting_for_comparison(partition, run_ids))
            await self._quarantine_writer.admit(partition)
        finished = [partition.publish_queue.take_finished() for partition in ready]
        await self._finish([pending for pending in finished if pending is not None])
        return bool(runs)

    async def _publish(self, runs: list[tuple[Partition, str]]) -> None:
        updates: list[RunUpdate] = []
        outs: list[ProducerRecord] = []
        for partition, run_id in runs:
            with partition.guard(run_id):
                run, queue = partition.pipeline.run(run_id), partition.publish_queue
                update = run.take_changes(comparison=queue.may_compare(run_id))
                outs += fitting(self._encoder.of_update(partition.number, update))
                updates.append(update)
            await asyncio.sleep(0)
        self._check_alive()
        began = time.perf_counter()
        partitions = {partition.number: partition for partition, _ in runs}
        await asyncio.gather(self._quarantine_writer.write(partitions, outs), self._sink.write(updates))
        self._measures.publish_took(time.perf_counter() - began)

    async def publish_again(self, partition: Partition, run_id: str) -> None:
        """Publish a run that was folded again: all of it, without news, and that other groups are gone."""
        await self.publish_scored(partition, [run_id])
        updates: list[RunUpdate] = []
        if partition.pipeline.knows(run_id):
            with partition.guard(run_id):
                update = partition.pipeline.run(run_id).take_changes(news=False)
                update.summaries += self._gone(partition, run_id, update.summaries)
                records = fitting(self._encoder.of_update(partition.number, update))
                updates.append(update)
        if updates:
            await self._quarantine_writer.write({partition.number: partition}, records)
            await self._sink.write(updates)

    def _gone(self, partition: Partition, run_id: str, standing: list[SummaryChange]) -> list[SummaryChange]:
        """Tombstones of the groups that a run has no more; of everything, if the run is deleted."""
        version = partition.pipeline.run(run_id).state.state_version
        orphans = self._encoder.orphans(partition.number, {run_id: standing}, partition.epoch)
        gone = [replace(orphan, state_version=version) for orphan in orphans if orphan.kind != "run"]
        return gone if standing else [*gone, partition.deleted(run_id, version)]

    async def publish_scored(self, partition: Partition, runs: Iterable[str]) -> None:
        """Publish the scored trials of runs alone, some at a time."""
        outs: list[ProducerRecord] = []
        for run_id in runs:
            while found := self._scored(partition, run_id):
                outs += found
                if len(outs) >= SCORED_PER_WRITE:
                    await self._quarantine_writer.write({partition.number: partition}, outs)
                    outs = []
                await asyncio.sleep(0)
        await self._quarantine_writer.write({partition.number: partition}, outs)

    def _scored(self, partition: Partition, run_id: str) -> list[ProducerRecord]:
        """Some scored trials of a run; [] if none waits, or the run is set apart."""
        found: list[ProducerRecord] = []
        if partition.pipeline.knows(run_id):
            with partition.guard(run_id):
                changes = partition.pipeline.run(run_id).take_scored(SCORED_PER_WRITE)
                found = fitting(self._encoder.of_scored(partition.number, changes))
        return found

    async def publish_recovered(self, partition: Partition) -> None:
        """Publish runs touched in the catch-up, and what differs from the tables; reconcile Redis.

        Scored trials of the touched runs are published last, so that boards do not wait for them: if the
        worker crashes again, the replayed events touch the same runs. When only the summaries would show
        that scored trials are due, or when their basis changed, scored trials are published first.
        """
        runs = partition.pipeline.runs()
        current: dict[str, list[SummaryChange]] = {}
        later: list[str] = []
        for start in range(0, len(runs), RUNS_PER_WRITE):
            outs: list[ProducerRecord] = []
            for run_id in runs[start : start + RUNS_PER_WRITE]:
                recovered: list[ProducerRecord] = []
                with partition.guard(run_id):
                    update = partition.pipeline.run(run_id).take_summaries()
                    current[run_id] = list(update.summaries)
                    recovered = self._recovered(partition, run_id, update)
                if run_id in partition.touched_in_catch_up and partition.pending_checkpoint is None:
                    later.append(run_id)
                else:
                    await self.publish_scored(partition, [run_id])
                outs += recovered
                await asyncio.sleep(0)
            await self._quarantine_writer.write({partition.number: partition}, outs)
        current = {run: changes for run, changes in current.items() if partition.pipeline.knows(run)}
        orphans = self._encoder.orphans(partition.number, current, partition.epoch)
        await self._producer.write(self._encoder.of_summaries(partition.number, orphans))
        await self._quarantine_writer.admit(partition)
        partition.caught_up = True  # its summaries are published; where Redis is away, it gets them later
        self._idle.recovered(partition)
        await self._sink.reconcile(partition.run_ids())
        await self.publish_scored(partition, later)
        await self._quarantine_writer.admit(partition)
        await self._checkpoints.write_pending(partition)
        await self._finish([partition.publish_queue.drain()])
        partition.touched_in_catch_up.clear()
        log.info(
            "partition %d: caught up at offset %d, %d runs", partition.number, partition.position, len(runs)
        )

    def _recovered(self, partition: Partition, run_id: str, update: RunUpdate) -> list[ProducerRecord]:
        """The values of a recovered run to publish; scored trials only if there are other values, or all."""
        if run_id not in partition.touched_in_catch_up:
            update.summaries = [c for c in update.summaries if self._encoder.differs(c)]
            if not update.summaries and not partition.refill:
                partition.pipeline.run(run_id).forget_scored()
        return fitting(self._encoder.of_update(partition.number, update))

    async def _finish(self, published: list[Pending]) -> None:
        """Send the tombstones of replaced pages, and mark the batches as done.

        Until all is published, the replaced pages tell a successor what has to be withdrawn.
        """
        await self._producer.write(out for pending in published for out in pending.replaced)
        for batch in (batch for pending in published for batch in pending.batches):
            batch.finish()


def _shares(ready: list[Partition]) -> list[tuple[Partition, list[str]]]:
    """The next runs of each partition: an equal share, and what shorter queues leave of theirs."""
    shares, left = [], RUNS_PER_WRITE
    for before, partition in enumerate(
        sorted(ready, key=lambda partition: len(partition.publish_queue.runs))
    ):
        runs = partition.publish_queue.next_runs(max(1, left // (len(ready) - before)))
        left -= len(runs)
        shares.append((partition, runs))
    return shares


def _waiting_for_comparison(partition: Partition, run_ids: Iterable[str]) -> list[str]:
    """Runs whose agents were compared less than a second ago, and have changed since."""
    known = (run_id for run_id in run_ids if partition.pipeline.knows(run_id))
    return [run_id for run_id in known if partition.pipeline.run(run_id).comparison_waits]


def publishable(partitions: Iterable[Partition]) -> list[Partition]:
    """The partitions that have something in the queue and may publish it."""
    return [
        partition
        for partition in partitions
        if partition.publish_queue
        and partition.caught_up
        and not partition.touched_in_catch_up
        and not partition.abandoned
    ]
