"""How many partitions topics have, and what to do where our topics differ.

A run lives in partition murmur2(run_id) mod N of every topic. So all topics of a deployment have the same
count, except `streamer-meta`, and workers may only work while they agree about it.
"""

from __future__ import annotations

from collections.abc import Mapping

from aiokafka.admin import NewPartitions
from aiokafka.errors import for_code

from streamer.kafka.clients import administering
from streamer.kafka.errors import TopicMissing
from streamer.kafka.names import Names
from streamer.schemas.topics import TOPICS
from streamer.settings import Settings

SINGLE = "streamer-meta"
"""The one topic that always has one partition."""


async def read_partition_counts(settings: Settings) -> dict[str, int]:
    """By full name, of all topics there are: asking for one by name may create it.

    Raises:
        BrokerRefuses, KafkaError: the broker refuses, or cannot be reached.
    """
    async with administering(settings) as admin:
        described = await admin.describe_topics()
    return {topic["topic"]: len(topic["partitions"]) for topic in described}


async def partitions_of(settings: Settings, topic: str) -> set[int]:
    """Numbers of the partitions of one topic.

    Raises:
        TopicMissing: there is no such topic.
        BrokerRefuses, KafkaError: the broker refuses, or cannot be reached.
    """
    counts = await read_partition_counts(settings)
    if topic not in counts:
        raise TopicMissing(topic, settings.bootstrap)
    return set(range(counts[topic]))


async def add_partitions(settings: Settings, counts: Mapping[str, int]) -> None:
    """Give topics more partitions.

    Args:
        settings: where the broker is.
        counts: by full name, how many each shall have.

    Raises:
        BrokerRefuses, KafkaError: the broker refuses, or cannot be reached.
    """
    wanted = {topic: NewPartitions(count) for topic, count in counts.items()}
    async with administering(settings) as admin:
        response = await admin.create_partitions(wanted)
    for topic, code, reason in response.topic_errors:
        if code:
            raise for_code(code)(f"cannot add partitions to topic {topic!r}: {reason or code}")


def ours(counts: Mapping[str, int], names: Names) -> dict[str, int]:
    """The counts of our topics that exist, `streamer-meta` left out."""
    wanted = [names.topic(topic.name) for topic in TOPICS if topic.name != SINGLE]
    return {topic: counts[topic] for topic in wanted if topic in counts}


def what_differs(counts: Mapping[str, int], configured: int | None = None) -> str | None:
    """The problem with the partition counts of our topics, and the one way out; None without a problem.

    Args:
        counts: of our topics, see `ours`.
        configured: what the settings say; None: that is not asked.

    >>> what_differs({"trial-events": 3, "run-summaries": 3}, 3)
    >>> print(what_differs({"trial-events": 3, "run-summaries": 3}, 5))
    the topics have 3 partitions, the settings say 5. Set STREAMER_PARTITIONS=3 everywhere
    """
    found = set(counts.values())
    if len(found) > 1:
        most = max(found)
        grown = ", ".join(repr(topic) for topic, count in counts.items() if count == most)
        others = ", ".join(map(str, sorted(found - {most})))
        return (
            f"{grown} has {most} partitions, other topics have {others}: partitions were added, and Kafka "
            f"takes none away. Stop all workers, set STREAMER_PARTITIONS={most} everywhere, run `streamer "
            "rebuild --switch`, which gives every topic as many and folds the log again; then start them"
        )
    if configured is not None and found - {configured}:
        count = found.pop()
        return (
            f"the topics have {count} partitions, the settings say {configured}. "
            f"Set STREAMER_PARTITIONS={count} everywhere"
        )
    return None
