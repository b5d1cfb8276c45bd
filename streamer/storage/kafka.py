"""Names of topics, how they are created, and why Kafka refuses. `log` reads topics, `outbox` writes them.

>>> names = Names()
>>> names.trial_events, names.group
('trial-events', 'streamer')
>>> Names("team-a").trial_events, Names("team-a").group
('team-a.trial-events', 'team-a.streamer')
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache

from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.conn import create_conn
from aiokafka.errors import (
    AuthenticationFailedError,
    IllegalSaslStateError,
    InvalidTimestampError,
    KafkaTimeoutError,
    LeaderNotAvailableError,
    NodeNotReadyError,
    PolicyViolationError,
    SaslAuthenticationFailed,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    UnsupportedSaslMechanismError,
    for_code,
)
from aiokafka.errors import KafkaConnectionError as KafkaConnectionError
from aiokafka.errors import KafkaError as KafkaError
from aiokafka.errors import TopicAuthorizationFailedError as TopicAuthorizationFailedError
from aiokafka.partitioner import murmur2

from streamer.schemas.wire import TOPICS
from streamer.settings import Settings, mismatch
from streamer.storage.entries import cancellable

# -----------------------------------------------------------------------------
# Why a broker refuses us: reasons that aiokafka only logs, as an exception with a readable sentence.
#
# aiokafka has the same error for a wrong password, an untrusted certificate and an absent broker: "Unable to
# bootstrap". So after such a failure one more connection is made, to see how it fails.


PROBE_MS = 10_000
KAFKA_HELLO = bytes.fromhex("0000000a 0012 0000 00000000 ffff")
"""A request for a broker's API versions (ApiVersions 0, without a client's name)."""

_REFUSED = (AuthenticationFailedError, SaslAuthenticationFailed)
_OTHER_MECHANISM = (UnsupportedSaslMechanismError, IllegalSaslStateError)


class BrokerRefuses(KafkaError):  # type: ignore[misc]
    def __str__(self) -> str:
        return str(self.args[0])


@asynccontextmanager
async def telling_refusals(settings: Settings) -> AsyncIterator[None]:
    """Turn a client's failed start into BrokerRefuses if a broker refuses it. A client would wait long for a
    broker without TLS; this fails at once.
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
    """Raise BrokerRefuses if only one of client and broker uses TLS. An absent broker is not an error."""
    tls = settings.security_protocol.endswith("SSL")
    for server in settings.bootstrap.split(","):
        host, _, port = server.strip().rpartition(":")
        if wrong := await asyncio.to_thread(mismatch, host, int(port), KAFKA_HELLO, tls=tls):
            protocols = "PLAINTEXT or SASL_PLAINTEXT" if tls else "SSL or SASL_SSL"
            raise BrokerRefuses(
                f"Kafka at {server} {wrong}, but STREAMER_SECURITY_PROTOCOL is "
                f"{settings.security_protocol}. Set it to {protocols}, or name another port with "
                "--bootstrap"
            )


async def _reason(settings: Settings, server: str) -> str | None:
    host, _, port = server.rpartition(":")
    options = {name: value for name, value in settings.kafka_options().items() if name != "bootstrap_servers"}
    try:
        connection = await create_conn(host, int(port), request_timeout_ms=PROBE_MS, **options)
    except ssl.SSLCertVerificationError as error:
        return (
            f"Kafka at {server}: its certificate is not trusted: {error.verify_message.rstrip('.')}. Set "
            "STREAMER_SSL_CAFILE to the CA that signed it, and use its host name in --bootstrap"
        )
    except ssl.SSLError as error:
        said = (error.reason or "TLS failed").replace("_", " ").lower()
        return (
            f"Kafka at {server}: no TLS connection ({said}). Check that this port speaks "
            f"{settings.security_protocol}, and STREAMER_SSL_CERTFILE if it asks for a certificate"
        )
    except _REFUSED:
        return (
            f"Kafka at {server} refuses user {settings.sasl_username!r} ({settings.sasl_mechanism}): "
            "wrong name or password. Check STREAMER_SASL_USERNAME and STREAMER_SASL_PASSWORD (or "
            "..._PASSWORD_FILE)"
        )
    except _OTHER_MECHANISM:
        return (
            f"Kafka at {server} rejects {settings.sasl_mechanism} at this port. Check "
            "STREAMER_SASL_MECHANISM and STREAMER_SECURITY_PROTOCOL"
        )
    except (KafkaError, OSError, TimeoutError):
        return None
    connection.close()
    return None


