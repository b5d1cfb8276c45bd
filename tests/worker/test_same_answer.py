"""Whatever happens to records on their way and to workers, the answer is that of a plain fold."""

from __future__ import annotations

import json
import re
import signal
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from streamer.folding.prices import PriceTable
from streamer.folding.score import made_with
from tests.support.servers import KafkaServer, RedisServer
from tests.support.worker_process import WorkerProcess, wait_for
from tests.worker.deployment import Deployment, trial_events
from tests.worker.record_volume import NAMESPACE, RUNS


@pytest.mark.slow
def test_topics_and_redis_say_what_a_fold_says(on_both: Deployment) -> None:
    count, runs = (3_000, 6) if on_both.embedded else (20_000, 32)
    worker = on_both.begun(trial_events(1))
    on_both.go_on(worker, trial_events(count, runs=runs))
    on_both.wait_until_committed(worker)
    assert worker.stop() == 0


@pytest.mark.slow
def test_a_worker_told_to_stop_commits_what_it_did(on_embedded: Deployment) -> None:
    worker = on_embedded.worker().start()
    on_embedded.publish(trial_events(4_000))
    worker.wait_until(lambda: on_embedded.latest("run-summaries"), "something is published")
    assert worker.stop() == 0
    assert on_embedded.committed() > 0
    on_embedded.wait_until_equal(worker.start())


@pytest.mark.slow
def test_two_megabytes_of_slots_in_one_run_survive_a_restart(on_embedded: Deployment) -> None:
    worker = on_embedded.begun(trial_events(140, runs=1, padding=16_000))
    worker.kill()
    on_embedded.publish(trial_events(3, runs=1, seed=5, padding=900_000))
    on_embedded.wait_until_equal(worker.start())
    assert (
        max(len(record.value) for record in on_embedded.records("trials-changelog") if record.value) < 1 << 20
    )


@pytest.mark.kafka
@pytest.mark.slow
def test_a_worker_killed_between_two_parts_of_a_fleet_loses_nothing(on_kafka: Deployment) -> None:
    worker, runs = on_kafka.worker().start(), 800
    on_kafka.publish(trial_events(6 * runs, runs=runs))
    worker.wait_until(lambda: on_kafka.latest("run-summaries"), "something is published")
    worker.kill()
    assert len(on_kafka.latest("run-summaries")) < runs
    on_kafka.publish(trial_events(runs, runs=runs, seed=2))
    on_kafka.wait_until_equal(worker.start())
    on_kafka.wait_until_committed(worker)
    assert worker.stop() == 0


@pytest.mark.kafka
@pytest.mark.slow
def test_one_of_two_workers_killed_and_a_third_started_equal_the_fold(on_kafka: Deployment) -> None:
    first, second, third = (on_kafka.worker() for _ in range(3))
    first.start()
    second.start()
    on_kafka.publish(trial_events(6_000, runs=16))
    second.wait_until(lambda: on_kafka.latest("run-summaries"), "something is published")
    first.kill()
    on_kafka.publish(trial_events(3_000, runs=16, seed=2))
    on_kafka.wait_until_equal(third.start())
    on_kafka.go_on(third, trial_events(300, runs=16, seed=3))
    assert second.stop() == 0
    on_kafka.go_on(third, trial_events(300, runs=16, seed=4))


@pytest.mark.slow
def test_a_deleted_run_leaves_topics_and_redis_also_after_a_crash(on_embedded: Deployment) -> None:
    worker = on_embedded.begun(trial_events(300))
    on_embedded.publish([b'{"type": "run_deleted", "run_id": "run 1", "revision": 9}'])
    worker.wait_until(lambda: on_embedded.redis_keys("run 1") == {"versions"}, "run 1 has left Redis")
    on_embedded.wait_until_equal(worker)
    worker.kill()
    on_embedded.publish([b'{"type": "run_deleted", "run_id": "run 2", "revision": 9}'])
    broken = on_embedded.worker(
        module="tests.worker.faulty", environment={"FAULT": "dies_after_pages"}
    ).start()
    assert broken.wait() == -signal.SIGKILL
    worker.start()
    worker.wait_until(lambda: on_embedded.redis_keys("run 2") == {"versions"}, "run 2 has left Redis")
    on_embedded.wait_until_equal(worker)


