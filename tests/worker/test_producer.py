"""Everything that a worker writes: acknowledged in order, bounded in size, and what others wrote is seen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from aiokafka import AIOKafkaProducer

from streamer.settings import Settings
from streamer.storage.kafka import Names
from streamer.storage.log import read_topic
from streamer.worker import producer as constants
from streamer.worker.process import ensure_topics
from streamer.worker.producer import NO_HEADERS, Producer, ProducerRecord, RecordTooLarge, fitting
from tests.publish.publishing import settings_of

Written = list[tuple[str, int, int, Sequence[ProducerRecord]]]


@pytest.fixture
async def settings(embedded_broker: str, namespace: str) -> Settings:
    settings = settings_of(embedded_broker, namespace)
    await ensure_topics(settings)
    return settings


@pytest.fixture
def written() -> Written:
    """What the producer said that the broker has acknowledged."""
    return []


@pytest.fixture
async def producer(settings: Settings, written: Written) -> AsyncIterator[Producer]:
    producer = Producer(settings, lambda: None, lambda *told: written.append(told))
    await producer.start()
    yield producer
    await producer.stop()


def some(topic: str, count: int, size: int = 1) -> list[ProducerRecord]:
    return [ProducerRecord(topic, 0, b"%d" % number, b"v" * size) for number in range(count)]


async def test_records_beyond_one_batch_are_written_in_order_and_told_with_their_offsets(
    settings: Settings, producer: Producer, written: Written
) -> None:
    topic = Names(settings.namespace).scored_trials
    records = some(topic, 40, 100_000)
    await producer.write(records)
    assert [record for *_, told in sorted(written, key=lambda one: one[2]) for record in told] == records
    assert len(written) > 1
    assert producer.written_to(topic, 0) == 40
    found = await asyncio.to_thread(lambda: list(read_topic(settings, topic)))
    assert [record.key for record in found] == [record.key for record in records]


async def test_what_others_write_among_ours_is_found_and_told_once(
    settings: Settings, producer: Producer
) -> None:
    topic = Names(settings.namespace).run_summaries
    producer.note_ends({(topic, 0): 0})
    await producer.write(some(topic, 2))
    async with AIOKafkaProducer(bootstrap_servers=settings.bootstrap) as other:
        await other.send_and_wait(topic, b"foreign", partition=0)
    await producer.write(some(topic, 1))
    assert producer.take_foreign_ranges(topic, 0, 4) == [(2, 3)]
    assert producer.take_foreign_ranges(topic, 0, 4) == []
    assert producer.take_foreign_ranges(topic, 0, 6) == [(4, 6)]


async def test_every_write_asks_first_whether_the_worker_may_go_on(settings: Settings) -> None:
    def stopped() -> None:
        raise RuntimeError("a zombie")

    producer = Producer(settings, stopped, lambda *_: None)
    await producer.start()
    topic = Names(settings.namespace).scored_trials
    with pytest.raises(RuntimeError, match="a zombie"):
        await producer.write(some(topic, 1))
    await producer.stop()
    assert await asyncio.to_thread(lambda: list(read_topic(settings, topic))) == []


def test_a_record_that_fits_no_message_is_named_with_its_size() -> None:
    most = constants.MAX_RECORD_BYTES
    fits = ProducerRecord("t", 0, b"k", b"v" * (most - 1), headers=NO_HEADERS)
    assert fitting([fits]) == [fits]
    with pytest.raises(RecordTooLarge, match=f"a record for t has {most + 1:,} bytes, at most {most:,}"):
        fitting([fits, fits._replace(key=b"kk")])
