"""The embedded broker with its journal: what it acknowledges, refuses, passes on and brings back."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError, TransactionalIdAuthorizationFailed
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from streamer.operate.local import journal
from streamer.operate.local.broker import DUPLICATE, OLD_EPOCH, OUT_OF_ORDER, Broker, DurableBroker, Proxy
from streamer.operate.local.journal import INVALID, STORAGE_ERROR
from streamer.operate.local.processes import (
    PRODUCE,
    Connection,
    Produce,
    Request,
    kafka_answers,
    read_answers,
)
from tests.operate.journaled import (
    PARTITIONS,
    TOPIC,
    WORKER,
    Place,
    durable,
    logged,
    produce,
    send,
    small_disk,
    values,
)
from tests.storage.test_log import REFUSED, batch

pytestmark = pytest.mark.stack


def no_room(_file: int) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def consumed(broker: DurableBroker, count: int, seconds: float, *partitions: int) -> list[Any]:
    """So many messages, or as many as came in that time."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "none"})
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, number, 0) for number in partitions])
    try:
        return consumer.consume(count, timeout=seconds)
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
        read = consumed(broker, 30, 30.0, *range(PARTITIONS))
        parts = ("partition", "offset", "timestamp", "key", "value", "headers")
        return sorted(tuple(getattr(one, part)() for part in parts) for one in read)

    with durable(tmp_path) as broker:
        asyncio.run(publish(broker))
        before = records(broker)
    with durable(tmp_path) as broker:
        assert sum(broker.loaded.values()) == 30
        assert records(broker) == before
    assert before[0][2:] == ((1, 1000), b"key", b"0", [("h", b"0"), ("null", None)])


Publish = Callable[[Sequence[bytes]], object]
"""It returns when all are acknowledged."""


@contextmanager
def of_aiokafka(bootstrap: str) -> Iterator[Publish]:
    """An idempotent producer of aiokafka, on a loop that runs while it publishes."""

    async def started() -> AIOKafkaProducer:
        options = {"enable_idempotence": True, "request_timeout_ms": 5_000}
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, **options)
        await producer.start()
        return producer

    async def publish(values: Sequence[bytes]) -> None:
        await asyncio.gather(*[await producer.send(TOPIC, value) for value in values])

    with asyncio.Runner() as runner:
        producer = runner.run(started())
        yield lambda values: runner.run(asyncio.wait_for(publish(values), 60))
        runner.run(producer.stop())


@contextmanager
def of_confluent(bootstrap: str) -> Iterator[Publish]:
    """An idempotent producer of librdkafka: several requests are under way at once."""
    options = {"enable.idempotence": True, "batch.num.messages": 7}
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap} | options)

    def publish(values: Sequence[bytes]) -> None:
        errors: list[Any] = []
        for value in values:
            producer.produce(TOPIC, value, on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(60) == 0
        assert errors == [None] * len(values)

    yield publish


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


@pytest.mark.parametrize("client", [of_aiokafka, of_confluent])
def test_an_idempotent_producer_writes_each_event_once_whatever_answer_is_lost(
    tmp_path: Path, lost_answers: list[int], client: Callable[[str], AbstractContextManager[Publish]]
) -> None:
    events = [b"%d" % number for number in range(600)]
    with ExitStack() as running:
        address = running.enter_context(durable(tmp_path)).bootstrap
        with client(address) as publish:
            for start in range(0, 600, 50):
                if start == 300:
                    running.close()
                    running.enter_context(durable(tmp_path, bootstrap=address))
                publish(events[start : start + 50])
    assert len(lost_answers) >= 4
    with durable(tmp_path) as broker:
        assert sum(broker.loaded.values()) == 600
        assert sorted(values(broker, 600).values(), key=int) == events


async def sequenced(port: int, producer: int, epoch: int, first: int, events: int = 1) -> int:
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


def test_a_batch_that_the_disk_refused_is_no_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with durable(tmp_path) as broker:
        with monkeypatch.context() as full:
            full.setattr(os, "fsync", no_room)
            assert asyncio.run(sequenced(broker.port, 7, 0, 0)) == STORAGE_ERROR
        later = [asyncio.run(sequenced(broker.port, 7, 0, number)) for number in (1, 0, 1)]
        assert later == [OUT_OF_ORDER, 0, 0]


async def test_transactions_are_refused_and_other_topics_take_an_idempotent_producer(tmp_path: Path) -> None:
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


async def test_nothing_is_seen_before_it_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
        assert await asyncio.to_thread(consumed, broker, 1, 0.5, 0) == []
        assert not sending.done()
        go_on.set()
        assert await sending == [0]
        assert await asyncio.to_thread(values, broker, 1) == {(0, 0): b"event"}


def test_a_full_disk_stops_acknowledging_until_there_is_room(tmp_path: Path) -> None:
    acknowledged: dict[Place, bytes] = {}

    async def publish(broker: DurableBroker, name: bytes) -> bool:
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
            assert sum(broker.loaded.values()) == len(acknowledged)
            assert values(broker, sum(broker.loaded.values())) == acknowledged


def test_small_batches_are_loaded_as_few_large_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with durable(tmp_path) as broker:
        asyncio.run(one_by_one(broker, 500))
        asyncio.run(send(broker, b"large" * 100_000, b"small", partition=1))
    appended: list[int] = []
    append = Connection.append

    async def counting(self: Connection, topic: str, batches: list[tuple[int, bytes]]) -> dict[int, int]:
        appended.append(len(batches))
        return await append(self, topic, batches)

    monkeypatch.setattr(journal.Connection, "append", counting)
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
        result = logged(broker.bootstrap, 2, 3)
    assert result == {(0, 0): b"in 0", (1, 0): b"in 1", (0, 1): b"in 2"}


def test_a_journal_of_the_version_before_is_loaded_and_continued(tmp_path: Path) -> None:
    recorded = Path(__file__).with_name("data") / "journal-1" / "00000001.journal"
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / recorded.name).write_bytes(recorded.read_bytes())
    for start in range(2):
        with durable(tmp_path) as broker:
            assert sum(broker.loaded.values()) == 24 + start
            assert asyncio.run(send(broker, b"new", partition=0)) == [7 + start]


@pytest.mark.parametrize("size", [20, 200_000])
def test_a_whole_frame_that_no_broker_takes_keeps_no_other_back(tmp_path: Path, size: int) -> None:
    """`size`: small batches are packed into others, large ones go to the broker as they are."""
    with durable(tmp_path) as broker:
        asyncio.run(send(broker, b"one"))
    kept = journal.Journal(tmp_path / "journal")
    assert len(list(kept.read(print))) == 1
    kept.write([(0, 1, bytes(size))])
    kept.close()
    said: list[str] = []
    for start in range(2):
        with durable(tmp_path, said) as broker:
            assert sum(broker.loaded.values()) == 1 + start
            assert asyncio.run(send(broker, b"more")) == [1 + start]
        assert "is damaged from byte" in said[0]
        assert "lacks 1 event for these reasons" in said[1]
        said.clear()


def test_the_embedded_broker_ends_when_told() -> None:
    with Broker() as broker:
        assert kafka_answers(broker.port)
    assert not broker.child.alive
    assert not kafka_answers(broker.port)
