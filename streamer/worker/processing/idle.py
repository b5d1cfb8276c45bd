"""Runs that get no events leave memory, and come back when one arrives.

What stays of a closed run are the names of its state pages and of its summaries, which the tables hold. Its
trials in flight and its tasks, compressed, stay too, since no table holds them. The pipeline hands back an
event for it. Then the run is joined from its pages again, or, where the tables have lost one, folded again
from the event log.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import aclosing
from itertools import islice, takewhile
from operator import itemgetter

from streamer.aggregate.changes import RunUpdate, SummaryChange
from streamer.aggregate.keys import SummaryKind
from streamer.kafka.log import records_between
from streamer.kafka.names import Names
from streamer.pipeline import Pipeline
from streamer.settings import Settings
from streamer.worker.clock import clock
from streamer.worker.constants import PAGES_PER_TURN
from streamer.worker.faust.tables import Tables
from streamer.worker.faust.topic_partition import TopicPartition
from streamer.worker.processing.changelog_checkpoint import StateLost
from streamer.worker.processing.partition import ClosedRun, Partition
from streamer.worker.processing.record_encoding import RecordEncoder

log = logging.getLogger(__name__)

CLOSED_PER_TURN = 200
"""Runs closed while the lock is held: about 20 ms."""


class IdleRuns:
    """Closes runs and opens them again. The caller holds the processor's lock.

    Args:
        now: clock, in seconds.
        wall: Unix seconds; only for what came before this worker.
    """

    def __init__(
        self,
        settings: Settings,
        tables: Tables,
        encoder: RecordEncoder,
        now: Callable[[], float] = clock,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._idle_seconds = settings.run_idle_seconds
        self._tables = tables
        self._encoder = encoder
        self._now = now
        self._wall = wall

    def touch(self, partition: Partition, runs: Iterable[str]) -> None:
        """Events have arrived for these runs."""
        moment, heard = self._now(), partition.heard
        for run_id in runs:
            heard.pop(run_id, None)
            heard[run_id] = moment

    def recovered(self, partition: Partition) -> None:
        """When runs got their last events is not stored; the times of those events stand in."""
        ahead = self._wall() - self._now()
        for run_id in partition.pipeline.runs():
            with partition.guard(run_id):
                happened = partition.pipeline.run(run_id).state.last_event_at / 1_000_000 - ahead
                partition.heard.setdefault(run_id, min(happened, self._now()))
        partition.heard = dict(sorted(partition.heard.items(), key=itemgetter(1)))

    def close_due(self, partition: Partition) -> int:
        """Close runs that are idle, the longest first, a turn's worth; how many."""
        due = list(islice(self._due(partition), CLOSED_PER_TURN))
        for run_id in due:
            self._close(partition, run_id)
        if due:
            log.info("partition %d: closed %d idle runs", partition.number, len(due))
        return len(due)

    def any_due(self, partition: Partition) -> bool:
        """Whether `close_due` would close any run."""
        return next(self._due(partition), None) is not None

    async def open(self, partition: Partition, run_id: str) -> None:
        """Bring a closed run back whole.

        Raises:
            StateLost: a page is gone, and the log has lost its beginning.
            aiokafka.errors.KafkaError: a page is gone, and the log cannot be read.
        """
        closed = partition.closed[run_id]
        partition.openings += 1
        found = partition.pipeline.empty_copy(str(partition.openings), owns=run_id.__eq__)
        pages = [(key, self._tables.trials.get(key)) for key in closed.pages]
        for loaded, (key, value) in enumerate(pages):
            if value is not None:
                found.load_page(key, value)
            if loaded % PAGES_PER_TURN == 0:
                await asyncio.sleep(0)
        found.loaded()
        if any(value is None for _, value in pages):
            await self._fold_again(partition, run_id, found)
        self._take_over(partition, run_id, found, closed)

    def _take_over(self, partition: Partition, run_id: str, found: Pipeline, closed: ClosedRun) -> None:
        if run_id in found.runs():
            with partition.guard(run_id):
                run = found.run(run_id)
                run.state.state_version = max(run.state.state_version, closed.state_version)
                run.state.happened_at(closed.last_event_at)
                run.take_summaries()  # all of it is published
                run.forget_scored()
                partition.pipeline.adopt_run(run_id, found)
                del partition.closed[run_id]
        elif run_id in found.failed:
            partition.pipeline.adopt(found.failed[run_id])
            partition.let_go_of_failed()
        else:
            partition.pipeline.adopt_run(run_id, found)
            del partition.closed[run_id]

    def summaries(self, partition: Partition, run_id: str) -> list[SummaryChange]:
        """Everything of a run as published, byte for byte; a tombstone if the run was deleted.

        Nothing of a run that the partition does not know, or has not published yet.
        """
        apart = partition.quarantined.get(run_id)
        if apart is not None:
            return self._stored(apart.summaries)
        closed = partition.closed.get(run_id)
        if closed is not None:
            stored = self._stored(closed.summaries)
            return stored or [partition.deleted(run_id, closed.state_version)]
        if not partition.pipeline.knows(run_id):
            return []
        run = partition.pipeline.run(run_id)
        stored = self._stored(run.taken())
        return stored if stored or run.state.exists else [partition.deleted(run_id, run.state.state_version)]

    def standing(self, partition: Partition, run_id: str) -> RunUpdate:
        """The summaries of a run, its trials in flight and its tasks, as published.

        A run in quarantine lists no trials and no tasks.
        """
        in_flight, tasks = None, None
        if run_id in partition.closed:
            in_flight, tasks = partition.closed[run_id].in_flight, partition.closed[run_id].tasks
        elif partition.pipeline.knows(run_id):
            run = partition.pipeline.run(run_id)
            in_flight, tasks = run.in_flight_taken, run.comparisons.tasks_taken
        return RunUpdate(run_id, self.summaries(partition, run_id), in_flight, tasks)

    def _due(self, partition: Partition) -> Iterator[str]:
        if self._idle_seconds is None or not partition.caught_up:
            return
        before, waiting = self._now() - self._idle_seconds, partition.publish_queue.runs
        for run_id, _ in takewhile(lambda heard: heard[1] <= before, partition.heard.items()):
            if run_id not in waiting:
                yield run_id

    def _close(self, partition: Partition, run_id: str) -> None:
        run = partition.pipeline.run(run_id)
        version, moment = run.state.state_version, run.state.last_event_at
        pages = partition.pipeline.close(run_id)
        partition.closed[run_id] = ClosedRun(
            tuple(pages),
            tuple(run.taken()),
            version,
            moment,
            run.in_flight_taken,
            run.comparisons.tasks_taken,
        )
        del partition.heard[run_id]

    def _stored(self, standing: Iterable[tuple[SummaryKind, str]]) -> list[SummaryChange]:
        return [
            self._encoder.stored(kind, key, value)
            for kind, key in standing
            if (value := self._tables.summaries[kind].published(key)) is not None
        ]

    async def _fold_again(self, partition: Partition, run_id: str, found: Pipeline) -> None:
        names = Names(self._settings.namespace)
        log.warning("run %r: state pages of it are gone; folding it again from the event log", run_id)
        first: int | None = None
        place = TopicPartition(names.trial_events, partition.number)
        async with aclosing(records_between(self._settings, place, None, partition.position)) as batches:
            async for batch in batches:
                if first is None and batch:
                    first = batch[0].offset
                    if first > 0:
                        raise StateLost(
                            names.trials_changelog, names.trial_events, place.partition, first, names.group
                        )
                found.fold(batch)
