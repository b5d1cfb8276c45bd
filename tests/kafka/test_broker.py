"""Why a broker does not let us in: one sentence with what to do; one that is away stays away."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.errors import (
    AuthenticationFailedError,
    KafkaConnectionError,
    UnsupportedSaslMechanismError,
)

from streamer.settings import Settings
from streamer.storage import kafka as module
from streamer.storage.kafka import BrokerRefuses, refuse_other_protocol, telling_refusals

PLAIN = Settings(bootstrap="one:9092,two:9092")
SASL = Settings(
    bootstrap="one:9092", security_protocol="SASL_PLAINTEXT", sasl_username="u", sasl_password="hunter2"
)


class Servers:
    """What each server does with a connection, and what is wrong with its TLS."""

    def __init__(self) -> None:
        self.failures: dict[str, Exception] = {}
        self.wrong: dict[str, str] = {}

    async def connect(self, host: str, *_: Any, **__: Any) -> Any:
        raise self.failures.get(host, KafkaConnectionError("away"))

    def mismatch(self, host: str, *_: Any, **__: Any) -> str | None:
        return self.wrong.get(host)


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Servers:
    servers = Servers()
    monkeypatch.setattr(module, "create_conn", servers.connect)
    monkeypatch.setattr(module, "mismatch", servers.mismatch)
    return servers


async def start(settings: Settings) -> None:
    """A client that could not connect, for whatever reason."""
    async with telling_refusals(settings):
        raise KafkaConnectionError("Unable to bootstrap")


async def test_a_broker_that_is_away_is_the_clients_own_error(servers: Servers) -> None:
    with pytest.raises(KafkaConnectionError, match="Unable to bootstrap"):
        await start(PLAIN)


@pytest.mark.parametrize(
    ("failure", "says"),
    [
        (AuthenticationFailedError(), "refuses user 'u'.*STREAMER_SASL_USERNAME"),
        (UnsupportedSaslMechanismError(), "does not take .* at this port.*STREAMER_SASL_MECHANISM"),
    ],
)
async def test_a_refusal_says_what_to_check_and_no_password(
    servers: Servers, failure: Exception, says: str
) -> None:
    servers.failures["one"] = failure
    with pytest.raises(BrokerRefuses, match=says) as told:
        await start(SASL)
    assert "hunter2" not in str(told.value)


async def test_the_refusal_of_any_server_is_told(servers: Servers) -> None:
    servers.failures["two"] = AuthenticationFailedError()
    with pytest.raises(BrokerRefuses, match="Kafka at two:9092"):
        await start(PLAIN)


async def test_a_broker_that_disagrees_about_tls_is_named_with_the_setting(servers: Servers) -> None:
    servers.wrong["two"] = "speaks TLS at this port"
    with pytest.raises(BrokerRefuses, match=r"Kafka at two:9092 speaks TLS.*Set it to SSL or SASL_SSL"):
        await refuse_other_protocol(PLAIN)
    with pytest.raises(BrokerRefuses):
        await start(PLAIN)


async def test_a_start_that_works_asks_nobody(servers: Servers) -> None:
    servers.wrong["one"] = "speaks TLS at this port"
    async with telling_refusals(PLAIN):
        pass
