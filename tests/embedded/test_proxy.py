"""The broker with its journal: what it acknowledges, refuses, passes on and brings back."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from streamer.operate.local.broker import DurableBroker
from streamer.operate.local.processes import (
    PRODUCE,
    Connection,
    Produce,
    Request,
    kafka_answers,
    read_answers,
)
from tests.embedded.journaled import PARTITIONS, WORKER, durable, send, values
from tests.embedded.writers import TOPIC
from tests.kafka.test_record_batches import REFUSED, batch

pytestmark = pytest.mark.stack


async def produce(
    port: int, records: bytes | None, *, partition: int = 0, version: int = 7, topic: str = TOPIC
) -> int:
    """The error code that this request is answered with."""
    connection = await Connection.open(port)
    request = Produce(Request(PRODUCE, version, 5), "test", None, -1, [])
    try:
        response = await connection.ask(request.only([(topic, [(partition, records)])]))
        [(_, [answer])] = read_answers(response, version)
        return answer.error
    finally:
        connection.close()


def test_topics_beside_the_events_pass_through_in_the_same_request(tmp_path: Path) -> None:
    async def publish(broker: DurableBroker) -> dict[str, list[Any]]:
        connection = await Connection.open(broker.port)
        await connection.create_topic("other", 2)
        request = Produce(Request(PRODUCE, 5, 77), "test", None, -1, [])
        both = [("other", [(1, bytes(batch(2)))]), (TOPIC, [(0, bytes(batch(3))), (2, bytes(batch()))])]
        first = await connection.ask(request.only(both))
        assert first[:4] == struct.pack(">i", 77)
        second = dict(read_answers(await connection.ask(request.only(both)), 5))
        connection.close()
        return second

    with durable(tmp_path) as broker:
        assert asyncio.run(publish(broker)) == {"other": [(1, 0, 2)], TOPIC: [(0, 0, 3), (2, 0, 1)]}
    with durable(tmp_path) as broker:
        assert sum(broker.loaded.values()) == 8


async def test_a_reader_skips_nothing_while_many_write_to_one_partition(tmp_path: Path) -> None:
    async def write(broker: DurableBroker) -> None:
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
            for _ in range(500):
                await producer.send_and_wait(TOPIC, b"v" * 5_000, partition=0)

    with durable(tmp_path) as broker:
        writing = [asyncio.ensure_future(write(broker)) for _ in range(8)]
        offsets: list[int] = []
        consumer: Any = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, fetch_max_wait_ms=10)
        async with consumer, asyncio.timeout(120):
            consumer.assign([TopicPartition(TOPIC, 0)])
            await consumer.seek_to_beginning()
            while len(offsets) < 4_000 and (not offsets or offsets[-1] < 3_999):
                for records in (await consumer.getmany(timeout_ms=100)).values():
                    offsets += [record.offset for record in records]
        await asyncio.gather(*writing)
    assert offsets == list(range(4_000))


def test_only_the_workers_copies_are_not_kept_whatever_headers_a_client_sets(tmp_path: Path) -> None:
    forwarded = [("streamer-forwarded", b"0:0")]
    with durable(tmp_path) as broker:
        assert asyncio.run(send(broker, b"client", partition=1, headers=forwarded)) == [0]
        assert asyncio.run(send(broker, b"copy", partition=1, headers=forwarded, client_id=WORKER)) == [1]
        assert values(broker, 2) == {(1, 0): b"client", (1, 1): b"copy"}
    with durable(tmp_path) as broker:
        assert sum(broker.loaded.values()) == 1
        assert values(broker, 1) == {(1, 0): b"client"}


def test_a_batch_that_no_consumer_could_read_is_refused_and_harms_nobody(tmp_path: Path) -> None:
    with durable(tmp_path) as broker:
        for what, (records, code) in REFUSED.items():
            assert asyncio.run(produce(broker.port, records)) == code, what
        assert asyncio.run(produce(broker.port, bytes(batch()), partition=PARTITIONS)) == 3
        assert asyncio.run(produce(broker.port, bytes(batch(value=b"good")))) == 0
        broker.check()
    with durable(tmp_path) as broker:
        assert values(broker, 1) == {(0, 0): b"good"}


@pytest.mark.parametrize(
    "frame", [b"\x00\x00", struct.pack(">hhih", 0, 99, 1, -1), struct.pack(">hhih", 0, 7, 1, 9)]
)
def test_a_request_that_cannot_be_read_ends_its_connection_alone(tmp_path: Path, frame: bytes) -> None:
    async def ask(broker: DurableBroker) -> None:
        connection = await Connection.open(broker.port)
        with pytest.raises(asyncio.IncompleteReadError):
            await connection.ask(frame)
        connection.close()

    with durable(tmp_path) as broker:
        asyncio.run(ask(broker))
        assert kafka_answers(broker.port)
        assert asyncio.run(send(broker, b"event")) == [0]
