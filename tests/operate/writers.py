"""Producers that go on writing through every end of a stack, and what a stack holds."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Iterator
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from tests.support.worker_process import wait_for

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
        """Begin to write; returns when so many events are acknowledged."""
        self._thread.start()
        self.go_on_for(acknowledged)
        return self

    def go_on_for(self, events: int) -> None:
        """Wait until so many more events are acknowledged."""
        expected = len(self.acknowledged) + events
        wait_for(lambda: len(self.acknowledged) >= expected, f"{events} more acknowledgements", 120)

    def end(self) -> None:
        """Stop writing; what is not acknowledged yet is given up."""
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
            producer = AIOKafkaProducer(
                bootstrap_servers=self._bootstrap,
                acks="all",
                request_timeout_ms=2_000,
                metadata_max_age_ms=1_000,
            )
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
