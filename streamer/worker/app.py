"""The only place where the worker is put together."""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import faust
from faust.types import TP

from streamer.aggregate.changes import SummaryChange
from streamer.kafka.names import Names
from streamer.redis.sink import RedisSink
from streamer.score import PriceTable, made_with
from streamer.settings import Settings
from streamer.worker.alive import Pulse
from streamer.worker.configuration import Configuration
from streamer.worker.foreign import ForeignRecords
from streamer.worker.housekeeping import Housekeeping
from streamer.worker.idle import IdleRuns
from streamer.worker.limits import (
    BROKER_PATIENCE_SECONDS,
    EMBEDDED_SESSION_TIMEOUT_SECONDS,
    MAX_MESSAGE_BYTES,
    MAX_POLL_RECORDS,
)
from streamer.worker.local_state import instance_of
from streamer.worker.log_faults import LogFaults
from streamer.worker.meter import Meter
from streamer.worker.output import Output
from streamer.worker.processor import Processor
from streamer.worker.publishing import Publisher
from streamer.worker.recovery import Rebuild
from streamer.worker.repair import Repairs
from streamer.worker.stores import in_directory
from streamer.worker.tables import PatientTableManager, Tables
from streamer.worker.transport import AsFetched, batch_transport, consumer_of

log = logging.getLogger(__name__)

HEARTBEATS_PER_SESSION = 3
COMMIT_SECONDS = 1.0
"""What a killed worker's successor folds again at most, beside what was not published yet."""


class StreamerApp(faust.App):
    """Faust app that leaves nothing on disk; stores make their own directories."""

    logger = logging.getLogger("faust.streamer")

    def _create_directories(self) -> None:
        """None here."""


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker, put together and not started."""

    app: faust.App
    output: Output
    sink: RedisSink
    processor: Processor
    housekeeping: Housekeeping
    meter: Meter
    configuration: Configuration


def session_seconds(settings: Settings) -> float:
    """Session timeout: on the embedded broker at most 3 s, since a join waits for half of it."""
    seconds = settings.session_timeout_seconds
    return min(seconds, EMBEDDED_SESSION_TIMEOUT_SECONDS) if settings.embedded else seconds


def build(settings: Settings, pulse: Pulse, state: Path | None = None) -> Worker:
    """Put a worker together; its tables lie in memory unless there is a directory for their `state`."""
    names, writer = Names(settings.namespace), uuid.uuid4().hex[:12]
    app = faust_app(settings, names, state)
    app.transport = batch_transport(app, settings, names.trial_events)
    tables = Tables(app, names, settings.partitions, in_directory(state))
    output = Output(settings, pulse, tables.written)
    owner = _Owner()
    sink = RedisSink.from_settings(settings, owner)
    publisher, meter = Publisher(names, tables), Meter(settings.partitions)
    if settings.metrics_address is not None:
        meter.watch(app)
    processor = Processor(
        app,
        settings.partitions,
        tables=tables,
        publisher=publisher,
        output=output,
        sink=sink,
        pulse=pulse,
        waiting=lambda number, offset: _waiting(app, TP(names.trial_events, number), offset),
        idle=IdleRuns(settings, tables, publisher),
        meter=meter,
        faults=(faults := LogFaults(app, settings, tables, output)),
    )
    owner.processor = processor
    prices = _prices(settings)
    configuration = Configuration(settings, made_with(prices), output)
    rebuild = Rebuild(
        app,
        settings,
        tables=tables,
        processor=processor,
        output=output,
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
        others=ForeignRecords(app, settings, tables, processor, output),
        repairs=Repairs(settings, processor, tables),
        configuration=configuration,
        worker_id=writer,
        meter=meter,
        faults=faults,
    )
    return Worker(app, output, sink, processor, housekeeping, meter, configuration)


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


def faust_app(settings: Settings, names: Names, state: Path | None = None) -> faust.App:
    """The Faust app that the settings describe, without topics, tables and processors."""
    session = session_seconds(settings)
    app = StreamerApp(
        names.group,
        env_prefix="STREAMER_FAUST",  # otherwise variables such as BROKER_URL would beat what stands here
        broker=[f"kafka://{server}" for server in settings.bootstrap.split(",")],
        store="memory://",  # each table brings its own
        datadir=state or Path(os.devnull),
        web_enabled=False,
        topic_disable_leader=True,
        topic_partitions=settings.partitions,
        topic_replication_factor=settings.replication,
        table_standby_replicas=settings.standby_replicas,
        broker_session_timeout=session,
        broker_heartbeat_interval=session / HEARTBEATS_PER_SESSION,
        broker_request_timeout=BROKER_PATIENCE_SECONDS,
        broker_rebalance_timeout=BROKER_PATIENCE_SECONDS,
        broker_commit_interval=COMMIT_SECONDS,
        broker_max_poll_records=MAX_POLL_RECORDS,
        consumer_group_instance_id=None if state is None or settings.embedded else instance_of(state),
        consumer_max_fetch_size=MAX_MESSAGE_BYTES,
        producer_compression_type=settings.codec,
        producer_max_request_size=MAX_MESSAGE_BYTES,
        stream_wait_empty=True,
        stream_recovery_delay=0.0,
        TableManager=PatientTableManager,
        ssl_context=settings.ssl_context(),
        **_credentials(settings),
    )
    app.finalize()
    return app


def _credentials(settings: Settings) -> dict[str, Any]:
    """Faust's own words for SASL; TLS alone goes by the SSL context."""
    if not settings.security_protocol.startswith("SASL"):
        return {}
    options = settings.kafka_options()
    return {
        "broker_credentials": faust.SASLCredentials(
            username=options["sasl_plain_username"],
            password=options["sasl_plain_password"],
            mechanism=settings.sasl_mechanism,
            ssl_context=options["ssl_context"],
        )
    }
