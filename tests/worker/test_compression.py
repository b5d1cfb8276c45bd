"""Compression is between us and the broker: readers see the same bytes, whatever the codec."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiokafka.record.memory_records import MemoryRecords

from streamer.settings import Settings
from streamer.storage.kafka import Names
from streamer.storage.log import read_topic
from streamer.storage.outbox import Outgoing, Publisher
from streamer.worker.process import ensure_topics
from tests.support.servers import KafkaServer, RedisServer
from tests.worker.deployment import Deployment, trial_events

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
"""By their numbers in a record batch's attributes."""


@pytest.mark.parametrize("codec", CODECS)
def test_the_embedded_broker_gives_back_what_any_codec_packed(
    codec: str, embedded_broker: str, namespace: str
) -> None:
    comes_back(Settings(bootstrap=embedded_broker, namespace=namespace, compression=codec, embedded=True))


@pytest.mark.kafka
@pytest.mark.parametrize("codec", CODECS)
def test_kafka_gives_back_what_any_codec_packed(codec: str, kafka_bootstrap: str, namespace: str) -> None:
    comes_back(Settings(bootstrap=kafka_bootstrap, namespace=namespace, compression=codec))


def comes_back(settings: Settings) -> None:
    """Publish and read."""
    events = trial_events(300, runs=1)
    asyncio.run(publish(settings, events))
    found = read_topic(settings, Names(settings.namespace).trial_events)
    assert [record.value for record in found] == events


async def publish(settings: Settings, events: list[bytes]) -> None:
    """Publish as a client does."""
    await ensure_topics(settings)
    async with Publisher(settings) as publisher:
        for event in events:
            await publisher.send(Outgoing(b"run 0", event))


@pytest.mark.kafka
@pytest.mark.slow
def test_all_that_a_worker_writes_is_packed_and_reads_as_what_a_fold_says(
    own_kafka: KafkaServer, tmp_path: Path, redis_server: RedisServer
) -> None:
    deployment = Deployment(tmp_path, own_kafka.bootstrap, redis_server.url, "", embedded=False)
    try:
        worker = deployment.worker().start()
        deployment.publish(trial_events(600))
        deployment.publish([b"no event"], place=lambda event: 0)
        deployment.published.pop()
        deployment.wait_until_equal(worker)
        worker.wait_until(lambda: deployment.records("trial-rejections"), "the rejection is published")
    finally:
        deployment.kill_workers()
    own_kafka.stop()
    written = {topic: codecs(own_kafka.directory / "data", topic) for topic in WRITTEN}
    assert written == {topic: {CODECS["zstd"]} for topic in WRITTEN}


WRITTEN = (
    "trials-changelog",
    "agent-model-summaries",
    "tier-summaries",
    "run-summaries",
    "scored-trials",
    "trial-rejections",
)


def codecs(directory: Path, topic: str) -> set[int]:
    """Codecs of a topic's record batches, as they lie on disk."""
    found = set()
    for segment in directory.glob(f"{topic}-[0-9]*/*.log"):
        batches = MemoryRecords(segment.read_bytes())
        while (batch := batches.next_batch()) is not None:
            found.add(batch.compression_type)
    return found
