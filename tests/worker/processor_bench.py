"""A processor with one partition, and nothing real around it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from streamer.folding.fold import Pipeline
from streamer.folding.slots import RunUpdate, SummaryChange
from streamer.schemas.base import SummaryKind
from streamer.settings import Settings
from streamer.storage.kafka import Names
from streamer.storage.outbox import ProducerRecord
from streamer.worker.agents import Processor, Together
from streamer.worker.metrics import Metrics
from streamer.worker.partition import PUBLISH_SECONDS, Partition, PublishQueue, RecordEncoder
from streamer.worker.process import BYTES, CHANGELOG
from streamer.worker.publisher import CheckpointWriter, IdleRuns
from streamer.worker.tables import StateTable, StoreOf, Tables, memory
from streamer.worker.transport import FetchedBatch, StreamerApp, Watchdog, app_options
from tests.worker.deployment import trial_events


class Broker:
    """Takes writes and tells the tables of them."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.writes: list[list[ProducerRecord]] = []
        self.scored_end = 0

    def answered_to(self, topic: str, partition: int) -> int:
        return self.scored_end

    async def write(self, records: Iterable[ProducerRecord]) -> None:
        outs = list(records)
        for out in outs:
            self.tables.written(out.topic, out.partition, 0, [out])
        self.writes.append(outs)

    @property
    def topics(self) -> list[set[str]]:
        """Topics of each write that was not empty."""
        return [{out.topic for out in outs} for outs in self.writes if outs]


class Sink:
    def __init__(self) -> None:
        self.updates: list[RunUpdate] = []
        self.reconciled: list[str] = []

    async def write(self, updates: Sequence[RunUpdate]) -> None:
        self.updates += updates

    async def reconcile(self, run_ids: Iterable[str]) -> None:
        self.reconciled += run_ids


class App:
    def __init__(self) -> None:
        self.crashes: list[BaseException] = []

    async def crash(self, error: BaseException) -> None:
        self.crashes.append(error)

    async def until_crashed(self) -> None:
        while not self.crashes:
            await asyncio.sleep(0)


def an_app(settings: Settings, names: Names, state: Path | None = None) -> StreamerApp:
    """The app of `streamer.worker.process`, without topics, tables and agent."""
    app = StreamerApp(names.group, **app_options(settings, state))
    app.finalize()
    return app


def a_table(
    app: StreamerApp, name: str, topic: str, partitions: int, store: StoreOf = memory, write: Any = None
) -> StateTable:
    """One table with its changelog, as `streamer.worker.process` declares it."""
    changelog = app.topic(topic, partitions=partitions, **BYTES, **CHANGELOG)
    rows = app.Table(name, partitions=partitions, changelog_topic=changelog, **BYTES)
    return StateTable(rows, store, write)


def tables_of(app: StreamerApp, names: Names, write: Any) -> Tables:
    kinds: dict[SummaryKind, tuple[str, str]] = {
        "agent_model": ("agent_model_summaries", names.agent_model_summaries),
        "tier": ("tier_summaries", names.tier_summaries),
        "run": ("run_summaries", names.run_summaries),
        "comparison": ("run_comparisons", names.run_comparisons),
    }
    trials = a_table(app, "trials", names.trials_changelog, 1, write=write)
    return Tables(trials, {kind: a_table(app, *named, 1, write=write) for kind, named in kinds.items()})


def a_batch(first: int, values: Iterable[bytes], partition: int = 0) -> FetchedBatch:
    """A batch of these events, offsets from `first` on."""
    records = [
        SimpleNamespace(
            topic="trial-events", partition=0, offset=offset, timestamp=0, key=None, value=value, headers=()
        )
        for offset, value in enumerate(values, first)
    ]
    return FetchedBatch("trial-events", partition, records)


class Bench:
    """A processor with one partition and nothing real around it."""

    def __init__(self, *, position: int = 0, catch_up_to: int = 0, caught_up: bool = True) -> None:
        names = Names()
        tables = tables_of(an_app(Settings(), names), names, self._write)
        for table in tables.all():
            table.rows.apply(0, [], None)
        self.app, self.broker, self.sink = App(), Broker(tables), Sink()
        self.behind = False
        encoder = RecordEncoder(names, tables)
        self.tables, self.seconds = tables, 0.0
        self.log_start, self.log_start_asked = 0, 0
        clocks = (lambda: self.seconds,) * 2
        collaborators: Any = {
            "tables": tables,
            "encoder": encoder,
            "idle": IdleRuns(Settings(run_idle_seconds=60), tables, encoder, *clocks),
            "producer": self.broker,
            "sink": self.sink,
            "check_alive": Watchdog(60).check,
            "measures": Metrics(1),
            "checkpoints": CheckpointWriter(
                tables, cast(Any, self.broker), names.scored_trials, self._log_start
            ),
            "waiting": lambda number, offset: 100_000 if self.behind else 0,
        }
        self.processor = Processor(self.app.crash, 1, **collaborators)
        self.processor.now = clocks[0]
        progress: Any = {"caught_up": caught_up, "publish_queue": PublishQueue(lambda: self.seconds)}
        self.partition = Partition(0, 1, Pipeline(writer="w"), position, catch_up_to, **progress)
        self.processor.partitions[0] = self.partition

    async def _write(self, records: Iterable[ProducerRecord]) -> None:
        await self.broker.write(records)

    async def handle(self, *batches: FetchedBatch, ownership: int | None = None) -> None:
        """One turn of the loop in `streamer.worker.agents`, with these batches."""
        owned = self.processor.ownership if ownership is None else ownership
        async with self.processor.whole():
            changes = await self.processor.fold(Together(list(batches), owned))
            await self.processor.queue(changes)
            await self.processor.publish_due()

    async def run(self, stream: Any) -> None:
        """The loop, until the stream ends."""
        async for batch in self.processor.together(stream):
            await self.handle(*batch.batches, ownership=batch.ownership)

    async def settle(self) -> None:
        """So long later, everything that rested is published, unless there is a backlog."""
        self.seconds += PUBLISH_SECONDS + 0.001  # sums of tenths are not exact
        await self.processor.publish_due()

    async def _log_start(self, partition: int) -> int:
        self.log_start_asked += 1
        return self.log_start

    def current(self) -> list[SummaryChange]:
        """Every summary of the partition as published."""
        idle = self.processor.idle
        return [c for run_id in self.partition.run_ids() for c in idle.summaries(self.partition, run_id)]

    def batch(self, first: int, count: int, partition: int = 0) -> FetchedBatch:
        return a_batch(first, trial_events(first + count)[first:], partition)
