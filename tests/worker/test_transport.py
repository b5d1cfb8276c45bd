"""How the settings reach Faust."""

from __future__ import annotations

from math import inf
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import IllegalStateError

from streamer.settings import Settings
from streamer.storage.kafka import Names
from streamer.worker.transport import Consumer, TopicPartition, session_seconds
from tests.worker.processor_bench import an_app


def test_sasl_and_tls_reach_fausts_consumer() -> None:
    settings = Settings(
        security_protocol="SASL_SSL", sasl_mechanism="SCRAM-SHA-512", sasl_username="u", sasl_password="p"
    )
    credentials = an_app(settings, Names()).conf.broker_credentials
    assert credentials.protocol.value == "SASL_SSL"
    assert credentials.mechanism.value == "SCRAM-SHA-512"
    assert (credentials.username, credentials.password) == ("u", "p")
    assert credentials.ssl_context is not None


def test_variables_of_other_an_apps_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKER_URL", "kafka://elsewhere:1")
    app = an_app(Settings(bootstrap="here:9092"), Names())
    assert [str(url) for url in app.conf.broker] == ["kafka://here:9092"]


def test_sessions_are_short_on_the_embedded_broker() -> None:
    assert session_seconds(Settings(embedded=True)) == 3
    assert session_seconds(Settings(embedded=True, session_timeout_seconds=2)) == 2
    assert session_seconds(Settings()) == 10


# -----------------------------------------------------------------------------
# Questions to the group's consumer while partitions come and go.


PLACE = TopicPartition("trial-events", 3)


async def test_a_partition_that_was_revoked_this_moment_has_no_position() -> None:
    without_assignment = AIOKafkaConsumer(bootstrap_servers="127.0.0.1:1")
    with pytest.raises(IllegalStateError):
        await without_assignment.position(PLACE)
    consumer: Any = Consumer.__new__(Consumer)
    consumer._thread = SimpleNamespace(position=without_assignment.position)
    assert await cast(Consumer, consumer).position(PLACE) is None
    await without_assignment.stop()


def test_a_record_on_its_own_does_not_wait_for_others() -> None:
    seconds = [0.0]
    given: Any = SimpleNamespace(_fetched_at=-inf, loop=SimpleNamespace(time=lambda: seconds[0]))

    def busy_after(pause: float, fetched: int) -> bool:
        seconds[0] += pause
        return Consumer._is_busy(given, fetched)

    assert not busy_after(1.0, 1)
    assert not busy_after(0.1, 1), "ten a second"
    assert busy_after(0.005, 1), "two hundred a second"
    assert busy_after(0.1, 20), "which now come together"
    assert not busy_after(0.1, 0)
