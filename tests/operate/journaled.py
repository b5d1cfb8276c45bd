"""A broker with a journal, on a disk that may be full; producers that write to it through every end."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from streamer.operate.local.broker import DurableBroker
from streamer.operate.local.processes import PRODUCE, Connection, Produce, Request, free_port, read_answers
from streamer.settings import Settings
from tests.support.worker_process import wait_for


@contextmanager
def small_disk(at: Path, size_bytes: int) -> Iterator[Path]:
    """An empty file system of that size; only root on Linux can mount one."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("SKIPPED LOUDLY: only root on Linux can mount a small disk")
    at.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(at)], check=True)
    try:
        yield at
    finally:
        subprocess.run(["umount", "--lazy", str(at)], check=True)


TOPIC = "trial-events"
IN_FLIGHT = 40
GIVE_UP_SECONDS = 0.2
"""Given to a producer to end in good order: without a broker it would wait for all of it."""

Place = tuple[int, int]
"""Partition and offset."""


class Writers:
    """Several producers in a thread of their own; `acknowledged` notes where each event lies."""

    def __init__(self, bootstrap: str, *, count: int = 4, name: str = "w", topic: str = TOPIC) -> None:
        self.acknowledged: dict[bytes, Place] = {}
        self._bootstrap = bootstrap
        self._topic = topic
        self._names = [f"{name}{number}" for number in range(count)]
        self._ending = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._all()), daemon=True)

    def start(self, acknowledged: int = 100) -> Writers:
        self._thread.start()
        self.go_on_for(acknowledged)
        return self

    def go_on_for(self, events: int) -> None:
        expected = len(self.acknowledged) + events
        wait_for(lambda: len(self.acknowledged) >= expected, f"{events} more acknowledgements", 120)

    def end(self) -> None:
        self._ending.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    async def _all(self) -> None:
        writing = [asyncio.ensure_future(self._write(name)) for name in self._names]
        while not self._ending.is_set():
            await asyncio.sleep(0.02)
        for task in writing:
            task.cancel()
        await asyncio.wait(writing, timeout=30)

    async def _write(self, name: str) -> None:
        numbers = itertools.count()
        while True:  # a producer that has lost its broker for long is replaced
            patience = {"request_timeout_ms": 2_000, "metadata_max_age_ms": 1_000}
            producer = AIOKafkaProducer(bootstrap_servers=self._bootstrap, acks="all", **patience)
            try:
                await producer.start()
                await asyncio.gather(*(self._send(producer, name, numbers) for _ in range(IN_FLIGHT)))
            except KafkaError:
                await asyncio.sleep(0.1)
            finally:
                with contextlib.suppress(Exception):
                    await asyncio.wait_for(producer.stop(), GIVE_UP_SECONDS)

    async def _send(self, producer: AIOKafkaProducer, name: str, numbers: Iterator[int]) -> None:
        while True:
            value = f"{name}-{next(numbers)}".encode()
            sent = await producer.send_and_wait(self._topic, value, key=value)
            self.acknowledged[value] = (sent.partition, sent.offset)


async def _read(bootstrap: str, partitions: int, count: int) -> dict[Place, bytes]:
    result: dict[Place, bytes] = {}
    consumer: Any = AIOKafkaConsumer(bootstrap_servers=bootstrap, fetch_max_wait_ms=10)
    async with consumer, asyncio.timeout(60):
        consumer.assign([TopicPartition(TOPIC, number) for number in range(partitions)])
        await consumer.seek_to_beginning()
        while len(result) < count:
            for records in (await consumer.getmany(timeout_ms=100)).values():
                result |= {(record.partition, record.offset): record.value for record in records}
    return result


def logged(bootstrap: str, partitions: int, count: int) -> dict[Place, bytes]:
    """The events of a topic by place, once there are so many."""
    return asyncio.run(_read(bootstrap, partitions, count))


def missing(stack: Any, acknowledged: dict[bytes, Place], partitions: int) -> list[bytes]:
    """Acknowledged events that the stack does not hold where they were acknowledged."""
    (line,) = [line for line in stack.printed.splitlines() if "Loaded" in line]
    result = logged(stack.addresses["bootstrap"], partitions, int(line.split()[1].replace(",", "")))
    return [value for value, place in acknowledged.items() if result.get(place) != value]


PARTITIONS = 3
WORKER = "the worker's secret name"


@contextmanager
def durable(directory: Path, said: list[str] | None = None, **settings: Any) -> Iterator[DurableBroker]:
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


async def produce(port: int, records: bytes | None, *, partition: int = 0) -> int:
    connection = await Connection.open(port)
    request = Produce(Request(PRODUCE, 7, 5), "test", None, -1, [])
    try:
        response = await connection.ask(request.only([(TOPIC, [(partition, records)])]))
        [(_, [answer])] = read_answers(response, 7)
        return answer.error
    finally:
        connection.close()


def values(broker: DurableBroker, count: int) -> dict[Place, bytes]:
    return logged(broker.bootstrap, PARTITIONS, count)
