"""Where a partition ends for readers that wait for transactions."""

from __future__ import annotations

from aiokafka import TopicPartition

from streamer.kafka.consumer import AIOKafkaConsumer


def stable_end(consumer: AIOKafkaConsumer, place: TopicPartition) -> int | None:
    """The end that the last fetch saw, open transactions left out; None before a fetch."""
    stable: int | None = consumer.last_stable_offset(place)
    end: int | None = consumer.highwater(place)
    return end if stable is None or stable < 0 else stable
