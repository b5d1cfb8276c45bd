"""The only place where the worker is put together."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import faust
from faust.types import TP

from streamer.aggregate.changes import SummaryChange
from streamer.kafka.names import Names
from streamer.redis.sink import RedisSink
from streamer.score import PriceTable, made_with
from streamer.settings import Settings
from streamer.worker.faust.app import faust_app
from streamer.worker.faust.producer import Producer
from streamer.worker.faust.stores import in_directory
from streamer.worker.faust.tables import Tables
from streamer.worker.faust.transport import AsFetched, batch_transport, consumer_of
from streamer.worker.process import runner
from streamer.worker.process.configuration import Configuration
from streamer.worker.process.housekeeping import Housekeeping
from streamer.worker.process.log_faults import LogFaults
from streamer.worker.process.metrics import Metrics
from streamer.worker.process.runner import Worker
from streamer.worker.process.watchdog import Watchdog
from streamer.worker.processing.idle import IdleRuns
from streamer.worker.processing.processor import Processor
from streamer.worker.processing.record_encoding import RecordEncoder
from streamer.worker.recovery.fencing import Fencing
from streamer.worker.recovery.partition_recovery import PartitionRecovery
from streamer.worker.recovery.repair import Repairs

log = logging.getLogger(__name__)


def run_worker(settings: Settings) -> int:
    """Run a worker; blocks. The exit code: 0 after a signal, 1 after a crash, 2 for wrong settings."""
    return runner.run(settings, build)


def build(settings: Settings, watchdog: Watchdog, state: Path | None = None) -> Worker:
    """Put a worker together; its tables lie in memory unless there is a directory for their `state`."""
    names, writer = Names(settings.namespace), uuid.uuid4().hex[:12]
    app = faust_app(settings, names, state)
    app.transport = batch_transport(app, settings, names.trial_events)
    tables = Tables(app, names, settings.partitions, in_directory(state))
    producer = Producer(settings, watchdog, tables.written)
    owner = _Owner()
    sink = RedisSink.from_settings(settings, owner)
    encoder, metrics = RecordEncoder(names, tables), Metrics(settings.partitions)
    if settings.metrics_address is not None:
        metrics.watch(app)
    processor = Processor(
        app,
        settings.partitions,
        tables=tables,
        encoder=encoder,
        producer=producer,
        sink=sink,
        watchdog=watchdog,
        waiting=lambda number, offset: _waiting(app, TP(names.trial_events, number), offset),
        idle=IdleRuns(settings, tables, encoder),
        metrics=metrics,
        faults=(faults := LogFaults(app, settings, tables, producer)),
    )
    owner.processor = processor
    prices = _prices(settings)
    configuration = Configuration(settings, made_with(prices), producer)
    rebuild = PartitionRecovery(
        app,
        settings,
        tables=tables,
        processor=processor,
        producer=producer,
        prices=prices,
        configuration=configuration,
        writer=writer,
        on_ready=lambda mine: log.info("ready: worker %s owns partitions %s", writer, mine),
    )
    tables.trials.faust.on_recover(rebuild.__call__)
    events = app.topic(names.trial_events, schema=AsFetched(), partitions=settings.partitions)
    app.agent(events, name="streamer.fold")(_stream_processor(processor))
    housekeeping = Housekeeping(
        app,
        names.trial_events,
        processor=processor,
        sink=sink,
        fencing=Fencing(app, settings, tables, processor, producer),
        repairs=Repairs(settings, processor, tables),
        configuration=configuration,
        worker_id=writer,
        metrics=metrics,
        faults=faults,
    )
    return Worker(app, producer, sink, processor, housekeeping, metrics, configuration)


class _Owner:
    """The processor as the sink's owner of runs: it is made after the sink."""

    processor: Processor

    def run_ids(self) -> Iterator[str]:
        """As the processor says."""
        return self.processor.run_ids()

    def summaries(self, run_id: str) -> list[SummaryChange]:
        """As the processor says."""
        return self.processor.summaries(run_id)


def _waiting(app: faust.App, tp: TP, next_offset: int) -> int:
    """How many records of a partition, from this offset on, the log is known to hold."""
    consumer = consumer_of(app)
    known = consumer.highwater(tp) if tp in consumer.assignment() else None
    return max(0, (known or 0) - next_offset)


def _stream_processor(processor: Processor) -> Any:
    async def fold(stream: Any) -> None:
        await processor.run(stream)

    return fold


def _prices(settings: Settings) -> PriceTable:
    if settings.prices_file is None:
        return PriceTable.default()
    return PriceTable.from_toml(settings.prices_file.read_text(encoding="utf-8"))
