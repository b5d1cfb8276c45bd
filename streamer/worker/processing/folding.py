"""Folds a batch into its partition, runs that had left memory included."""

from __future__ import annotations

import asyncio
from typing import Any

from streamer.decoding import Folded
from streamer.worker.faust.batches import portions
from streamer.worker.processing.idle import IdleRuns
from streamer.worker.processing.measures import Measures
from streamer.worker.processing.partition import Partition


class BatchFolder:
    """Folds batches; the caller holds the processor's lock."""

    def __init__(self, idle: IdleRuns, measures: Measures) -> None:
        self._idle = idle
        self._measures = measures

    async def fold(self, partition: Partition, records: list[Any]) -> Folded:
        """Fold in portions, so that the event loop gets its turns however long the records take.

        Rejections and misplaced records before `partition.silent_to` are left out: they were written before.
        """
        folded = Folded()
        for portion in portions(records, partition.silent_to):
            found = partition.pipeline.fold(portion)
            self._note(partition, found)
            if found.of_closed:
                opened = await self._fold_closed(partition, found)
                found.touched |= opened.touched
                found.more_than_starts |= opened.more_than_starts
            folded.touched |= found.touched
            folded.more_than_starts |= found.more_than_starts
            if portion[0].offset >= partition.silent_to:
                folded.rejections += found.rejections
                folded.misplaced += found.misplaced
            await asyncio.sleep(0)
        return folded

    async def _fold_closed(self, partition: Partition, found: Folded) -> Folded:
        """Open the runs again whose records were handed back, and fold those."""
        for run_id in dict.fromkeys(run_id for _, run_id in found.of_closed):
            await self._idle.open(partition, run_id)
        opened = partition.pipeline.fold(record for record, _ in found.of_closed)
        self._note(partition, opened)
        return opened

    def _note(self, partition: Partition, folded: Folded) -> None:
        """Count what a fold reported; a run in quarantine that was deleted is to be folded again."""
        self._measures.folded(folded)
        partition.held += folded.held
        partition.let_go_of_failed()
        partition.deletions |= folded.deletions
