"""The worker as a Faust app: the topic that it reads, its tables with their changelogs, the agent that folds.

Faust provides the life cycle, sensors, recovery of tables, standby replicas, and a consumer group that
assigns a partition of the events together with the same partition of every table. Three things are different
here:

- An event is everything that one fetch brought of one partition.
- Table writes return after the acknowledgement (`save`). Faust's cannot be awaited, and it only logs
  failures.
- An offset may be committed only after `finish`. Faust acknowledges after an exception, too.

docs/engines.md has the reasons. docs/upstream has the faults behind them, each with a script.
"""

from __future__ import annotations

import logging
import uuid
from functools import partial
from pathlib import Path
from socket import gethostname
from typing import Any

from streamer.folding.prices import price_table
from streamer.folding.score import made_with
from streamer.settings import Settings
from streamer.storage.kafka import Names
from streamer.storage.redis import RedisSink
from streamer.worker import process
from streamer.worker.batches import Processor
from streamer.worker.metrics import Metrics
from streamer.worker.partition import RecordEncoder
from streamer.worker.process import Configuration, Housekeeping, TopicWatch, Watchdog, Worker, check_topics
from streamer.worker.producer import Producer
from streamer.worker.publisher import CheckpointWriter, IdleRuns
from streamer.worker.recovery import Fencing, LogIdentity, PartitionRecovery, Repairs
from streamer.worker.tables import StateTable, Tables, in_directory
from streamer.worker.transport import (
    AsFetched,
    BatchStream,
    StreamerApp,
    TopicPartition,
    app_options,
    batch_transport,
)

log = logging.getLogger(__name__)

BYTES: dict[str, Any] = {"key_type": bytes, "value_type": bytes}
CHANGELOG: dict[str, Any] = {
    "key_serializer": "raw",
    "value_serializer": "raw",
    "allow_empty": True,
    "acks": False,
    "internal": True,
}


def run_worker(settings: Settings) -> int:
    return process.run(settings, worker)


def worker(settings: Settings, watchdog: Watchdog, state: Path | None = None) -> Worker:
    """A worker, not yet started. `state` is the directory of its tables; None keeps them in memory."""
    prices = price_table(settings.prices_file)
    names = Names(settings.namespace)
    host = gethostname().encode("ascii", "replace").decode()[:40]  # a container's id, or a pod
    worker_id = f"{host}-{uuid.uuid4().hex[:6]}"

    # The app, and the topic of the events.
    app = StreamerApp(names.group, **app_options(settings, state))
    app.finalize()
    app.transport = batch_transport(app, settings, names.trial_events)
    events = app.topic(names.trial_events, schema=AsFetched(), partitions=settings.partitions)

    # The tables. The changelogs of the summaries are the topics that users subscribe to.
    producer = Producer(settings, watchdog.check, lambda *rows: tables.written(*rows))

    def table(name: str, topic: str) -> StateTable:
        changelog = app.topic(topic, partitions=settings.partitions, **BYTES, **CHANGELOG)
        rows = app.Table(name, partitions=settings.partitions, changelog_topic=changelog, **BYTES)
        return StateTable(rows, in_directory(state), producer.write)

    trials = table("trials", names.trials_changelog)
    agent_models = table("agent_model_summaries", names.agent_model_summaries)
    tiers = table("tier_summaries", names.tier_summaries)
    runs = table("run_summaries", names.run_summaries)
    comparisons = table("run_comparisons", names.run_comparisons)
    tables = Tables(
        trials, {"agent_model": agent_models, "tier": tiers, "run": runs, "comparison": comparisons}
    )

    # The processor, and the producers that it writes with.
    sink, metrics = RedisSink.from_settings(settings), Metrics(settings.partitions)
    if settings.metrics_address is not None:
        app.report_to(metrics.registry)
    encoder = RecordEncoder(names, tables)
    checkpoints = CheckpointWriter(tables, producer, names.scored_trials, partial(_log_start, app, settings))
    processor = Processor(
        app.crash,
        settings.partitions,
        tables=tables,
        encoder=encoder,
        producer=producer,
        sink=sink,
        check_alive=watchdog.check,
        waiting=lambda number, offset: app.waiting(TopicPartition(names.trial_events, number), offset),
        idle=IdleRuns(settings, tables, encoder),
        measures=metrics,
        checkpoints=checkpoints,
    )
    sink.serve(processor)

    @app.agent(events, name="streamer.fold")
    async def fold(stream: Any) -> None:
        """Fold each batch, queue the runs that it touched, and publish those that are due."""
        batches = processor.together(BatchStream(stream))
        async for batch in batches:
            async with processor.whole():
                changes = await processor.fold(batch)
                await processor.queue(changes)
                await processor.publish_due()

    # Work before the first event of a partition, and alongside all events.
    configuration = Configuration(settings, made_with(prices), producer)

    def on_ready(mine: list[int]) -> None:
        log.info("ready: worker %s owns partitions %s", worker_id, mine)
        housekeeping.hurry()

    identity = LogIdentity(settings, sink, producer)
    recovery = PartitionRecovery(
        app,
        settings,
        tables=tables,
        processor=processor,
        producer=producer,
        prices=prices,
        identity=identity,
        check_topics=partial(check_topics, settings),
        check_configuration=configuration.check,
        writer=worker_id,
        on_ready=on_ready,
    )
    tables.on_recovered(recovery.recover)
    housekeeping = Housekeeping(
        app,
        names.trial_events,
        processor=processor,
        sink=sink,
        fencing=Fencing(app, settings, tables, processor, producer),
        repairs=Repairs(settings, processor, tables),
        configuration=configuration,
        identity=identity,
        worker_id=worker_id,
        metrics=metrics,
        topics=TopicWatch(settings),
        checkpoints=checkpoints,
    )
    return Worker(app, producer, sink, processor, housekeeping, metrics, configuration)


async def _log_start(app: StreamerApp, settings: Settings, number: int) -> int:
    """Offset of the first event in a partition's log; 0 on the embedded broker, which deletes no events."""
    if settings.embedded:
        return 0
    place = TopicPartition(Names(settings.namespace).trial_events, number)
    return (await app.event_consumer.earliest_offsets(place))[place] or 0
