"""Each way we know for a worker or a broker to fail, and that nothing is lost or published wrong."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from aiokafka.admin import AIOKafkaAdminClient

from tests.support.servers import KafkaServer, RedisServer
from tests.support.worker_process import WorkerProcess, wait_for
from tests.worker.deployment import Deployment, trial_events

FAULTY = "tests.worker.faulty"


def faulty(deployment: Deployment, fault: str) -> WorkerProcess:
    """A worker with a fault (see `tests.worker.faulty`)."""
    return deployment.worker(module=FAULTY, environment={"FAULT": fault})


def test_a_crash_between_a_page_and_its_summary_heals_without_another_event(on_embedded: Deployment) -> None:
    broken = faulty(on_embedded, "dies_after_pages").start()
    on_embedded.publish(trial_events(400))
    assert broken.wait() == -signal.SIGKILL
    assert on_embedded.records("trials-changelog")
    assert on_embedded.committed() == 0
    on_embedded.wait_until_equal(on_embedded.worker().start())


@pytest.mark.slow
def test_a_summary_lost_after_its_batch_was_committed_is_published_again(on_embedded: Deployment) -> None:
    worker = on_embedded.worker().start()
    on_embedded.publish(trial_events(300))
    on_embedded.wait_until_equal(worker)
    worker.wait_until(lambda: on_embedded.committed() == 300, "all offsets committed")
    assert worker.stop() == 0
    stale = next(record for record in on_embedded.records("run-summaries") if record.key)
    on_embedded.send_to("run-summaries", stale.partition, stale.key, None)
    worker.start()
    on_embedded.wait_until_equal(worker)


@pytest.mark.slow
def test_an_exception_in_the_rebuild_ends_the_worker_and_publishes_nothing(on_embedded: Deployment) -> None:
    worker = on_embedded.worker().start()
    on_embedded.publish(trial_events(300))
    on_embedded.wait_until_equal(worker)
    worker.kill()
    on_embedded.publish(trial_events(300, seed=2))
    before = len(on_embedded.records("run-summaries"))
    broken = faulty(on_embedded, "cannot_load").start(ready=False)
    assert broken.wait(60) == 1
    assert "injected into the rebuild" in broken.output
    assert len(on_embedded.records("run-summaries")) == before
    worker.start()
    on_embedded.wait_until_equal(worker)


@pytest.mark.slow
def test_a_page_that_cannot_be_read_ends_the_worker_and_says_which(on_embedded: Deployment) -> None:
    worker = on_embedded.worker().start()
    on_embedded.publish(trial_events(50))
    on_embedded.wait_until_equal(worker)
    worker.kill()
    on_embedded.send_to("trials-changelog", 0, b"run 0/later/1", b'{"v": 99}\n')
    worker.start(ready=False)
    assert worker.wait(60) == 1
    assert "state page run 0/later/1 has version 99" in worker.output
    on_embedded.send_to("trials-changelog", 0, b"run 0/later/1", None)
    worker.start()
    on_embedded.wait_until_equal(worker)


@pytest.mark.kafka
def test_a_page_write_that_the_broker_refuses_ends_the_worker_with_nothing_committed(
    on_kafka: Deployment,
) -> None:
    worker = on_kafka.worker().start()
    on_kafka.configure("trials-changelog", max_message_bytes=100)
    on_kafka.publish(trial_events(200))
    assert worker.wait(60) == 1
    assert "the broker refuses" in worker.output
    assert on_kafka.committed() == 0
    assert not on_kafka.records("run-summaries")
    on_kafka.configure("trials-changelog", max_message_bytes=4 * 1024 * 1024)
    worker.start()
    on_kafka.wait_until_equal(worker)


@pytest.mark.kafka
@pytest.mark.slow
def test_a_worker_stopped_within_a_batch_and_overtaken_changes_nothing(
    on_kafka: Deployment,
) -> None:
    overtaken_in_a_batch(on_kafka, faulty(on_kafka, "waits_after_pages"), exit_code=75)


@pytest.mark.kafka
@pytest.mark.slow
def test_a_zombie_that_writes_after_it_was_overtaken_does_no_lasting_harm(on_kafka: Deployment) -> None:
    overtaken_in_a_batch(on_kafka, faulty(on_kafka, "zombie"), exit_code=None)


def overtaken_in_a_batch(on_kafka: Deployment, first: WorkerProcess, exit_code: int | None) -> None:
    """Stop a worker within a batch, let another take over and go further, continue the first, restart all."""
    first.start()
    on_kafka.publish(trial_events(500, runs=16))
    first.wait_until(lambda: "pages written" in first.output, "pages are written")
    first.signal(signal.SIGSTOP)
    stopped = time.monotonic()
    second = on_kafka.worker().start()
    on_kafka.publish(trial_events(500, runs=16, seed=2))
    on_kafka.wait_until_equal(second)
    # its session began with its last heartbeat, so the second can be current before a whole one has passed
    time.sleep(max(0.0, stopped + on_kafka.session + 0.5 - time.monotonic()))
    first.signal(signal.SIGCONT)
    if exit_code is None:
        seen = len(on_kafka.records("run-summaries"))
        first.wait_until(lambda: len(on_kafka.records("run-summaries")) > seen, "the zombie wrote")
        first.kill()
    else:
        assert first.wait() == exit_code
    assert second.stop() == 0
    third, fourth = on_kafka.worker().start(), on_kafka.worker().start()
    on_kafka.wait_until_equal(third)
    assert (third.stop(), fourth.stop()) == (0, 0)


@pytest.fixture
def on_own_kafka(
    tmp_path: Path, own_kafka: KafkaServer, redis_server: RedisServer, namespace: str
) -> Iterator[Deployment]:
    """A deployment on it."""
    deployment = Deployment(tmp_path, own_kafka.bootstrap, redis_server.url, namespace, embedded=False)
    yield deployment
    deployment.kill_workers()


@pytest.mark.kafka
@pytest.mark.slow
def test_a_broker_that_stops_for_longer_than_a_session_is_waited_for(
    on_own_kafka: Deployment, own_kafka: KafkaServer
) -> None:
    worker = on_own_kafka.worker().start()
    on_own_kafka.publish(trial_events(3_000))
    worker.wait_until(lambda: on_own_kafka.latest("trials-changelog"), "a page is written")
    own_kafka.pause()
    asyncio.run(asyncio.sleep(4 * on_own_kafka.session))  # the pause itself is what is tested
    own_kafka.resume()
    on_own_kafka.publish(trial_events(300, seed=2))
    on_own_kafka.wait_until_equal(worker, 90)


@pytest.mark.kafka
@pytest.mark.slow
def test_a_broker_that_is_killed_and_comes_back_is_waited_for(
    on_own_kafka: Deployment, own_kafka: KafkaServer
) -> None:
    worker = on_own_kafka.worker().start()
    on_own_kafka.publish(trial_events(3_000))
    worker.wait_until(lambda: on_own_kafka.latest("trials-changelog"), "a page is written")
    own_kafka.kill()
    own_kafka.start()
    on_own_kafka.publish(trial_events(300, seed=2))
    wait_for(lambda: own_kafka.child.alive, "the broker runs")
    on_own_kafka.wait_until_equal(worker, 90)


@pytest.mark.kafka
def test_a_new_event_topic_starts_the_next_epoch(on_kafka: Deployment) -> None:
    worker = on_kafka.worker().start()
    on_kafka.publish(trial_events(400))
    on_kafka.wait_until_equal(worker)
    assert worker.stop() == 0
    asyncio.run(delete_topic(on_kafka, on_kafka.names.trial_events))
    worker.start()
    on_kafka.publish(trial_events(40, seed=2))
    on_kafka.wait_until_equal(worker)
    epochs = {orjson.loads(value)["epoch"] for value in on_kafka.latest("run-summaries").values()}
    assert epochs == {2}


async def delete_topic(deployment: Deployment, topic: str) -> None:
    """Delete a topic and wait until it is gone."""
    admin = AIOKafkaAdminClient(bootstrap_servers=deployment.bootstrap)
    await admin.start()
    try:
        await admin.delete_topics([topic])
        async with asyncio.timeout(20):
            while topic in await admin.list_topics():
                await asyncio.sleep(0.05)
    finally:
        await admin.close()


def test_an_owner_publishes_again_what_others_put_older_values_over(on_embedded: Deployment) -> None:
    worker = on_embedded.worker().start()
    on_embedded.publish(trial_events(50))
    on_embedded.wait_until_equal(worker)
    older = on_embedded.records("run-summaries")
    on_embedded.publish(trial_events(50, seed=2))
    on_embedded.wait_until_equal(worker)
    newest = on_embedded.latest("run-summaries")
    for record in older:
        on_embedded.send_to("run-summaries", record.partition, record.key, record.value)
    worker.wait_until(lambda: on_embedded.latest("run-summaries") == newest, "the newest are back")
