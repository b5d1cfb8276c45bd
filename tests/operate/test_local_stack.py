"""The event topic, kept: nothing is seen before it is synced, and all of it is loaded again."""

from __future__ import annotations

import asyncio
import os
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from streamer.operate.local import HEALTHY_SECONDS, MAX_FAILURES, Supervisor, journal
from streamer.operate.local import journal as event_log
from streamer.operate.local.broker import DurableBroker
from streamer.operate.local.processes import Child, Connection, ServerFailed
from tests.operate.full_disk import small_disk
from tests.operate.journaled import durable, send, values
from tests.operate.writers import TOPIC, Place, logged

pytestmark = pytest.mark.stack


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
            assert sum(broker.loaded.values()) == len(acknowledged)
            assert values(broker, sum(broker.loaded.values())) == acknowledged


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
def test_a_whole_frame_that_no_broker_takes_does_not_keep_the_others_from_being_loaded(
    tmp_path: Path, size: int
) -> None:
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


# -----------------------------------------------------------------------------
# A server that ends is started again, later and later, and given up in the end.


class FakeChild(Child):
    """A child that the test ends and starts by hand."""

    def __init__(self) -> None:
        super().__init__("The fake", [])
        self.up = False

    @property
    def alive(self) -> bool:
        return self.up

    def start(self) -> None:
        self.up = True


def starts_of_one_that_lives(lives_seconds: float, until_seconds: float) -> list[float]:
    """When it is started, looked at every tenth of a second."""
    child, starts = FakeChild(), [0.0]
    keeper = Supervisor(child, child.start, lambda _: None)
    keeper.start(0.0)
    for tick in range(1, int(until_seconds * 10)):
        now = tick / 10
        child.up = child.up and now < starts[-1] + lives_seconds
        was_up = child.up
        keeper.look(now)
        if child.up and not was_up:
            starts.append(now)
    return starts


def test_pauses_double_up_to_ten_seconds() -> None:
    starts = starts_of_one_that_lives(0.1, 50)
    pauses = [b - a - 0.1 for a, b in pairwise(starts)]
    assert pauses[:7] == pytest.approx([0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0], abs=0.11)


def test_one_that_recovered_is_started_again_at_once() -> None:
    starts = starts_of_one_that_lives(HEALTHY_SECONDS + 1, 500)
    pauses = [b - a - HEALTHY_SECONDS - 1 for a, b in pairwise(starts)]
    assert pauses == pytest.approx([0.5] * 15, abs=0.11)


def test_one_that_never_stays_is_given_up_by_name() -> None:
    with pytest.raises(ServerFailed, match=f"The fake ended {MAX_FAILURES + 1} times in a row"):
        starts_of_one_that_lives(0.1, 1_000)
