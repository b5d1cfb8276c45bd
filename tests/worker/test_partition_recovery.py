"""A changelog that lost state pages: the partition is folded again from the event log."""

from __future__ import annotations

import asyncio
from zlib import crc32

import orjson
import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

from streamer.storage.log import read_topic
from tests.support.worker_process import WorkerProcess
from tests.worker.deployment import Deployment, trial_events

SESSION = 6.0
"""Longer than a busy machine may keep a worker from running."""

REFOLDED = "its state pages are not all there"
GARBAGE = [b"\xff", b"{", b'{"type": "?", "run_id": "r"}']


def settled(deployment: Deployment) -> WorkerProcess:
    """A worker that has folded events, garbage and misplaced records, committed all of it, and ended."""
    deployment.session = SESSION
    worker = deployment.worker().start()
    deployment.send([n % 4 for n in range(len(GARBAGE))], GARBAGE)
    deployment.publish(trial_events(300), lambda event: crc32(event) % 4)
    deployment.wait_until_equal(worker)
    everything = len(deployment.records("trial-events"))
    worker.wait_until(lambda: deployment.committed() == everything, "all offsets committed")
    assert worker.stop() == 0
    return worker


def empty_changelog(deployment: Deployment) -> None:
    """A tombstone for every key, the marks included."""
    topic = deployment.names.trials_changelog
    last = {(r.partition, r.key): r.value for r in read_topic(deployment.settings, topic)}
    for (partition, key), value in last.items():
        if value is not None:
            deployment.send_to("trials-changelog", partition, key, None)


def lose(deployment: Deployment, topic: str, share: float) -> None:
    """Delete the older records of each partition of a topic."""
    name = deployment.names.topic(topic)
    ends = {record.partition: record.offset + 1 for record in read_topic(deployment.settings, name)}
    cuts = {TopicPartition(name, number): RecordsToDelete(int(end * share)) for number, end in ends.items()}
    asyncio.run(delete_records(deployment, cuts))


async def delete_records(deployment: Deployment, cuts: dict[TopicPartition, RecordsToDelete]) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=deployment.bootstrap)
    await admin.start()
    try:
        await admin.delete_records(cuts)
    finally:
        await admin.close()


def versions_never_fall(deployment: Deployment) -> bool:
    """Whether (epoch, state_version) of each run summary only grew, in the order of the topic."""
    seen: dict[bytes, tuple[int, int]] = {}
    for record in deployment.records("run-summaries"):
        summary = orjson.loads(record.value or b"null")
        version = (summary["epoch"], summary["state_version"]) if summary else (0, 0)
        if version < seen.get(record.key, (0, 0)):
            return False
        seen[record.key] = version
    return True


def test_an_emptied_changelog_is_noticed_and_everything_folded_again(on_embedded: Deployment) -> None:
    worker = settled(on_embedded)
    empty_changelog(on_embedded)
    events, rejections = (len(on_embedded.records(t)) for t in ("trial-events", "trial-rejections"))
    summaries = on_embedded.latest("run-summaries")
    worker.start(ready=False)
    worker.wait_until(lambda: worker.output.count(REFOLDED) >= 4, "every partition is folded again")
    worker.wait_until(lambda: on_embedded.latest("trials-changelog"), "the pages are back")
    on_embedded.publish([b'{"type": "trial_result", "run_id": "run 1", "task_id": "new"}'])
    on_embedded.wait_until_equal(worker)
    assert versions_never_fall(on_embedded)
    assert len(on_embedded.records("trial-rejections")) == rejections
    assert len(on_embedded.records("trial-events")) == events + 1
    assert {k: v for k, v in on_embedded.latest("run-summaries").items() if k != "run 1"} == {
        k: v for k, v in summaries.items() if k != "run 1"
    }
    assert worker.stop() == 0
    worker.start()
    on_embedded.wait_until_equal(worker)
    assert worker.output.count(REFOLDED) == 4


@pytest.mark.kafka
@pytest.mark.slow
def test_a_changelog_that_lost_its_oldest_records_is_noticed(on_kafka: Deployment) -> None:
    worker = settled(on_kafka)
    worker.start()
    on_kafka.publish(trial_events(200, seed=2))
    on_kafka.wait_until_equal(worker)
    assert worker.stop() == 0
    assert REFOLDED not in worker.output
    on_kafka.configure("trials-changelog", cleanup_policy="compact,delete")
    lose(on_kafka, "trials-changelog", 0.6)
    worker.start()
    on_kafka.wait_until_equal(worker)
    assert REFOLDED in worker.output
    assert versions_never_fall(on_kafka)


@pytest.mark.kafka
def test_pages_and_log_both_lost_end_the_worker_instead_of_publishing_less(on_kafka: Deployment) -> None:
    worker = settled(on_kafka)
    before = on_kafka.latest("run-summaries")
    on_kafka.configure("trials-changelog", cleanup_policy="compact,delete")
    lose(on_kafka, "trials-changelog", 1.0)
    lose(on_kafka, "trial-events", 0.5)
    worker.start(ready=False)
    assert worker.wait(60) == 1
    assert "has lost state pages" in worker.output
    assert on_kafka.latest("run-summaries") == before
