"""The broker with its journal: what comes back after a start, and how its death is told."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import TransactionalIdAuthorizationFailed
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from streamer.operate.local.broker import DUPLICATE, OLD_EPOCH, OUT_OF_ORDER, DurableBroker, Proxy
from streamer.operate.local.journal import INVALID, STORAGE_ERROR
from streamer.operate.local.processes import Connection, EmbeddedError
from tests.operate.journaled import PARTITIONS, durable, produce, send, values
from tests.operate.writers import TOPIC
from tests.support.worker_process import wait_for

pytestmark = pytest.mark.stack


def no_room(_file: int) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


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


class OfAiokafka:
    """An idempotent producer of aiokafka, on a loop that runs while it publishes."""

    def __init__(self, bootstrap: str) -> None:
        self._runner = asyncio.Runner()
        self._producer = self._runner.run(self._started(bootstrap))

    async def _started(self, bootstrap: str) -> AIOKafkaProducer:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, enable_idempotence=True, request_timeout_ms=5_000
        )
        await producer.start()
        return producer

    def publish(self, values: Sequence[bytes]) -> None:
        """Return when all are acknowledged."""
        self._runner.run(asyncio.wait_for(self._sent(values), 60))

    async def _sent(self, values: Sequence[bytes]) -> None:
        await asyncio.gather(*[await self._producer.send(TOPIC, value) for value in values])

    def close(self) -> None:
        self._runner.run(self._producer.stop())
        self._runner.close()


class OfConfluent:
    """An idempotent producer of librdkafka: several requests are under way at once."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "batch.num.messages": 7}
        )

    def publish(self, values: Sequence[bytes]) -> None:
        """Return when all are acknowledged."""
        errors: list[Any] = []
        for value in values:
            self._producer.produce(TOPIC, value, on_delivery=lambda error, _: errors.append(error))
        assert self._producer.flush(60) == 0
        assert errors == [None] * len(values)

    def close(self) -> None: ...


@pytest.fixture
def lost_answers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Each third answer to a produce request is lost: the client cannot know whether its events are there."""
    lost: list[int] = []
    answers, produced = itertools.count(1), Proxy._produced

    async def lossy(self: Proxy, frame: bytes, broker: Connection) -> bytes | None:
        answer = await produced(self, frame, broker)
        if (number := next(answers)) % 3 == 0:
            lost.append(number)
            raise ConnectionResetError("lost on purpose")
        return answer

    monkeypatch.setattr(Proxy, "_produced", lossy)
    return lost


@pytest.mark.parametrize("client", [OfAiokafka, OfConfluent])
def test_an_idempotent_producer_writes_each_event_once_whatever_answer_is_lost(
    tmp_path: Path, lost_answers: list[int], client: type[OfAiokafka | OfConfluent]
) -> None:
    events = [b"%d" % number for number in range(600)]
    with durable(tmp_path) as broker:
        producer = client(broker.bootstrap)
        for start in range(0, 300, 50):
            producer.publish(events[start : start + 50])
    with durable(tmp_path, bootstrap=broker.bootstrap) as broker:
        for start in range(300, 600, 50):
            producer.publish(events[start : start + 50])
        producer.close()
    assert len(lost_answers) >= 4
    with durable(tmp_path) as broker:
        assert sum(broker.loaded.values()) == 600
        assert sorted(values(broker, 600).values(), key=int) == events


async def sequenced(port: int, producer: int, epoch: int, first: int, events: int = 1) -> int:
    """The error code that a batch with these numbers is answered with."""
    builder = DefaultRecordBatchBuilder(2, 0, 0, producer, epoch, first, 10**6)
    for number in range(events):
        builder.append(number, 0, b"key", os.urandom(100_000 if events > 1 else 10), [])
    return await produce(port, bytes(builder.build()))


def test_a_sequence_goes_on_after_a_start_and_only_the_next_batch_is_appended(tmp_path: Path) -> None:
    def codes(broker: DurableBroker, *numbers: tuple[int, ...]) -> list[int]:
        return [asyncio.run(sequenced(broker.port, 7, *of_batch)) for of_batch in numbers]

    with durable(tmp_path) as broker:
        assert codes(broker, (0, 0, 3), (0, 0, 3), (0, 3), (0, 5)) == [0, DUPLICATE, 0, OUT_OF_ORDER]
    with durable(tmp_path) as broker:
        assert codes(broker, (0, 3), (0, 0, 3), (0, 2, 4), (0, 5)) == [DUPLICATE] * 2 + [OUT_OF_ORDER] * 2
        assert codes(broker, (0, 4), (1, 5), (1, 0), (0, 5), (1, 1)) == [0, OUT_OF_ORDER, 0, OLD_EPOCH, 0]
        assert asyncio.run(sequenced(broker.port, 8, 0, 2**31 - 1)) == 0  # begins somewhere
        assert asyncio.run(sequenced(broker.port, 8, 0, 0)) == 0  # behind the last number
        assert asyncio.run(sequenced(broker.port, 9, -1, 0)) == INVALID
        assert len(values(broker, 9)) == sum(broker.loaded.values()) + 5 == 9


def test_a_batch_that_the_disk_did_not_take_is_no_gap_that_can_be_jumped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with durable(tmp_path) as broker:
        with monkeypatch.context() as full:
            full.setattr(os, "fsync", no_room)
            assert asyncio.run(sequenced(broker.port, 7, 0, 0)) == STORAGE_ERROR
        assert asyncio.run(sequenced(broker.port, 7, 0, 1)) == OUT_OF_ORDER
        assert asyncio.run(sequenced(broker.port, 7, 0, 0)) == 0
        assert asyncio.run(sequenced(broker.port, 7, 0, 1)) == 0


async def test_a_transactional_producer_is_refused_at_once_and_other_topics_take_an_idempotent_one(
    tmp_path: Path,
) -> None:
    with durable(tmp_path) as broker:
        refused = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id="t")
        with pytest.raises(TransactionalIdAuthorizationFailed):
            await asyncio.wait_for(refused.start(), 20)
        await refused.stop()
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap, enable_idempotence=True) as producer:
            assert [(await producer.send_and_wait("other", b"x", b"k")).offset for _ in range(3)] == [0, 1, 2]


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
