"""Clients of Kafka that write, and that administer. Readers are in `streamer.kafka.reader`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient

from streamer.kafka.broker import telling_refusals
from streamer.kafka.constants import REQUEST_MS
from streamer.settings import Settings

KafkaProducer: TypeAlias = AIOKafkaProducer


def producer(settings: Settings, **options: Any) -> KafkaProducer:
    """A producer, not started, whose records count as written once all replicas have them.

    Args:
        settings: where the broker is, and as whom to connect.
        options: further arguments of aiokafka's producer.
    """
    return AIOKafkaProducer(**settings.kafka_options(), acks="all", **options)


@asynccontextmanager
async def producing(settings: Settings) -> AsyncIterator[KafkaProducer]:
    """A connected producer, for a few records.

    Raises:
        BrokerRefuses, KafkaError: the broker refuses, or cannot be reached.
    """
    connected = producer(settings)
    async with telling_refusals(settings):
        await connected.start()
    try:
        yield connected
    finally:
        await connected.stop()


@asynccontextmanager
async def administering(
    settings: Settings, request_ms: int = REQUEST_MS
) -> AsyncIterator[AIOKafkaAdminClient]:
    """A connected admin client.

    Raises:
        BrokerRefuses, KafkaError: the broker refuses, or cannot be reached.
    """
    admin = AIOKafkaAdminClient(**settings.kafka_options(), request_timeout_ms=request_ms)
    try:
        async with telling_refusals(settings):
            await admin.start()
        yield admin
    finally:
        await admin.close()
