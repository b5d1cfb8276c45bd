"""The broker with its journal: what comes back after a start, and how its death is told."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from aiokafka import AIOKafkaProducer

from streamer.operate.local.broker import DurableBroker
from streamer.operate.local.processes import EmbeddedError
from tests.operate.journaled import PARTITIONS, durable, send, values
from tests.operate.writers import TOPIC
from tests.support.worker_process import wait_for

pytestmark = pytest.mark.stack


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_events_come_back_with_offset_time_key_and_headers(tmp_path: Path, codec: str | None) -> None:
    async def publish(broker: DurableBroker) -> None:
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap, compression_type=codec) as producer:
            for number in range(30):
                headers = [("h", b"%d" % number), ("null", None)]
                await producer.send_and_wait(
                    TOPIC, b"%d" % number, b"key", number % 3, timestamp_ms=1000 + number, headers=headers
                )

    def records(broker: DurableBroker) -> list[Any]:
        consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "none"})
        consumer.assign([confluent_kafka.TopicPartition(TOPIC, n, 0) for n in range(PARTITIONS)])
        result = consumer.consume(30, timeout=30)
        consumer.close()
        return sorted(
            (m.partition(), m.offset(), m.timestamp(), m.key(), m.value(), m.headers()) for m in result
        )

    with durable(tmp_path) as broker:
        asyncio.run(publish(broker))
        before = records(broker)
    with durable(tmp_path) as broker:
        assert sum(broker.loaded.values()) == 30
        assert records(broker) == before
    assert before[0][2:] == ((1, 1000), b"key", b"0", [("h", b"0"), ("null", None)])


def test_a_client_of_another_library_is_served(tmp_path: Path) -> None:
    errors: list[Any] = []
    with durable(tmp_path) as broker:
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
        for number in range(1_000):
            producer.produce(TOPIC, b"%d" % number, on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(30) == 0
    assert errors == [None] * 1_000
    with durable(tmp_path) as broker:
        assert sorted(values(broker, 1_000).values(), key=int) == [b"%d" % n for n in range(1_000)]


def test_what_asks_for_no_acknowledgement_is_kept_too(tmp_path: Path) -> None:
    async def publish(broker: DurableBroker) -> None:
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap, acks=0) as producer:
            await producer.send_and_wait(TOPIC, b"unasked", partition=1)
        await send(broker, b"asked", partition=1)

    with durable(tmp_path) as broker:
        asyncio.run(publish(broker))
    with durable(tmp_path) as broker:
        assert values(broker, 2) == {(1, 0): b"unasked", (1, 1): b"asked"}


def what_is_wrong(broker: DurableBroker) -> str:
    try:
        broker.check()
    except EmbeddedError as error:
        return str(error)
    return ""


def test_the_death_of_the_broker_is_told_with_what_to_do(tmp_path: Path) -> None:
    with durable(tmp_path) as broker:
        os.kill(broker.broker_pid, 9)
        wait_for(lambda: what_is_wrong(broker), "the end of the broker is told")
        assert re.search(r"ended \(-9\).*start `streamer up` again", what_is_wrong(broker), re.DOTALL)
