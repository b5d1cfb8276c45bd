"""Writes the checkpoint of a partition when something that it says has changed."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

from streamer.worker.faust.producer import Producer
from streamer.worker.faust.tables import Tables
from streamer.worker.processing.changelog_checkpoint import checkpoint_key
from streamer.worker.processing.partition import Partition

log = logging.getLogger(__name__)


class CheckpointWriter:
    """Writes checkpoints among the state pages; one per worker.

    Args:
        scored_trials: topic of the scored trials.
        log_start: offset of the first event that a partition's log still has; gets the partition.
    """

    def __init__(
        self,
        tables: Tables,
        producer: Producer,
        scored_trials: str,
        log_start: Callable[[int], Awaitable[int]],
    ) -> None:
        self._tables = tables
        self._producer = producer
        self._scored_trials = scored_trials
        self._log_start = log_start

    async def note_deleted(self, partition: Partition, expected: int, offset: int) -> None:
        """Note which events were deleted before they were folded.

        Where offsets leave a gap, this asks the broker, which answers only after the fetch that is under way.

        Args:
            expected: offset of the next event of the partition, unless events are gone.
            offset: of the next event of the partition that can be read.
        """
        if offset <= expected:
            return
        start = await self._log_start(partition.number)
        if start > expected:
            partition.checkpoint = partition.checkpoint.losing(expected, min(start, offset))
            log.error("%s", partition.checkpoint.what_is_lost(partition.number))
            await self._write_or_wait(partition)

    async def note_scored(self, partition: Partition) -> None:
        """Note how far the scored trials are published, so that a worker notices their loss."""
        if self.can_note_scored(partition):
            end = self._producer.written_to(self._scored_trials, partition.number)
            partition.checkpoint = replace(partition.checkpoint, scored_to=end)
            await self._write_or_wait(partition)

    def can_note_scored(self, partition: Partition) -> bool:
        """Whether `note_scored` has anything to write."""
        end = self._producer.written_to(self._scored_trials, partition.number)
        return end > partition.checkpoint.scored_to and partition.pending_checkpoint is None

    async def write_pending(self, partition: Partition) -> None:
        """Write the checkpoint that waited until the pages are whole and acknowledged, if one did."""
        if partition.pending_checkpoint is not None:
            await self._write(partition, partition.pending_checkpoint)
            partition.pending_checkpoint = None

    async def _write_or_wait(self, partition: Partition) -> None:
        if partition.checkpoint.complete_from is None:
            return
        if partition.caught_up:
            await self._write(partition, partition.checkpoint.encoded())
        else:
            partition.pending_checkpoint = partition.checkpoint.encoded()

    async def _write(self, partition: Partition, value: bytes) -> None:
        key = checkpoint_key(partition.number)
        await self._producer.write([self._tables.trials.put(partition.number, key, value)])
