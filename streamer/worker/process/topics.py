"""Every topic, created before the app starts: Faust creates only some, and none with these settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streamer.kafka.clients import administering
from streamer.kafka.constants import MAX_MESSAGE_BYTES
from streamer.kafka.creation import create_topic, partition_count
from streamer.kafka.names import Names
from streamer.kafka.partitions import ours, read_partition_counts, what_differs
from streamer.settings import Settings

REQUEST_MS = 40_000
"""Creating topics may take a busy broker longer than a person waits for an answer."""

ROOM = {"max.message.bytes": str(MAX_MESSAGE_BYTES)}

COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 * 1024 * 1024),
    "segment.ms": str(60 * 60 * 1000),
    "min.cleanable.dirty.ratio": "0.1",
    "delete.retention.ms": str(24 * 60 * 60 * 1000),
} | ROOM
"""Small segments and a low dirty ratio: otherwise compaction never reaches a changelog of this size.

Tombstones stay for a day: a worker that reads on from local rows (`stores.TRUST_SECONDS`) must still see
them.
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
        names.run_comparisons,
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
        KafkaError: the broker refused; the message names the topic.
    """
    async with administering(settings, REQUEST_MS) as admin:
        wanted = plan(settings)
        existing = set(await admin.list_topics())
        for topic in wanted:
            if topic.name not in existing:
                await create_topic(admin, topic.name, topic.partitions, settings.replication, topic.config)
        found = {topic.name: await partition_count(admin, topic.name) for topic in wanted}
    check_counts(found, settings)


async def check_topics(settings: Settings) -> None:
    """Whether the topics still have as many partitions as the settings say.

    Raises:
        TopicMismatch: partitions were added.
        KafkaError: the broker cannot be reached, or refuses.
    """
    check_counts(await read_partition_counts(settings), settings)


def check_counts(counts: Mapping[str, int], settings: Settings) -> None:
    """The same of counts that were just read; raises TopicMismatch."""
    if wrong := what_differs(ours(counts, Names(settings.namespace)), settings.partitions):
        raise TopicMismatch(wrong)
