"""The only place where the worker is put together."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from streamer.folding.score import made_with
from streamer.folding.score.prices import price_table
from streamer.folding.slots import RunUpdate
from streamer.settings import Settings
from streamer.storage.kafka import Names
from streamer.storage.redis import RedisSink
from streamer.worker import process
from streamer.worker.metrics import Metrics
from streamer.worker.partition import RecordEncoder
from streamer.worker.process import Configuration, Housekeeping, TopicWatch, Watchdog, Worker, check_topics
from streamer.worker.processor import Processor
from streamer.worker.producer import Producer
from streamer.worker.publisher import CheckpointWriter, IdleRuns
from streamer.worker.recovery import Fencing, PartitionRecovery, Repairs
from streamer.worker.tables import Tables, in_directory
from streamer.worker.transport import StreamerApp, TopicPartition, batch_transport, faust_app, process_batches

log = logging.getLogger(__name__)


def run_worker(settings: Settings) -> int:
    """Run a worker; blocks. The exit code: 0 after a signal, 1 after a crash, 2 for wrong settings."""
    return process.run(settings, build)


def build(settings: Settings, watchdog: Watchdog, state: Path | None = None) -> Worker:
    """Put a worker together; its tables lie in memory unless there is a directory for their `state`."""
    prices = price_table(settings.prices_file)
    names, writer = Names(settings.namespace), uuid.uuid4().hex[:12]
    app = faust_app(settings, names, state)
    app.transport = batch_transport(app, settings, names.trial_events)
    tables = Tables(app, names, settings.partitions, in_directory(state))
    producer = Producer(settings, watchdog.check, tables.written)
    owner = _RunOwner()
    sink = RedisSink.from_settings(settings, owner)
    encoder, metrics = RecordEncoder(names, tables), Metrics(settings.partitions)
    if settings.metrics_address is not None:
        app.report_to(metrics.registry)
    checkpoints = CheckpointWriter(
        tables, producer, names.scored_trials, lambda number: _log_start(app, settings, number)
    )
    processor = Processor(
        app.crash,
        settings.partitions,
        tables=tables,
        encoder=encoder,
        producer=producer,
        sink=sink,
        check_alive=watchdog.check,
        waiting=lambda number, offset: _waiting(app, TopicPartition(names.trial_events, number), offset),
        idle=IdleRuns(settings, tables, encoder),
        measures=metrics,
        checkpoints=checkpoints,
    )
    owner.processor = processor
    configuration = Configuration(settings, made_with(prices), producer)

    def on_ready(mine: list[int]) -> None:
        log.info("ready: worker %s owns partitions %s", writer, mine)
        housekeeping.hurry()

    recovery = PartitionRecovery(
        app,
        settings,
        tables=tables,
        processor=processor,
        producer=producer,
        prices=prices,
        check_topics=partial(check_topics, settings),
        check_configuration=configuration.check,
        writer=writer,
        on_ready=on_ready,
    )
    tables.on_recovered(recovery.recover)
    process_batches(app, names.trial_events, settings.partitions, processor.run)
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
        topics=TopicWatch(settings),
        checkpoints=checkpoints,
    )
    return Worker(app, producer, sink, processor, housekeeping, metrics, configuration)


class _RunOwner:
    """The processor as the sink's owner of runs: it is made after the sink."""

    processor: Processor

    def run_ids(self) -> Iterator[str]:
        """As the processor says."""
        return self.processor.run_ids()

    def standing(self, run_id: str) -> RunUpdate:
        """As the processor says."""
        return self.processor.standing(run_id)


def _waiting(app: StreamerApp, place: TopicPartition, next_offset: int) -> int:
    """How many records of a partition, from this offset on, the log is known to hold."""
    return max(0, app.known_end(place) - next_offset)


async def _log_start(app: StreamerApp, settings: Settings, number: int) -> int:
    """Offset of the first event in a partition's log; 0 on the embedded broker, which deletes none."""
    if settings.embedded:
        return 0
    place = TopicPartition(Names(settings.namespace).trial_events, number)
    return (await app.event_consumer.earliest_offsets(place))[place] or 0
