"""Why a broker does not let us in: what aiokafka only logs, as an exception with a sentence for people.

aiokafka takes a wrong password, an untrusted certificate and a broker that is away for the same: "Unable to
bootstrap". So after such a failure one more connection is made, whose failure is looked at.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiokafka.conn import create_conn
from aiokafka.errors import (
    AuthenticationFailedError,
    IllegalSaslStateError,
    KafkaConnectionError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)

from streamer.settings import Settings
from streamer.tls import mismatch

PROBE_MS = 10_000
KAFKA_HELLO = bytes.fromhex("0000000a 0012 0000 00000000 ffff")
"""A request for the versions that a broker speaks (ApiVersions 0, without a client's name)."""

_REFUSED = (AuthenticationFailedError, SaslAuthenticationFailed)
_OTHER_MECHANISM = (UnsupportedSaslMechanismError, IllegalSaslStateError)


class BrokerRefuses(KafkaError):  # type: ignore[misc]
    """A broker answers and does not let us in; trying again will not help."""

    def __str__(self) -> str:
        return str(self.args[0])


@asynccontextmanager
async def telling_refusals(settings: Settings) -> AsyncIterator[None]:
    """Around the start of a client.

    Raises:
        BrokerRefuses: instead of KafkaConnectionError, if a broker is there and refuses; at once if it does
            not speak TLS and we do.
    """
    if settings.security_protocol.endswith("SSL"):
        await refuse_other_protocol(settings)  # a client would wait long for an answer in TLS
    try:
        yield
    except KafkaConnectionError:
        await refuse_other_protocol(settings)
        for server in settings.bootstrap.split(","):
            if reason := await _reason(settings, server.strip()):
                raise BrokerRefuses(reason) from None
        raise


async def refuse_other_protocol(settings: Settings) -> None:
    """Make sure that we and the brokers agree about TLS; one that is away is no error.

    Raises:
        BrokerRefuses: they do not.
    """
    tls = settings.security_protocol.endswith("SSL")
    for server in settings.bootstrap.split(","):
        host, _, port = server.strip().rpartition(":")
        if wrong := await asyncio.to_thread(mismatch, host, int(port), KAFKA_HELLO, tls=tls):
            wanted = "PLAINTEXT or SASL_PLAINTEXT" if tls else "SSL or SASL_SSL"
            raise BrokerRefuses(
                f"Kafka at {server} {wrong}, and STREAMER_SECURITY_PROTOCOL is {settings.security_protocol}. "
                f"Set it to {wanted}, or name another port with --bootstrap"
            )


async def _reason(settings: Settings, server: str) -> str | None:
    """Why this server does not let us in; None if it does, or does not answer."""
    host, _, port = server.rpartition(":")
    options = {name: value for name, value in settings.kafka_options().items() if name != "bootstrap_servers"}
    try:
        connection = await create_conn(host, int(port), request_timeout_ms=PROBE_MS, **options)
    except ssl.SSLCertVerificationError as error:
        return (
            f"Kafka at {server}: its certificate is not trusted: {error.verify_message.rstrip('.')}. "
            "Name the CA that signed it with STREAMER_SSL_CAFILE, and in --bootstrap the host as it does"
        )
    except ssl.SSLError as error:
        said = (error.reason or "TLS failed").replace("_", " ").lower()
        return (
            f"Kafka at {server}: no TLS connection ({said}). Check that this port speaks "
            f"{settings.security_protocol}, and STREAMER_SSL_CERTFILE if it asks for a certificate"
        )
    except _REFUSED:
        return (
            f"Kafka at {server} refuses user {settings.sasl_username!r} by {settings.sasl_mechanism}: wrong "
            "name or password. Check STREAMER_SASL_USERNAME and STREAMER_SASL_PASSWORD (or ..._PASSWORD_FILE)"
        )
    except _OTHER_MECHANISM:
        return (
            f"Kafka at {server} does not take {settings.sasl_mechanism} at this port. Check "
            "STREAMER_SASL_MECHANISM and STREAMER_SECURITY_PROTOCOL"
        )
    except (KafkaError, OSError, TimeoutError):
        return None
    connection.close()
    return None
