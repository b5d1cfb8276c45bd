"""Summaries written to a Redis, for readers to read."""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaProducer

from streamer.folding.slots import SummaryChange
from streamer.settings import Settings
from streamer.storage.entries import Keys
from streamer.storage.redis import RedisSink
from tests.support.builders import a_run_change, an_agent_model_change, an_update

KEYS = Keys("team")


async def write(sink: RedisSink, *changes: SummaryChange) -> None:
    await sink.write([an_update(change) for change in changes])


async def a_benchmark_of_three_runs(sink: RedisSink) -> None:
    await write(
        sink,
        a_run_change("r1", benchmark="tb", labels={"team": "x", "gpu": "no"}),
        an_agent_model_change("r1", "a", mean_cost=3.0, accuracy=0.5, grade="B"),
        an_agent_model_change("r1", "nop", mean_cost=0.0, accuracy=1.0),
        an_agent_model_change("r1", "early", mean_cost=1.0, accuracy=1.0, provisional=True),
        a_run_change("r2", benchmark="tb", labels={"team": "y"}),
        an_agent_model_change("r2", "a", mean_cost=1.0, accuracy=0.5),
        an_agent_model_change("r2", "b", mean_cost=2.0, accuracy=0.75),
        an_agent_model_change("r2", "unpriced", accuracy=0.25),
        a_run_change("r3", labels={"team": "x"}),
        an_agent_model_change("r3", "a", mean_cost=0.5, accuracy=0.9, cost_of_pass="Infinity"),
    )


Sent = list[tuple[bytes, bytes | None]]


async def send(settings: Settings, topic: str, records: Sent) -> None:
    """All in one record batch of one partition."""
    async with AIOKafkaProducer(**settings.kafka_options(), linger_ms=50) as producer:
        sent = [await producer.send(topic, value, key=key, partition=1) for key, value in records]
        await asyncio.gather(*sent)
