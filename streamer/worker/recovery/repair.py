"""Folds runs again from the event log: a whole run on request, or the healthy part of one in quarantine.

A run in quarantine keeps its last good summaries. Some have no summaries yet: the run failed in the first
batch, or the embedded stack, which keeps events alone, was started again. Then they are made of the events
before it failed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing, suppress
from dataclasses import replace

from streamer.aggregate.changes import SummaryChange
from streamer.aggregate.page_format import slots_on
from streamer.kafka.log import records_between
from streamer.kafka.names import Names
from streamer.pipeline import Pipeline
from streamer.records import Failure
from streamer.schemas.identity import encode_id
from streamer.settings import Settings
from streamer.worker.faust.tables import Tables
from streamer.worker.faust.topic_partition import TopicPartition
from streamer.worker.processing.partition import Partition
from streamer.worker.processing.processor import Processor

log = logging.getLogger(__name__)

KEPT_OUTCOMES = 20
"""How many answers to requests the heartbeat repeats."""


class CannotFoldAgain(Exception):
    """The log does not give the run back."""


class Repairs:
    """Does what was asked, one run at a time.

    Attributes:
        outcomes: name of a request to its outcome, "" for a run that is in good order; the latest ones.
    """

    def __init__(self, settings: Settings, processor: Processor, tables: Tables) -> None:
        self.outcomes: dict[str, str] = {}
        self._settings = settings
        self._topic = Names(settings.namespace).trial_events
        self._processor = processor
        self._tables = tables
        self._task: asyncio.Task[None] | None = None

    def start_due(self) -> None:
        """Begin with the next request, unless one is at work; an exception ends the worker."""
        if self._task is not None and not self._task.done():
            return
        for partition in self._processor.partitions.values():
            if partition.caught_up and (partition.repairs or partition.unpublished):
                self._task = asyncio.create_task(self._work_or_end(partition))
                return

    def stop(self) -> None:
        """Leave what is at work; the next owner finds the request among the pages."""
        if self._task is not None:
            self._task.cancel()

    async def _work_or_end(self, partition: Partition) -> None:
        try:
            if partition.repairs:
                await self._repair(partition, *next(iter(partition.repairs.items())))
            else:
                await self._restore(partition, *next(iter(partition.unpublished.items())))
        except Exception as error:
            await self._processor.give_up(error)

    async def _restore(self, partition: Partition, run_id: str, before: int) -> None:
        """Publish what the run was when it was last well."""
        found = partition.pipeline.empty_copy("restored", owns=run_id.__eq__)
        last: list[SummaryChange] = []

        def keep() -> None:
            nonlocal last
            with suppress(Exception):  # here or before, the run fails: what it was before that is kept
                last = found.run(run_id).summaries()

        with suppress(CannotFoldAgain):
            await self._fold(partition, found, None, lambda: before, keep)
        async with self._processor.lock:
            partition.unpublished.pop(run_id, None)
            ours = self._processor.partitions.get(partition.number) is partition
            if last and ours and not partition.abandoned and run_id in partition.quarantined:
                with self._processor.all_or_nothing():
                    await self._processor.quarantine_writer.restore(partition, run_id, last)

    async def _repair(self, partition: Partition, run_id: str, request: str) -> None:
        """Most of the log is read while other runs go on; the rest while they wait."""
        log.info("run %r: folding it again from the log", run_id)
        partition.openings += 1
        found = partition.pipeline.empty_copy(str(partition.openings), owns=run_id.__eq__)
        run = partition.quarantined.get(run_id)
        if run is not None and run.quarantine.deleted_to is not None:
            found.delete(run_id, run.quarantine.deleted_to)
        try:
            position = await self._fold(partition, found, None, lambda: partition.position)
        except CannotFoldAgain as error:
            position, failure = 0, Failure.of(run_id, error)
            found.adopt(failure)
        async with self._processor.lock:
            if self._processor.partitions.get(partition.number) is not partition or partition.abandoned:
                return  # the next owner finds the request among the pages
            with self._processor.all_or_nothing():
                if run_id not in found.failed:
                    await self._fold(partition, found, position, lambda: partition.position)
                outcome = await self._replace(partition, run_id, found)
        self.outcomes[request] = outcome
        self.outcomes = dict(list(self.outcomes.items())[-KEPT_OUTCOMES:])
        log.info("run %r: %s", run_id, outcome or "folded again from the log")

    async def _fold(
        self,
        partition: Partition,
        found: Pipeline,
        start: int | None,
        stop: Callable[[], int],
        touched: Callable[[], None] = lambda: None,
    ) -> int:
        """Fold the partition's log from `start` on, None: its beginning; up to which offset.

        `touched` is called after each batch that has events of the run.
        """
        end = stop()
        if end <= (start or 0):
            return end
        place = TopicPartition(self._topic, partition.number)
        first = start
        async with aclosing(records_between(self._settings, place, start, end)) as batches:
            async for batch in batches:
                if first is None and batch:
                    first = batch[0].offset
                    if first > 0:
                        raise CannotFoldAgain(f"the log has lost its events before offset {first:,}")
                if found.fold(batch).touched:
                    touched()
                await asyncio.sleep(0)
        return end

    async def _replace(self, partition: Partition, run_id: str, found: Pipeline) -> str:
        """Put the run in place of what there was; "" or why that failed."""
        if run_id not in found.failed and run_id not in found.runs():
            found.adopt(
                Failure(run_id, f"partition {partition.number} of the log holds no event of this run")
            )
        if (failure := found.failed.get(run_id)) is not None:
            return await self._leave(partition, run_id, failure)
        before = partition.quarantined.pop(run_id, None)
        partition.closed.pop(run_id, None)
        partition.unpublished.pop(run_id, None)
        partition.publish_queue.discard([run_id])
        partition.pipeline.hold(run_id)
        partition.pipeline.adopt_run(run_id, found)
        with partition.guard(run_id):
            self._take_pages_along(partition, run_id)
        replaced = await self._processor.save({partition.number: {run_id}})
        await self._processor.summary_publisher.publish_again(partition, run_id)
        if (failed := partition.pipeline.failed.get(run_id)) is not None:
            if before is not None:
                partition.quarantined[run_id] = before
            return await self._leave(partition, run_id, failed)
        await self._processor.quarantine_writer.write(self._processor.partitions, replaced[partition.number])
        await self._processor.quarantine_writer.answered(partition, run_id, well=True)
        partition.repairs.pop(run_id, None)
        self._processor.idle.touch(partition, [run_id])
        return ""

    async def _leave(self, partition: Partition, run_id: str, failure: Failure) -> str:
        """Nothing changes but the reason; a run that is in good order stays so."""
        if run_id in partition.quarantined:
            partition.pipeline.failed[run_id] = replace(failure, record=None)  # its rejection is out
        await self._processor.quarantine_writer.admit(partition)
        await self._processor.quarantine_writer.answered(
            partition, run_id, well=run_id not in partition.quarantined
        )
        partition.repairs.pop(run_id, None)
        return failure.reason

    def _take_pages_along(self, partition: Partition, run_id: str) -> None:
        """The run's pages so far are replaced; scored trials that only they know of are withdrawn."""
        run, prefix = partition.pipeline.run(run_id), f"{encode_id(run_id)}/"
        pages = [
            (key, value)
            for key, value in self._tables.trials.of_partition(partition.number)
            if key.startswith(prefix)
        ]
        for _, value in pages:
            with suppress(Exception):  # a page that cannot be read may be why the run was set apart
                for slot in slots_on(value):
                    run.state.may_stand_scored(slot)
        run.replace_pages(key for key, _ in pages)
