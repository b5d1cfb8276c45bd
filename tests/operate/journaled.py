"""A broker with a journal, and ways to write to it and to read it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaProducer

from streamer.operate.local.broker import DurableBroker
from streamer.operate.local.processes import PRODUCE, Connection, Produce, Request, free_port, read_answers
from streamer.settings import Settings
from tests.operate.writers import TOPIC, Place, logged

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


def values(broker: DurableBroker, count: int) -> dict[Place, bytes]:
    return logged(broker.bootstrap, PARTITIONS, count)
