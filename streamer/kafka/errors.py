"""The errors between us and Kafka: aiokafka's that other modules handle, and ours."""

from __future__ import annotations

from collections.abc import Iterable

from aiokafka.errors import (
    KafkaConnectionError,
    KafkaError,
    MessageSizeTooLargeError,
    RecordListTooLargeError,
    TopicAuthorizationFailedError,
)

__all__ = [
    "TOO_LARGE",
    "KafkaConnectionError",
    "KafkaError",
    "TopicAuthorizationFailedError",
    "TopicMissing",
    "TopicUnreadable",
]

TOO_LARGE = (MessageSizeTooLargeError, RecordListTooLargeError)
"""How a broker refuses a record batch for its size: no connection will change that."""


class TopicMissing(Exception):
    """There is no such topic."""

    def __init__(self, topic: str, bootstrap: str) -> None:
        super().__init__(
            f"topic {topic!r} does not exist on {bootstrap}. A worker creates the topics when it starts: "
            "start one, or check --bootstrap and --namespace, and that your user may see it"
        )


class TopicUnreadable(TimeoutError):
    """The broker stopped answering before the end of a partition."""

    def __init__(self, places: Iterable[tuple[str, int]], seconds: float) -> None:
        by_topic: dict[str, list[int]] = {}
        for topic, partition in sorted(places):
            by_topic.setdefault(topic, []).append(partition)
        topics = "; ".join(f"topic {topic!r}: partitions {found}" for topic, found in by_topic.items())
        super().__init__(
            f"{topics}: nothing came for {seconds:.0f} seconds, before their end. Look at the broker, then "
            "try again"
        )