# -----------------------------------------------------------------------------
# Sizes and times for all Kafka clients, each with its unit and reason.


MAX_MESSAGE_BYTES = 4 * 1024 * 1024
"""Largest record batch of producers and consumers: a state page with one 1 MiB event, plus room."""

FETCH_WAIT_MS = 500
"""How long a broker may hold an empty fetch. Apache Kafka answers at once when data arrive."""

SHORT_WAIT_MS = 20
"""How long the embedded broker may hold an empty fetch. It always waits this long, so this is its latency."""

END_WAIT_MS = 5
"""How long a broker may hold an empty fetch if the reader stops at the present end."""

LONGEST_WAIT_MS = 10_000
"""How long these waits may become while a broker finds nothing in time; shorter than `REQUEST_MS`."""

REQUEST_MS = 15_000
"""How long a request of a reader or admin client may take while a person waits."""

PATIENCE_SECONDS = 60.0
"""Time without an answer after which a partition counts as unreadable."""


# -----------------------------------------------------------------------------
# Admin clients of Kafka.


@asynccontextmanager
async def administering(
    settings: Settings, request_ms: int = REQUEST_MS
) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(**settings.kafka_options(), request_timeout_ms=request_ms)
    try:
        async with telling_refusals(settings):
            await cancellable(admin.start())
        yield admin
    finally:
        await cancellable(admin.close())


# -----------------------------------------------------------------------------
# Errors of Kafka: those of aiokafka that other modules handle, and ours.


REFUSED_FOR_GOOD = (InvalidTimestampError, PolicyViolationError, TopicAuthorizationFailedError)
"""Other refusals that sending the same events again does not change."""


_AWAY = (KafkaConnectionError, KafkaTimeoutError, NodeNotReadyError)


def no_broker_at(bootstrap: str) -> str:
    """The message for an absent broker.

    >>> no_broker_at("127.0.0.1:9092")
    'no Kafka broker answers at 127.0.0.1:9092'
    """
    return f"no Kafka broker answers at {bootstrap}"


def is_away(error: Exception) -> bool:
    """Whether no broker answers, so that the same request may succeed later."""
    return isinstance(error, _AWAY)


WRONG_CLOCK = (
    "the time of a record is too far from the broker's clock (limits: message.timestamp.after.max.ms and "
    "message.timestamp.before.max.ms of the topic). Compare the clocks of this machine and the broker, fix "
    "the wrong one, and try again"
)


def said_of(error: BaseException) -> str:
    """An error as one line, with an explanation if the library's text does not help.

    >>> said_of(TimeoutError()), said_of(InvalidTimestampError())[:35]
    ('TimeoutError', 'the time of a record is too far fro')
    """
    if isinstance(error, InvalidTimestampError):
        return WRONG_CLOCK
    return " ".join(str(error).split()) or type(error).__name__


def broker_problem(error: Exception, bootstrap: str) -> str:
    """An error of aiokafka as a readable sentence, with advice if no broker answers.

    >>> broker_problem(KafkaConnectionError("Unable to bootstrap from [...]"), "127.0.0.1:9092")
    'no Kafka broker answers at 127.0.0.1:9092. Start one (streamer up, or docker compose up)'
    >>> broker_problem(TopicAuthorizationFailedError("t"), "127.0.0.1:9092")
    'Kafka refused: [Error 29] TopicAuthorizationFailedError: t'
    """
    if is_away(error):
        return f"{no_broker_at(bootstrap)}. Start one (streamer up, or docker compose up)"
    return f"Kafka refused: {said_of(error)}"


class TopicMissing(Exception):
    def __init__(self, topic: str, bootstrap: str) -> None:
        super().__init__(
            f"topic {topic!r} does not exist on {bootstrap}. A worker creates the topics when it starts: "
            "start one, or check --bootstrap, --namespace and your user's rights"
        )


