"""How many partitions our topics have, and what to do where they differ.

A run lives in partition murmur2(run_id) mod N of every topic. So all topics of a deployment have the same
count, but for `streamer-meta`, and workers may only work while they agree about it.
"""

from __future__ import annotations

from collections.abc import Mapping

from aiokafka.admin import AIOKafkaAdminClient

from schemas.topics import TOPICS
from streamer.kafka.broker import telling_refusals
from streamer.kafka.names import Names
from streamer.settings import Settings

REQUEST_MS = 15_000
SINGLE = "streamer-meta"
"""The one topic that has one partition whatever the others have."""


async def read_partition_counts(settings: Settings) -> dict[str, int]:
    """By full name, of all topics there are: asking for one by name may create it.

    Raises:
        BrokerRefuses, aiokafka.errors.KafkaError: the broker refuses, or cannot be reached.
    """
    admin = AIOKafkaAdminClient(**settings.kafka_options(), request_timeout_ms=REQUEST_MS)
    try:
        async with telling_refusals(settings):
            await admin.start()
        described = await admin.describe_topics()
    finally:
        await admin.close()
    return {topic["topic"]: len(topic["partitions"]) for topic in described}


def ours(counts: Mapping[str, int], names: Names) -> dict[str, int]:
    """The counts of our topics that exist, `streamer-meta` left out."""
    wanted = [names.topic(topic.name) for topic in TOPICS if topic.name != SINGLE]
    return {topic: counts[topic] for topic in wanted if topic in counts}


def what_differs(counts: Mapping[str, int], configured: int | None = None) -> str | None:
    """What is wrong with the counts of our topics, and the one way out; None if nothing is.

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
