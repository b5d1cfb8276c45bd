"""The broker with its journal: what it acknowledges, refuses, passes on and brings back."""

from __future__ import annotations

import asyncio
import os
import re
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from streamer.embedded import event_log, journal
from streamer.embedded.durable import DurableBroker
from streamer.embedded.errors import EmbeddedError
from streamer.embedded.probe import free_port, kafka_answers
from streamer.kafka.wire import PRODUCE, Connection, Produce, Request, read_answers
from streamer.settings import Settings
from tests.embedded.full_disk import small_disk
from tests.embedded.writers import TOPIC, Place, held
from tests.kafka.test_record_batches import REFUSED, batch
from tests.support.worker_process import wait_for

pytestmark = pytest.mark.stack

PARTITIONS = 3
WORKER = "the worker's secret name"


@contextmanager
def durable(directory: Path, said: list[str] | None = None, **settings: Any) -> Iterator[DurableBroker]:
    """A broker whose journal lies in this directory."""
    given = {"bootstrap": f"127.0.0.1:{free_port()}", "partitions": PARTITIONS, "embedded": True} | settings
    echo = print if said is None else said.append
    broker = DurableBroker(Settings(**given), directory / "journal", directory / "log", WORKER, echo)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


async def send(broker: DurableBroker, *values: bytes | None, partition: int = 0, **options: Any) -> list[int]:
    """Offsets of records that were sent together, with these options of the producer."""
    headers = options.pop("headers", None)
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap, **options) as producer:
        sent = [await producer.send(TOPIC, v, partition=partition, headers=headers) for v in values]
        return [done.offset for done in await asyncio.gather(*sent)]


def values(broker: DurableBroker, count: int) -> dict[Place, bytes]:
    return held(broker.bootstrap, PARTITIONS, count)


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


async def test_nothing_is_acknowledged_or_seen_before_it_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncing, go_on = threading.Event(), threading.Event()
    sync = os.fsync

    def slow_sync(file: int) -> None:
        syncing.set()
        assert go_on.wait(30)
        sync(file)

    with durable(tmp_path) as broker:
        monkeypatch.setattr(journal.os, "fsync", slow_sync)
        sending = asyncio.ensure_future(send(broker, b"event"))
        assert await asyncio.to_thread(syncing.wait, 30)
        with pytest.raises(TimeoutError):
            await asyncio.to_thread(held_within, broker, 0.5)
        assert not sending.done()
        go_on.set()
        assert await sending == [0]
        assert await asyncio.to_thread(values, broker, 1) == {(0, 0): b"event"}


def held_within(broker: DurableBroker, seconds: float) -> None:
    """TimeoutError if no event comes."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "none"})
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
    try:
        if consumer.poll(seconds) is None:
            raise TimeoutError
    finally:
        consumer.close()


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
        found = consumer.consume(30, timeout=30)
        consumer.close()
        return sorted(
            (m.partition(), m.offset(), m.timestamp(), m.key(), m.value(), m.headers()) for m in found
        )

    with durable(tmp_path) as broker:
        asyncio.run(publish(broker))
        before = records(broker)
    with durable(tmp_path) as broker:
        assert broker.loaded == 30
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
        assert broker.loaded == 8


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
        assert broker.loaded == 1
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


def test_a_full_disk_stops_acknowledging_until_there_is_room(tmp_path: Path) -> None:
    acknowledged: dict[Place, bytes] = {}

    async def publish(broker: DurableBroker, name: bytes) -> bool:
        """True if all were acknowledged."""
        producer: Any = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, request_timeout_ms=2_000)
        async with producer:
            for number in range(100):
                value = b"%b-%d-" % (name, number) + os.urandom(10_000)
                try:
                    sent = await producer.send_and_wait(TOPIC, value, partition=number % 3)
                except KafkaError:
                    return False
                acknowledged[sent.partition, sent.offset] = value
        return True

    said: list[str] = []
    with small_disk(tmp_path / "disk", 3 * 1024 * 1024) as disk:
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(5 * 1024 * 1024 // 2))
        with durable(disk, said) as broker:
            assert not asyncio.run(publish(broker, b"full"))
            assert 10 < len(acknowledged) < 100
            assert "No space left on device" in str(broker.problem)
            assert not asyncio.run(publish(broker, b"still full"))
            assert said == [broker.problem]
            ballast.unlink()
            assert asyncio.run(publish(broker, b"room"))
            assert broker.problem is None
            assert said[1:] == ["The journal can be written again: events are accepted."]
        with durable(disk, said) as broker:
            assert broker.loaded == len(acknowledged)
            assert values(broker, broker.loaded) == acknowledged


def test_many_small_batches_are_loaded_as_few_large_ones_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with durable(tmp_path) as broker:
        asyncio.run(one_by_one(broker, 500))
        asyncio.run(send(broker, b"large" * 100_000, b"small", partition=1))
    appended: list[int] = []
    append = Connection.append

    async def counting(self: Connection, topic: str, batches: list[tuple[int, bytes]]) -> dict[int, int]:
        appended.append(len(batches))
        return await append(self, topic, batches)

    monkeypatch.setattr(event_log.Connection, "append", counting)
    with durable(tmp_path) as broker:
        assert sum(appended) <= 5
        expected: dict[Place, bytes] = {(0, n): b"%d" % n for n in range(500)}
        expected |= {(1, 0): b"large" * 100_000, (1, 1): b"small"}
        assert values(broker, 502) == expected


async def one_by_one(broker: DurableBroker, count: int) -> None:
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
        for number in range(count):
            await producer.send_and_wait(TOPIC, b"%d" % number, partition=0)


def test_a_journal_of_more_partitions_is_loaded_into_fewer(tmp_path: Path) -> None:
    with durable(tmp_path) as broker:
        for partition in range(3):
            asyncio.run(send(broker, b"in %d" % partition, partition=partition))
    with durable(tmp_path, partitions=2) as broker:
        found = held(broker.bootstrap, 2, 3)
    assert found == {(0, 0): b"in 0", (1, 0): b"in 1", (0, 1): b"in 2"}


def test_a_journal_of_the_version_before_is_loaded_and_continued(tmp_path: Path) -> None:
    recorded = Path(__file__).with_name("data") / "journal-1" / "00000001.journal"
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / recorded.name).write_bytes(recorded.read_bytes())
    for start in range(2):
        with durable(tmp_path) as broker:
            assert broker.loaded == 24 + start
            assert asyncio.run(send(broker, b"new", partition=0)) == [7 + start]


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
