"""The Faust app that the settings describe."""

from __future__ import annotations

import logging
import os
import socket
import uuid
from pathlib import Path
from typing import Any

import faust

from streamer.kafka.names import Names
from streamer.settings import Settings
from streamer.worker.faust.tables import PatientTableManager
from streamer.worker.limits import (
    BROKER_PATIENCE_SECONDS,
    EMBEDDED_SESSION_TIMEOUT_SECONDS,
    MAX_MESSAGE_BYTES,
    MAX_POLL_RECORDS,
)

HEARTBEATS_PER_SESSION = 3
COMMIT_SECONDS = 1.0
"""What a killed worker's successor folds again at most, beside what was not published yet."""


class StreamerApp(faust.App):
    """Faust app that leaves nothing on disk; stores make their own directories."""

    logger = logging.getLogger("faust.streamer")

    def _create_directories(self) -> None:
        """None here."""


def session_seconds(settings: Settings) -> float:
    """Session timeout: on the embedded broker at most 3 s, since a join waits for half of it."""
    seconds = settings.session_timeout_seconds
    return min(seconds, EMBEDDED_SESSION_TIMEOUT_SECONDS) if settings.embedded else seconds


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
