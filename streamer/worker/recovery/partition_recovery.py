"""Rebuilding what is in memory from the state pages, after every rebalance.

Runs in `trials.on_recover`: Faust has recovered the tables, the event partitions are still paused. Faust
swallows exceptions there and would go on with half a state, so everything is caught and ends the worker.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import orjson

from streamer.kafka.meta import EPOCH_KEY, epoch_by, epoch_value, meta_records
from streamer.kafka.names import Names
from streamer.kafka.partitioner import partition_of
from streamer.kafka.quarantine import BY_DELETION, Quarantine, quarantined_run, run_to_repair
from streamer.pipeline import Pipeline
from streamer.records import Failure
from streamer.score import PriceTable
from streamer.settings import Settings
from streamer.worker.constants import PAGES_PER_TURN
from streamer.worker.faust.app import StreamerApp
from streamer.worker.faust.producer import Producer, ProducerRecord
from streamer.worker.faust.tables import Tables
from streamer.worker.faust.topic_partition import TopicPartition
from streamer.worker.processing.changelog_checkpoint import (
    Checkpoint,
    StateLost,
    basis_of,
    checkpoint_key,
    is_page,
)
from streamer.worker.processing.partition import Partition, QuarantinedRun
from streamer.worker.processing.processor import Processor
from streamer.worker.recovery.log_positions import LogPositions, read_positions

log = logging.getLogger(__name__)


def _lacks_scored(told: Checkpoint, at: LogPositions, pages: Mapping[str, bytes]) -> bool:
    """Whether the topic of scored trials lost records: it was deleted, and perhaps created again."""
    filled = any(map(is_page, pages))
    return at.scored_end < told.scored_to or (filled and at.scored_end == 0)


class PartitionRecovery:
    """Rebuilds the processor's partitions.

    Args:
        check_topics: raises if the topics do not have as many partitions as the settings say.
        check_configuration: raises if `streamer-meta` says that another configuration is current.
        writer: name of this process in page keys.
        on_ready: called with the partitions after each rebuild.
    """

    def __init__(
        self,
        app: StreamerApp,
        settings: Settings,
        *,
        tables: Tables,
        processor: Processor,
        producer: Producer,
        prices: PriceTable,
        check_topics: Callable[[], Awaitable[None]],
        check_configuration: Callable[[Iterable[Any]], None],
        writer: str,
        on_ready: Callable[[list[int]], None],
    ) -> None:
        self._app = app
        self._settings = settings
        self._names = Names(settings.namespace)
        self._tables = tables
        self._processor = processor
        self._producer = producer
        self._prices = prices
        self._check_topics = check_topics
        self._check_configuration = check_configuration
        self._writer = writer
        self._on_ready = on_ready
        self._rebuilds = 0

    async def recover(self) -> None:
        """Called by Faust once the tables are recovered; never returns if the rebuild failed."""
        rebalance = self._app.rebalances
        try:
            async with self._processor.lock:
                await self._rebuild(rebalance)
        except Exception as error:
            if rebalance == self._app.rebalances:
                await self._processor.give_up(error)
            log.info("another rebalance began (%s); its rebuild follows", error)

    async def _rebuild(self, rebalance: int) -> None:
        self._rebuilds += 1
        self._app.check_recovered()
        await self._check_topics()
        mine = self._app.assigned_partitions(self._names.trial_events)
        self._producer.note_ends(self._app.changelog_ends())
        self._app.event_consumer.refolded.clear()
        logs = await read_positions(self._app.event_consumer, self._names, mine)
        records = await meta_records(self._settings)
        self._check_configuration(records)
        epoch = epoch_by(self._settings, records)
        partitions = {}
        for number in mine:
            pages = dict(self._tables.trials.of_partition(number))
            partitions[number] = await self._partition(number, pages, logs[number], epoch)
            _note_quarantined(partitions[number], pages)
            if rebalance != self._app.rebalances:
                log.info("another rebalance began; its rebuild follows")
                return
        self._processor.own(partitions)
        await self._processor.publish_passed()
        self._on_ready(mine)

    async def _partition(
        self, number: int, pages: dict[str, bytes], at: LogPositions, epoch: int
    ) -> Partition:
        if self._settings.epoch is None:
            epoch = max(epoch, self._greatest("epoch", number))
        told = Checkpoint.decoded(self._tables.trials.get(checkpoint_key(number)))
        covered, refill = told.covers(at.changelog_start), _lacks_scored(told, at, pages)
        holds = told.basis == basis_of(self._prices, epoch) and not refill and not at.committed_by_others
        settled_to = (at.committed or 0) if covered and holds else 0
        pipeline = await self._load(number, epoch, pages, settled_to=settled_to)
        as_of = pipeline.as_of
        if as_of >= at.end and self._settings.epoch is None:
            epoch = await self._next_epoch(number, as_of, at.end, epoch)
            pipeline = await self._load(number, epoch, pages, settled_to=0)
        basis = basis_of(self._prices, epoch)
        moved = at.committed_by_others and (at.committed or 0) > as_of + 1
        following = as_of + 1 if moved or at.committed is None else at.committed
        checkpoint = replace(told, basis=basis).losing(following, at.start)
        if len(checkpoint.lost) > len(told.lost):
            log.error("%s", checkpoint.what_is_lost(number))
        if not covered or told.complete_from is None:
            return self._refolded(number, epoch, pipeline, at, checkpoint)
        if moved:
            return self._moved(number, epoch, pipeline, at, checkpoint)
        return Partition(
            number,
            epoch,
            pipeline,
            max(at.committed or 0, at.start),
            min(as_of + 1, at.end),
            end=at.end,
            pending_checkpoint=None if checkpoint == told and not refill else checkpoint.encoded(),
            checkpoint=checkpoint,
            refill=refill,
        )

    def _moved(
        self, number: int, epoch: int, pipeline: Pipeline, at: LogPositions, checkpoint: Checkpoint
    ) -> Partition:
        """Somebody else committed an offset beyond what was folded: fold all that is there once more."""
        done, reached = pipeline.as_of + 1, at.committed or 0
        log.error(
            "partition %d: its committed offset was moved to %d, not by a worker, and %d is folded; folding "
            "the log again from its beginning",
            number,
            reached,
            done,
        )
        self._app.event_consumer.refolded.add(TopicPartition(self._names.trial_events, number))
        return Partition(
            number,
            epoch,
            pipeline,
            at.start,
            min(max(done, reached), at.end),
            end=at.end,
            silent_to=done,
            pending_checkpoint=checkpoint.encoded(),
            checkpoint=checkpoint,
            moved=True,
        )

    def _refolded(
        self, number: int, epoch: int, pipeline: Pipeline, at: LogPositions, checkpoint: Checkpoint
    ) -> Partition:
        """The pages may lack something: fold everything again, past all that was ever published from it."""
        if at.committed:
            if at.start:
                names = self._names
                raise StateLost(names.trials_changelog, names.trial_events, number, at.start, names.group)
            log.warning(
                "partition %d: its state pages are not all there; folding the log again from its beginning",
                number,
            )
        self._app.event_consumer.refolded.add(TopicPartition(self._names.trial_events, number))
        for run_id in pipeline.runs():  # a local disk may have pages that the changelog has lost
            pipeline.run(run_id).replace_pages()
        done = at.committed or 0
        past = max(pipeline.as_of + 1, done, self._greatest("state_version", number) + 1)
        checkpoint = replace(checkpoint, complete_from=at.changelog_start, scored_to=0)
        return Partition(
            number,
            epoch,
            pipeline,
            at.start,
            min(past, at.end),
            end=at.end,
            silent_to=done,
            pending_checkpoint=checkpoint.encoded(),
            checkpoint=checkpoint,
        )

    async def _load(self, number: int, epoch: int, pages: dict[str, bytes], *, settled_to: int) -> Pipeline:
        """Join the pages; each rebuild is a writer of its own, so that it never rewrites a page unread."""
        count = self._settings.partitions
        pipeline = Pipeline(
            epoch=epoch,
            writer=f"{self._writer}.{self._rebuilds}",
            prices=self._prices,
            owns=lambda run_id: partition_of(run_id, count) == number,
        )
        for run_id, quarantine in _quarantined(pages).items():
            pipeline.adopt(Failure(run_id, quarantine.reason))
        for loaded, (key, value) in enumerate(pages.items()):
            if is_page(key):
                pipeline.load_page(key, value, settled_to=settled_to)
            if loaded % PAGES_PER_TURN == 0:
                await asyncio.sleep(0)
        pipeline.loaded()
        return pipeline

    def _greatest(self, field: str, number: int) -> int:
        """Greatest epoch or state version among the run summaries of the partition, -1 if there are none."""
        runs = self._tables.summaries["run"].of_partition(number)
        return max((int(orjson.loads(value)[field]) for _, value in runs), default=-1)

    async def _next_epoch(self, number: int, as_of: int, end: int, epoch: int) -> int:
        log.warning(
            "partition %d: its pages have seen offset %d, the log ends at %d: a new log; epoch %d begins",
            number,
            as_of,
            end,
            epoch + 1,
        )
        record = ProducerRecord(self._names.streamer_meta, 0, EPOCH_KEY, epoch_value(epoch + 1))
        await self._producer.write([record])
        return epoch + 1


def _quarantined(pages: Mapping[str, bytes]) -> dict[str, Quarantine]:
    """Runs in quarantine, as it stands among the pages."""
    found = ((quarantined_run(key), value) for key, value in pages.items())
    return {run_id: Quarantine.read(value) for run_id, value in found if run_id is not None}


def _note_quarantined(partition: Partition, pages: Mapping[str, bytes]) -> None:
    """Runs in quarantine, and requests to fold runs again."""
    for run_id, quarantine in _quarantined(pages).items():
        partition.quarantined[run_id] = QuarantinedRun(quarantine, ())
        if quarantine.deleted_to is not None:
            partition.repairs[run_id] = BY_DELETION
    for key, value in pages.items():
        if (asked := run_to_repair(key)) is not None:
            partition.repairs[asked] = value.decode("utf-8", "replace")
