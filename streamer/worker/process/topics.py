"""Every topic, created before the app starts: Faust creates only some, and none with these settings."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import (
    LeaderNotAvailableError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    for_code,
)

from streamer.kafka.broker import telling_refusals
from streamer.kafka.names import Names
from streamer.kafka.partition_counts import ours, read_partition_counts, what_differs
from streamer.settings import Settings
from streamer.worker.limits import MAX_MESSAGE_BYTES

PROPAGATION_SECONDS = 30.0
_NOT_YET = (0, UnknownTopicOrPartitionError.errno, LeaderNotAvailableError.errno)

ROOM = {"max.message.bytes": str(MAX_MESSAGE_BYTES)}

COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 * 1024 * 1024),
    "segment.ms": str(60 * 60 * 1000),
    "min.cleanable.dirty.ratio": "0.1",
    "delete.retention.ms": str(24 * 60 * 60 * 1000),
} | ROOM
"""Small segments and a low dirty ratio: otherwise compaction never reaches a changelog of this size.

Tombstones stay for a day: whoever reads on from local rows (`stores.TRUST_SECONDS`) must still see them.
"""


class TopicMismatch(Exception):
    """The topics do not all have as many partitions as the settings say; the message says what to do."""


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """One topic as it has to be."""

    name: str
    partitions: int
    config: dict[str, str] = field(default_factory=dict)


def plan(settings: Settings) -> list[TopicPlan]:
    """All topics of a deployment."""
    names, count = Names(settings.namespace), settings.partitions
    compacted = (
        names.trials_changelog,
        names.agent_model_summaries,
        names.tier_summaries,
        names.run_summaries,
        names.scored_trials,
    )
    return [
        TopicPlan(names.trial_events, count, {"retention.ms": "-1"} | ROOM),
        TopicPlan(names.trial_rejections, count, ROOM),
        TopicPlan(names.grade_changes, count, ROOM),
        *(TopicPlan(name, count, COMPACTED) for name in compacted),
        TopicPlan(names.streamer_meta, 1, COMPACTED),
    ]


async def ensure_topics(settings: Settings) -> None:
    """Create what is missing.

    Raises:
        TopicMismatch: a topic exists with another partition count.
        BrokerRefuses: wrong credentials, or a certificate that is not trusted.
        aiokafka.errors.KafkaError: the broker refused; the message names the topic.
    """
    admin = AIOKafkaAdminClient(**settings.kafka_options())
    try:
        async with telling_refusals(settings):
            await admin.start()
        wanted = plan(settings)
        existing = set(await admin.list_topics())
        for topic in wanted:
            if topic.name not in existing:
                await _create(admin, topic, settings.replication)
        found = {topic.name: await _partition_count(admin, topic.name) for topic in wanted}
    finally:
        await admin.close()
    check_counts(found, settings)


async def check_topics(settings: Settings) -> None:
    """Whether the topics still have as many partitions as the settings say.

    Raises:
        TopicMismatch: partitions were added.
        aiokafka.errors.KafkaError: the broker cannot be reached, or refuses.
    """
    check_counts(await read_partition_counts(settings), settings)


def check_counts(counts: Mapping[str, int], settings: Settings) -> None:
    """The same of counts that were just read; raises TopicMismatch."""
    if wrong := what_differs(ours(counts, Names(settings.namespace)), settings.partitions):
        raise TopicMismatch(wrong)


async def _create(admin: AIOKafkaAdminClient, topic: TopicPlan, replication: int) -> None:
    new = NewTopic(topic.name, topic.partitions, replication, topic_configs=topic.config)
    response = await admin.create_topics([new])
    for name, code, *reason in response.topic_errors:
        if code not in (0, TopicAlreadyExistsError.errno):  # another worker may have been faster
            raise for_code(code)(f"cannot create topic {name!r}: {reason[0] if reason else code}")


async def _partition_count(admin: AIOKafkaAdminClient, topic: str) -> int:
    """Partitions of a topic; waits until the brokers have heard of one that was just created."""
    deadline = asyncio.get_running_loop().time() + PROPAGATION_SECONDS
    while True:
        [found] = await admin.describe_topics([topic])
        code = found["error_code"]
        if code == 0 and found["partitions"]:
            return len(found["partitions"])
        if code not in _NOT_YET or asyncio.get_running_loop().time() > deadline:
            raise for_code(code)(f"cannot describe topic {topic!r}")
        await asyncio.sleep(0.05)
