"""The errors between us and Kafka: aiokafka's that other modules handle, and ours."""

from __future__ import annotations

from collections.abc import Iterable

from aiokafka.errors import (
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    NodeNotReadyError,
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
    "broker_problem",
    "is_away",
    "no_broker_at",
]

TOO_LARGE = (MessageSizeTooLargeError, RecordListTooLargeError)
"""How a broker refuses a record batch for its size: no connection will change that."""


_AWAY = (KafkaConnectionError, KafkaTimeoutError, NodeNotReadyError)


def no_broker_at(bootstrap: str) -> str:
    """What is said where a broker is away.

    >>> no_broker_at("127.0.0.1:9092")
    'no Kafka broker answers at 127.0.0.1:9092'
    """
    return f"no Kafka broker answers at {bootstrap}"


def is_away(error: Exception) -> bool:
    """Whether no broker answers, so that the same request may succeed later."""
    return isinstance(error, _AWAY)


def broker_problem(error: Exception, bootstrap: str) -> str:
    """An error of aiokafka as a sentence for people, with what to do where no broker answers.

    >>> broker_problem(KafkaConnectionError("Unable to bootstrap from [...]"), "127.0.0.1:9092")
    'no Kafka broker answers at 127.0.0.1:9092. Start one (streamer up, or docker compose up)'
    >>> broker_problem(TopicAuthorizationFailedError("t"), "127.0.0.1:9092")
    'Kafka refused: [Error 29] TopicAuthorizationFailedError: t'
    """
    if is_away(error):
        return f"{no_broker_at(bootstrap)}. Start one (streamer up, or docker compose up)"
    return f"Kafka refused: {' '.join(str(error).split()) or type(error).__name__}"


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
