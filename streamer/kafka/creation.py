"""Create topics, and wait until the brokers have heard of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import (
    LeaderNotAvailableError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    for_code,
)

PROPAGATION_SECONDS = 30.0
_NOT_YET = (0, UnknownTopicOrPartitionError.errno, LeaderNotAvailableError.errno)


async def create_topic(
    admin: AIOKafkaAdminClient, topic: str, partitions: int, replication: int, config: Mapping[str, str]
) -> None:
    """Create a topic unless it exists: another worker may have been faster.

    Raises:
        KafkaError: the broker refused; the message names the topic.
    """
    new = NewTopic(topic, partitions, replication, topic_configs=dict(config))
    response = await admin.create_topics([new])
    for name, code, *reason in response.topic_errors:
        if code not in (0, TopicAlreadyExistsError.errno):
            raise for_code(code)(f"cannot create topic {name!r}: {reason[0] if reason else code}")


async def partition_count(admin: AIOKafkaAdminClient, topic: str) -> int:
    """Partitions of a topic; waits until the brokers have heard of one that was just created.

    Raises:
        KafkaError: the broker refused, or has not heard of it for 30 seconds; the message names the topic.
    """
    deadline = asyncio.get_running_loop().time() + PROPAGATION_SECONDS
    while True:
        [found] = await admin.describe_topics([topic])
        code = found["error_code"]
        if code == 0 and found["partitions"]:
            return len(found["partitions"])
        if code not in _NOT_YET or asyncio.get_running_loop().time() > deadline:
            raise for_code(code)(f"cannot describe topic {topic!r}")
        await asyncio.sleep(0.05)
