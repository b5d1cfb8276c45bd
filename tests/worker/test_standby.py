"""Standby copies: another worker follows the tables of a partition, and takes over from there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.worker_process import WorkerProcess
from tests.worker.deployment import Deployment, trial_events


def with_standby(deployment: Deployment, **environment: str) -> WorkerProcess:
    """A worker of a deployment that keeps one standby copy of everything."""
    return deployment.worker(environment={"STREAMER_STANDBY_REPLICAS": "1", **environment})


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_standby_copy_takes_over_where_a_killed_worker_was(on_kafka: Deployment) -> None:
    first, second = with_standby(on_kafka), with_standby(on_kafka)
    taken_over(on_kafka, first, second)


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_standby_copy_on_disk_takes_over_too(on_kafka: Deployment, tmp_path: Path) -> None:
    first, second = (
        with_standby(on_kafka, STREAMER_STORE="rocksdb", STREAMER_DATA_DIR=str(tmp_path / "shared"))
        for _ in range(2)
    )
    taken_over(on_kafka, first, second)


def taken_over(deployment: Deployment, first: WorkerProcess, second: WorkerProcess) -> None:
    """Kill one of two in a stream; what the other had copied it does not read again."""
    first.start()
    second.start()
    deployment.publish(trial_events(3_000, runs=16))
    deployment.wait_until_equal(second)
    second.wait_until(lambda: has_followed(second), "the second worker follows the first")
    first.wait_until(lambda: deployment.committed() == 3_000, "all offsets committed")
    takeovers = len(recoveries(second))
    changelogs = sum(len(deployment.records(topic)) for topic in CHANGELOGS)
    deployment.publish(trial_events(1_000, runs=16, seed=2))
    first.kill()
    deployment.publish(trial_events(1_000, runs=16, seed=3))
    second.wait_until(lambda: len(recoveries(second)) > takeovers, "the second worker takes over")
    deployment.wait_until_equal(second)
    unread, partitions = recoveries(second)[takeovers]
    assert partitions == len(CHANGELOGS) * deployment.partitions
    assert unread < changelogs
    first.start()
    deployment.publish(trial_events(300, runs=16, seed=4))
    deployment.wait_until_equal(first)
    assert second.stop() == 0
    deployment.publish(trial_events(300, runs=16, seed=5))
    deployment.wait_until_equal(first)


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
    found = re.findall(r"recovery: (\d+) records of the changelogs to read, (\d+) partitions", worker.output)
    return [(int(unread), int(partitions)) for unread, partitions in found]
