"""The Faust app that the settings describe."""

from __future__ import annotations

import logging
import os
import socket
import uuid
from pathlib import Path
from typing import Any, cast

import faust
from faust.sensors.prometheus import FaustMetrics, PrometheusMonitor
from prometheus_client import CollectorRegistry

from streamer.kafka.constants import MAX_MESSAGE_BYTES
from streamer.kafka.names import Names
from streamer.settings import Settings
from streamer.worker.constants import (
    BROKER_PATIENCE_SECONDS,
    EMBEDDED_SESSION_TIMEOUT_SECONDS,
    MAX_POLL_RECORDS,
)
from streamer.worker.faust.event_consumer import EventConsumer
from streamer.worker.faust.table_recovery import PatientTableManager
from streamer.worker.faust.topic_partition import TopicPartition

HEARTBEATS_PER_SESSION = 3
COMMIT_SECONDS = 1.0
"""What a killed worker's successor folds again at most, beside what was not published yet."""


class StreamerApp(faust.App):
    """The Faust app of a worker, with what the other rooms ask of it under names of ours.

    It leaves nothing on disk: stores make their own directories.
    """

    logger = logging.getLogger("faust.streamer")

    def _create_directories(self) -> None:
        """Create no directories: a worker keeps its files elsewhere."""

    @property
    def event_consumer(self) -> EventConsumer:
        """The consumer of our transport."""
        return cast(EventConsumer, self.consumer)

    @property
    def rebalances(self) -> int:
        """How many rebalances have begun so far, those at work included."""
        return int(self.rebalancing_count)

    @property
    def is_settled(self) -> bool:
        """True unless a rebalance or a recovery is under way."""
        return not (self.rebalancing or self.in_recovery)

    @property
    def unrecovered(self) -> int:
        """Changelog records that the recovery under way still has to read; 0 outside of one."""
        remaining = self._manager.recovery.active_remaining_total() if self.in_recovery else 0
        return max(0, int(remaining))

    def assigned_partitions(self, topic: str) -> list[int]:
        """The partitions of a topic that are this worker's, in order."""
        return sorted(tp.partition for tp in self.assignor.assigned_actives() if tp.topic == topic)

    def check_recovered(self) -> None:
        """Raise RecoveryIncomplete unless every changelog of this worker was read to its end."""
        self._manager.check_recovered()

    def changelog_ends(self) -> dict[tuple[str, int], int]:
        """The offset after the last record of each changelog partition that the recovery has read."""
        last = self._manager.recovery.active_highwaters
        return {(tp.topic, tp.partition): offset + 1 for tp, offset in last.items()}

    def known_end(self, place: TopicPartition) -> int:
        """Where a partition ends as far as known; 0 if it is not assigned, or before a fetch."""
        consumer = self.event_consumer
        return (consumer.highwater(place) if place in consumer.assignment() else None) or 0

    def report_to(self, registry: CollectorRegistry) -> None:
        """Let Faust's own sensor report: consumer, tables, sends, assignments, rebalances."""
        self.monitor = PrometheusMonitor(metrics=FaustMetrics.create(registry, "faust"))

    async def wait_for_crash(self) -> None:
        """Return once the app has crashed."""
        await self._crashed.wait()

    def leave_group_at_the_end(self) -> None:
        """Leave the consumer group at a stop, even if the group would wait for this worker's return."""
        thread = getattr(self.consumer, "_thread", None)
        consumer = thread and thread._consumer
        if consumer is not None and consumer._coordinator is not None:
            consumer._coordinator._group_instance_id = None

    @property
    def _manager(self) -> PatientTableManager:
        return cast(PatientTableManager, self.tables)


def session_seconds(settings: Settings) -> float:
    """Session timeout: on the embedded broker at most 3 s, since a join waits for half of it."""
    seconds = settings.session_timeout_seconds
    return min(seconds, EMBEDDED_SESSION_TIMEOUT_SECONDS) if settings.embedded else seconds


def faust_app(settings: Settings, names: Names, state: Path | None = None) -> StreamerApp:
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
        consumer_group_instance_id=None if state is None or settings.embedded else _instance_of(state),
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


def _instance_of(directory: Path) -> str:
    """The name under which the worker of a directory is known to its consumer group, over its restarts.

    The host is part of it: Faust refuses an assignment that was made for another host.
    """
    file = directory / "instance"
    if not file.exists():
        file.write_text(uuid.uuid4().hex[:12])
    return f"{file.read_text()}-{socket.gethostname()}"


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
