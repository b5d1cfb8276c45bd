"""What happens to the log behind the workers' backs, and is noticed.

Committed offsets that somebody else moved forward: the log is folded again. Events deleted before they were
folded: the mark of the partition says so from then on, since nobody can make up for them. Topics deleted or
extended: the worker ends; at its next start it creates them, fills them, or says what to do.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import faust
from aiokafka.errors import KafkaError
from faust.types import TP

from streamer.kafka.names import Names
from streamer.kafka.partition_counts import read_partition_counts
from streamer.kafka.retention import read_retention, what_is_finite
from streamer.settings import Settings
from streamer.worker.faust.producer import Producer
from streamer.worker.faust.tables import Tables
from streamer.worker.faust.transport import consumer_of
from streamer.worker.process.topics import check_counts, plan
from streamer.worker.processing.changelog_checkpoint import checkpoint_key
from streamer.worker.processing.partition import Partition

log = logging.getLogger(__name__)

LOOK_SECONDS = 15.0


class TopicDeleted(RuntimeError):
    """A topic of ours does not exist any more."""

    def __init__(self, topics: list[str]) -> None:
        super().__init__(
            f"topics {', '.join(topics)} were deleted. The worker ends; the next one creates and fills them"
        )


class LogFaults:
    """Notices them; one per worker.

    Attributes:
        finite: a sentence about the retention of the event topic, None if it keeps its events.
    """

    def __init__(self, app: faust.App, settings: Settings, tables: Tables, producer: Producer) -> None:
        self.finite: str | None = None
        self._app = app
        self._settings = settings
        self._names = Names(settings.namespace)
        self._tables = tables
        self._producer = producer

    async def before(self, partition: Partition, offset: int) -> None:
        """The next event of a partition lies at this offset: note what was deleted in front of it."""
        if offset <= partition.position or self._settings.embedded:
            return
        place = TP(self._names.trial_events, partition.number)
        start = (await consumer_of(self._app).earliest_offsets(place))[place] or 0
        if start > partition.position:
            partition.checkpoint = partition.checkpoint.losing(partition.position, min(start, offset))
            log.error("%s", partition.checkpoint.what_is_lost(partition.number))
            await self._mark(partition)

    async def watch(self) -> None:
        """Look at the topics for ever; what is wrong with them is raised.

        Raises:
            TopicDeleted, TopicMismatch: the worker cannot go on.
        """
        while not self._settings.embedded:
            try:
                await self._look()
            except (KafkaError, OSError, TimeoutError) as error:
                log.debug("cannot look at the topics: %s", error)
            await asyncio.sleep(LOOK_SECONDS)

    async def note_scored(self, partition: Partition) -> None:
        """Write down how far the scored trials are published, so that their loss will be noticed."""
        if self.can_note_scored(partition):
            end = self._producer.written_to(self._names.scored_trials, partition.number)
            partition.checkpoint = replace(partition.checkpoint, scored_to=end)
            await self._mark(partition)

    def can_note_scored(self, partition: Partition) -> bool:
        """Whether `note_scored` has anything to write down."""
        end = self._producer.written_to(self._names.scored_trials, partition.number)
        return end > partition.checkpoint.scored_to and partition.pending_checkpoint is None

    async def _look(self) -> None:
        counts = await read_partition_counts(self._settings)
        if missing := [topic.name for topic in plan(self._settings) if topic.name not in counts]:
            raise TopicDeleted(missing)
        check_counts(counts, self._settings)
        finite = what_is_finite(self._names.trial_events, await read_retention(self._settings))
        if finite and finite != self.finite:
            log.error("%s", finite)
        self.finite = finite

    async def _mark(self, partition: Partition) -> None:
        """Say it among the state pages, now or when they are whole."""
        if partition.checkpoint.complete_from is None:
            return
        if not partition.caught_up:
            partition.pending_checkpoint = partition.checkpoint.encoded()
            return
        key = checkpoint_key(partition.number)
        await self._producer.write(
            [self._tables.trials.put(partition.number, key, partition.checkpoint.encoded())]
        )