def test_redis_that_came_back_empty_converges(on_embedded: Deployment, redis_server: RedisServer) -> None:
    worker = on_embedded.begun(trial_events(300))
    redis_server.stop()
    on_embedded.publish(trial_events(300, seed=2))
    on_embedded.wait_until_committed(worker)
    redis_server.start()
    on_embedded.wait_until_equal(worker)


# -----------------------------------------------------------------------------
# Standby copies: another worker follows the tables of a partition, and takes over from there.


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("store", ["memory", "rocksdb"])
def test_a_standby_copy_replaces_a_killed_worker(on_kafka: Deployment, tmp_path: Path, store: str) -> None:
    """Kill one of two in a stream; what the other had copied it does not read again."""
    environment = {
        "STREAMER_STANDBY_REPLICAS": "1",
        "STREAMER_STORE": store,
        "STREAMER_DATA_DIR": str(tmp_path / "shared"),
    }
    first, second = (on_kafka.worker(environment=environment).start() for _ in range(2))
    on_kafka.go_on(second, trial_events(3_000, runs=16))
    second.wait_until(lambda: has_followed(second), "the second worker follows the first")
    on_kafka.wait_until_committed(first)
    takeovers = len(recoveries(second))
    changelogs = sum(len(on_kafka.records(topic)) for topic in CHANGELOGS)
    on_kafka.publish(trial_events(1_000, runs=16, seed=2))
    first.kill()
    on_kafka.publish(trial_events(1_000, runs=16, seed=3))
    second.wait_until(lambda: len(recoveries(second)) > takeovers, "the second worker takes over")
    on_kafka.wait_until_equal(second)
    unread, partitions = recoveries(second)[takeovers]
    assert partitions == len(CHANGELOGS) * on_kafka.partitions
    assert unread < changelogs
    on_kafka.go_on(first.start(), trial_events(300, runs=16, seed=4))
    assert second.stop() == 0
    on_kafka.go_on(first, trial_events(300, runs=16, seed=5))


CHANGELOGS = (
    "trials-changelog",
    "agent-model-summaries",
    "tier-summaries",
    "run-summaries",
    "run-comparisons",
)


def has_followed(worker: WorkerProcess) -> bool:
    """True if the worker has copies of others' partitions, and is not behind."""
    told = re.findall(r"standby: (\d+) changelog records copied, (\d+) behind", worker.output)
    return bool(told) and int(told[-1][0]) > 0 and int(told[-1][1]) == 0


def recoveries(worker: WorkerProcess) -> list[tuple[int, int]]:
    """Of each recovery so far: changelog records that were not there yet, changelog partitions."""
    result = re.findall(r"recovery: (\d+) records of the changelogs to read, (\d+) partitions", worker.output)
    return [(int(unread), int(partitions)) for unread, partitions in result]


# -----------------------------------------------------------------------------
# What an earlier version left on the disk in mid-batch: this version continues it without folding it again.


RECORDED = Path(__file__).with_name("recorded")


@pytest.fixture
def left_behind(commit: str, tmp_path: Path, redis_server: RedisServer) -> Iterator[Deployment]:
    """A deployment on the volume of a commit, with what Redis held."""
    with tarfile.open(RECORDED / f"{commit}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    with redis.Redis.from_url(redis_server.url, decode_responses=True) as client:
        for key, value in json.loads((tmp_path / "redis.json").read_text()).items():
            if isinstance(value, str):
                client.set(key, value)
            elif isinstance(value, dict):
                client.hset(key, mapping=value)
            else:
                client.zadd(key, dict(value))
    server = KafkaServer(tmp_path / "kafka")
    server.start()
    with Deployment(tmp_path, server.bootstrap, redis_server.url, NAMESPACE, embedded=False) as deployment:
        deployment.published = (tmp_path / "events.ndjson").read_bytes().splitlines()
        yield deployment
    server.stop()


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("commit", ["a3e59d61", "d70dda50"])
def test_a_volume_of_an_earlier_version_left_in_mid_batch_goes_on(left_behind: Deployment) -> None:
    wait_for(left_behind.committed, "the broker has read its offsets")
    assert left_behind.committed() < len(left_behind.published)
    left_behind.make_current(made_with(PriceTable.default()))  # as `streamer config adopt`
    worker = left_behind.worker().start()
    left_behind.wait_until_equal(worker)
    left_behind.go_on(worker, trial_events(200, runs=RUNS, seed=99))
    left_behind.wait_until_committed(worker)
    assert worker.stop() == 0
    assert not re.search("fold(ed|ing) .*again", worker.output)
