"""What a local disk still has of a changelog that lost its records must not stay there alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

from tests.worker.deployment import Deployment, trial_events

pytest.importorskip("rocksdict", reason="SKIPPED LOUDLY: the extra `rocksdb` is not installed")


async def delete_all_records(deployment: Deployment, topic: str) -> None:
    """Delete every record of a topic."""
    admin = AIOKafkaAdminClient(bootstrap_servers=deployment.bootstrap)
    await admin.start()
    try:
        numbers = range(deployment.partitions)
        everything = {TopicPartition(topic, n): RecordsToDelete(before_offset=-1) for n in numbers}
        await admin.delete_records(everything)
    finally:
        await admin.close()


@pytest.mark.kafka
@pytest.mark.slow
def test_pages_that_only_a_local_disk_still_has_are_written_for_others_too(
    on_kafka: Deployment, tmp_path: Path
) -> None:
    on_disk = {"STREAMER_STORE": "rocksdb", "STREAMER_DATA_DIR": str(tmp_path / "data")}
    first, second = on_kafka.worker(environment=on_disk), on_kafka.worker()
    first.start()
    on_kafka.publish(trial_events(400))
    on_kafka.wait_until_equal(first)
    first.kill()
    on_kafka.configure("trials-changelog", cleanup_policy="delete")
    asyncio.run(delete_all_records(on_kafka, on_kafka.names.trials_changelog))
    on_kafka.configure("trials-changelog", cleanup_policy="compact")
    first.start()
    on_kafka.publish(trial_events(10, seed=2))
    on_kafka.wait_until_equal(first)
    first.kill()
    second.start()
    on_kafka.publish(trial_events(10, seed=3))
    on_kafka.wait_until_equal(second)