class TopicUnreadable(TimeoutError):
    def __init__(self, places: Iterable[tuple[str, int]], seconds: float) -> None:
        by_topic: dict[str, list[int]] = {}
        for topic, partition in sorted(places):
            by_topic.setdefault(topic, []).append(partition)
        topics = "; ".join(
            f"topic {topic!r}: partitions {partitions}" for topic, partitions in by_topic.items()
        )
        super().__init__(
            f"{topics}: nothing came for {seconds:.0f} seconds, before their end. Check the broker, "
            "then try again"
        )


# -----------------------------------------------------------------------------
# Create topics, and wait until the brokers know them.


PROPAGATION_SECONDS = 30.0
_NOT_YET = (0, UnknownTopicOrPartitionError.errno, LeaderNotAvailableError.errno)


async def create_topic(
    admin: AIOKafkaAdminClient, topic: str, partitions: int, replication: int, config: Mapping[str, str]
) -> bool:
    """Create a topic; False if it exists, as another worker may be faster. A KafkaError names the topic."""
    new = NewTopic(topic, partitions, replication, topic_configs=dict(config))
    response = await admin.create_topics([new])
    for name, code, *reason in response.topic_errors:
        if code not in (0, TopicAlreadyExistsError.errno):
            raise for_code(code)(f"cannot create topic {name!r}: {reason[0] if reason else code}")
    return all(code == 0 for _, code, *_ in response.topic_errors)


async def partition_count(admin: AIOKafkaAdminClient, topic: str) -> int:
    """Number of a topic's partitions; waits up to 30 seconds for the brokers to know a new topic."""
    deadline = asyncio.get_running_loop().time() + PROPAGATION_SECONDS
    while True:
        [description] = await admin.describe_topics([topic])
        code = description["error_code"]
        if code == 0 and description["partitions"]:
            return len(description["partitions"])
        if code not in _NOT_YET or asyncio.get_running_loop().time() > deadline:
            raise for_code(code)(f"cannot describe topic {topic!r}")
        await asyncio.sleep(0.05)


# -----------------------------------------------------------------------------
# Names of the topics and of the workers' consumer group.


def _topic(name: str) -> cached_property[str]:
    return cached_property(lambda names: str(names.topic(name)))


@dataclass(frozen=True)  # no slots: a name is made once
class Names:
    """The Kafka names of one namespace ("" is the default): `NAMESPACE.topic`.

    Our topics have no dot, so namespaces never share a name.
    """

    namespace: str = ""

    def topic(self, name: str) -> str:
        return f"{self.namespace}.{name}" if self.namespace else name

    trial_events = _topic("trial-events")
    """The harnesses' events: the log from which everything is rebuilt (retention.ms=-1)."""

    trial_rejections = _topic("trial-rejections")

    scored_trials = _topic("scored-trials")
    """The scored winner of each slot (compacted)."""

    grade_changes = _topic("grade-changes")
    """Notifications of changed grades and rescored trials."""

    agent_model_summaries = _topic("agent-model-summaries")

    tier_summaries = _topic("tier-summaries")

    run_summaries = _topic("run-summaries")

    run_comparisons = _topic("run-comparisons")

    trials_changelog = _topic("trials-changelog")
    """State pages, the changelog of the table `trials` (compacted)."""

    streamer_meta = _topic("streamer-meta")
    """Epoch, name of the log and current configuration (compacted)."""

    group = _topic("streamer")


# -----------------------------------------------------------------------------
# Whether the event topic keeps its events without a time limit: all state can be rebuilt from them.


FOR_EVER = {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}


async def read_retention(settings: Settings) -> dict[str, str] | None:
    """Settings in which the event topic differs from `FOR_EVER`; None if reading them is not allowed."""
    if settings.embedded:
        return {}
    topic = Names(settings.namespace).trial_events
    async with administering(settings) as admin:
        [answer] = await admin.describe_configs(
            [ConfigResource(ConfigResourceType.TOPIC, topic, dict.fromkeys(FOR_EVER, ""))]
        )
    [(error, _, _, _, rows)] = answer.resources
    if error:
        return None
    retention = {row[0]: row[1] for row in rows if row[0] in FOR_EVER}
    return {name: value for name, value in retention.items() if value != FOR_EVER[name]}


