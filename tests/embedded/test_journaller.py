"""Between the embedded broker and the journal."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer

from streamer.embedded.broker import Broker
from streamer.embedded.frames import Entry
from streamer.embedded.journal import Journal
from streamer.embedded.journaller import create_event_topic, drain, follow, replay
from streamer.settings import Settings
from streamer.sinks.names import Names

STRANGE = [
    Entry(0, 1_700_000_000_000, b"run-1", b'{"type": "trial_result"}'),
    Entry(2, 1_700_000_000_001, None, b"no key"),
    Entry(2, 1_700_000_000_002, b"no value", None),
    Entry(1, 1_700_000_000_003, b"", b""),
    Entry(1, 1_700_000_000_004, b"garbage", bytes(range(256))),
]
MANY = [Entry(n % 3, 1_700_000_000_000 + n, b"run", b"%d" % n * 100) for n in range(20_000)]


@pytest.fixture
def settings(embedded_broker: str, namespace: str) -> Settings:
    """Settings of a topic of this test alone."""
    return Settings(bootstrap=embedded_broker, namespace=namespace, partitions=3, embedded=True)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    """An empty journal."""
    journal = Journal(tmp_path)
    yield journal
    journal.close()


def in_order(entries: list[Entry]) -> list[Entry]:
    """By partition, each in its own order."""
    return sorted(entries, key=lambda entry: entry.partition)


def read(journal: Journal) -> list[Entry]:
    warnings: list[str] = []
    entries = list(journal.read(warnings.append))
    assert warnings == []
    return entries


async def test_records_go_to_the_journal_and_back_unchanged(settings: Settings, journal: Journal) -> None:
    await create_event_topic(settings)
    assert await replay(settings, STRANGE) == (5, {0: 1, 1: 2, 2: 2})
    await drain(settings, journal, {0: 0, 1: 0, 2: 0})
    assert in_order(read(journal)) == in_order(STRANGE)


async def test_what_was_replayed_is_not_journalled_again(settings: Settings, journal: Journal) -> None:
    await create_event_topic(settings)
    _, positions = await replay(settings, MANY)
    await drain(settings, journal, positions)
    assert read(journal) == []
    await replay(settings, STRANGE)
    await drain(settings, journal, positions)
    assert in_order(read(journal)) == in_order(STRANGE)


async def test_drain_takes_the_last_batch_too_right_after_its_acknowledgement(
    settings: Settings, journal: Journal
) -> None:
    await create_event_topic(settings)
    positions = dict.fromkeys(range(3), 0)
    for start in range(0, 20_000, 5_000):
        await replay(settings, MANY[start : start + 5_000])
        await drain(settings, journal, positions)
        assert sum(positions.values()) == start + 5_000
    assert in_order(read(journal)) == in_order(MANY)


async def test_follow_journals_while_records_come_in_and_drain_takes_the_rest(
    settings: Settings, journal: Journal
) -> None:
    await create_event_topic(settings)
    positions = dict.fromkeys(range(3), 0)
    following = asyncio.create_task(follow(settings, journal, positions))
    await replay(settings, MANY[:10_000])
    async with asyncio.timeout(30):
        while sum(positions.values()) < 10_000:
            await asyncio.sleep(0.01)
    await replay(settings, MANY[10_000:])
    following.cancel()
    with suppress(asyncio.CancelledError):
        await following
    await drain(settings, journal, positions)
    assert in_order(read(journal)) == in_order(MANY)


async def test_the_copy_that_a_worker_forwarded_is_not_journalled(
    settings: Settings, journal: Journal
) -> None:
    await create_event_topic(settings)
    topic = Names(settings.namespace).trial_events
    async with AIOKafkaProducer(**settings.kafka_options()) as producer:
        await producer.send_and_wait(topic, b"original", b"run", partition=0, timestamp_ms=1)
        headers = [("streamer-forwarded", b"0:0")]
        await producer.send_and_wait(topic, b"original", b"run", partition=1, timestamp_ms=1, headers=headers)
    positions = dict.fromkeys(range(3), 0)
    await drain(settings, journal, positions)
    assert read(journal) == [Entry(0, 1, b"run", b"original")]
    assert positions == {0: 1, 1: 1, 2: 0}


async def test_a_journal_of_more_partitions_is_loaded_into_fewer(settings: Settings) -> None:
    await create_event_topic(settings)
    _, positions = await replay(settings, [Entry(n, n, b"k", b"v") for n in range(8)])
    assert positions == {0: 3, 1: 3, 2: 2}


async def test_the_event_topic_has_the_partitions_of_the_settings() -> None:
    with Broker() as broker:
        settings = Settings(bootstrap=broker.bootstrap, partitions=5)
        await create_event_topic(settings)
        async with AIOKafkaProducer(**settings.kafka_options()) as producer:
            assert await producer.partitions_for("trial-events") == {0, 1, 2, 3, 4}
