"""Reading a topic to its end, on the embedded broker and on a real Kafka."""

from __future__ import annotations

import asyncio

import pytest

from streamer.settings import Settings
from streamer.storage.kafka import TopicMissing
from streamer.storage.log import read_batches, read_topic
from tests.kafka.filling import fill


def test_every_record_of_a_last_batch_with_many_records_is_read(settings: Settings, namespace: str) -> None:
    fill(settings, namespace, [(0, 1), (1, 1), (0, 50)])
    read = list(read_topic(settings, namespace))
    assert [r.offset for r in read if r.partition == 0] == list(range(51))
    assert [r.offset for r in read if r.partition == 1] == [0]


def test_an_empty_topic_ends_at_once(settings: Settings, namespace: str) -> None:
    fill(settings, namespace, [])
    assert list(read_topic(settings, namespace)) == []


def test_only_the_named_partitions_are_read(settings: Settings, namespace: str) -> None:
    fill(settings, namespace, [(0, 3), (2, 4)])

    async def read() -> set[int]:
        batches = read_batches(settings, namespace, [2])
        return {record.partition async for batch in batches for record in batch}

    assert asyncio.run(read()) == {2}


def test_a_reader_may_stop_early(settings: Settings, namespace: str) -> None:
    fill(settings, namespace, [(0, 3)])
    reading = read_topic(settings, namespace)
    assert next(reading).offset == 0
    reading.close()  # type: ignore[attr-defined]


def test_a_missing_topic_is_named_and_not_created(settings: Settings, namespace: str) -> None:
    for _ in range(2):
        with pytest.raises(TopicMissing, match=namespace):
            list(read_topic(settings, namespace))


def test_a_record_keeps_its_place_time_and_bytes(settings: Settings, namespace: str) -> None:
    fill(settings, namespace, [(1, 2)])
    record = list(read_topic(settings, namespace))[1]
    assert (record.topic, record.partition, record.offset) == (namespace, 1, 1)
    assert (record.key, record.value, record.timestamp) == (b"k", b"1", 1_700_000_000_001)