def what_is_finite(topic: str, settings_there: dict[str, str] | None) -> str | None:
    """The problem with the settings from `read_retention`, with advice; None if there is no problem.

    >>> print(what_is_finite("trial-events", {"retention.ms": "60000"}))
    topic 'trial-events' loses events: retention.ms=60000. Set retention.ms=-1: results come from it
    """
    if not settings_there:
        return None
    given = ", ".join(f"{name}={value}" for name, value in settings_there.items())
    unlimited = ", ".join(f"{name}={FOR_EVER[name]}" for name in settings_there)
    return f"topic {topic!r} loses events: {given}. Set {unlimited}: results come from it"


# -----------------------------------------------------------------------------
# The partition counts of topics, and what to do if ours differ.
#
# A run is in partition murmur2(run_id) mod N of every topic. So all topics of a deployment have the same
# count, except `streamer-meta`, and workers must agree about it.


SINGLE = "streamer-meta"
"""The only topic that always has one partition."""


async def read_partition_counts(settings: Settings) -> dict[str, int]:
    """The number of partitions of all topics, by full name: asking for a single topic may create it."""
    async with administering(settings) as admin:
        described = await admin.describe_topics()
    return {topic["topic"]: len(topic["partitions"]) for topic in described}


async def partitions_of(settings: Settings, topic: str) -> set[int]:
    """Numbers of a topic's partitions; raises TopicMissing, BrokerRefuses, KafkaError."""
    counts = await read_partition_counts(settings)
    if topic not in counts:
        raise TopicMissing(topic, settings.bootstrap)
    return set(range(counts[topic]))


async def add_partitions(settings: Settings, counts: Mapping[str, int]) -> None:
    new = {topic: NewPartitions(count) for topic, count in counts.items()}
    async with administering(settings) as admin:
        response = await admin.create_partitions(new)
    for topic, code, reason in response.topic_errors:
        if code:
            raise for_code(code)(f"cannot add partitions to topic {topic!r}: {reason or code}")


def ours(counts: Mapping[str, int], names: Names) -> dict[str, int]:
    topic_names = [names.topic(topic.name) for topic in TOPICS if topic.name != SINGLE]
    return {topic: counts[topic] for topic in topic_names if topic in counts}


def what_differs(counts: Mapping[str, int], configured: int | None = None) -> str | None:
    """The problem with the partition counts of our topics, and the solution; None if there is no problem.

    `configured` is the number in the settings; None skips this check.

    >>> what_differs({"trial-events": 3, "run-summaries": 3}, 3)
    >>> print(what_differs({"trial-events": 3, "run-summaries": 3}, 5))
    the topics have 3 partitions; the settings say 5. Set STREAMER_PARTITIONS=3 everywhere
    """
    different = set(counts.values())
    if len(different) > 1:
        most = max(different)
        grown = ", ".join(repr(topic) for topic, count in counts.items() if count == most)
        others = ", ".join(map(str, sorted(different - {most})))
        return (
            f"{grown} has {most} partitions, other topics have {others}: partitions were added; Kafka "
            f"cannot remove any. Stop all workers, set STREAMER_PARTITIONS={most} everywhere, run "
            "`streamer rebuild --switch`, which adds them to every topic and folds the log again; then "
            "start them"
        )
    if configured is not None and different - {configured}:
        count = different.pop()
        return (
            f"the topics have {count} partitions; the settings say {configured}. Set "
            f"STREAMER_PARTITIONS={count} everywhere"
        )
    return None


# -----------------------------------------------------------------------------
# The partition of a run in the event topic.


@lru_cache(maxsize=65_536)
def partition_of(run_id: str, partitions: int) -> int:
    """Partition of a run, as Java's default partitioner chooses it for the key `run_id`.

    >>> partition_of("run-1", 8)
    5
    """
    return partition_of_key(run_id.encode("utf-8"), partitions)


def partition_of_key(key: bytes, partitions: int) -> int:
    return int(murmur2(key) & 0x7FFFFFFF) % partitions
