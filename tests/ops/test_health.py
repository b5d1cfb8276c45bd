"""Whether a deployment is well: what is away is a problem in the answer, and never an exception."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from streamer.client.queries import WorkerStatus
from streamer.operate import health as module
from streamer.operate.health import PartitionLag, read_health
from streamer.operate.local.processes import free_port
from streamer.schemas.export import TOPICS
from streamer.settings import Settings
from streamer.storage.kafka import Names

NOW = datetime(2026, 1, 2, tzinfo=UTC)
SETTINGS = Settings(bootstrap="broker:9092")


def test_where_nobody_answers_each_is_a_problem() -> None:
    away = Settings(bootstrap=f"127.0.0.1:{free_port()}", redis=f"redis://127.0.0.1:{free_port()}/0")
    health = read_health(away)
    assert (health.broker_answers, health.redis_answers) == (False, False)
    broker, store = health.problems
    assert (
        broker
        == f"no Kafka broker answers at {away.bootstrap}. Start one (streamer up, or docker compose up)"
    )
    assert "Redis" in store


class Deployment:
    """A deployment in which everything answers, and says this."""

    def __init__(self) -> None:
        self.topics = {Names().topic(topic.name): 2 for topic in TOPICS}
        self.workers: list[WorkerStatus] = []

    def worker(self, name: str = "w", at: datetime = NOW, **status: Any) -> None:
        self.workers.append(WorkerStatus(name, at, {"partitions": [0, 1]} | status))

    def problems(self) -> list[str]:
        return read_health(SETTINGS, NOW).problems


@pytest.fixture
def deployment(monkeypatch: pytest.MonkeyPatch) -> Deployment:
    deployment = Deployment()

    def ask_broker(_: Settings, health: Any) -> None:
        health.broker_answers, health.topics = True, deployment.topics
        health.problems += module._topic_problems(deployment.topics, Names())
        health.partitions = [PartitionLag(number, 0, 5, None) for number in range(2)]

    def ask_redis(_: Settings, health: Any) -> None:
        health.redis_answers, health.workers = True, deployment.workers

    monkeypatch.setattr(module, "_ask_broker", ask_broker)
    monkeypatch.setattr(module, "_ask_redis", ask_redis)
    return deployment


def test_a_deployment_whose_partitions_have_a_live_worker_is_well(deployment: Deployment) -> None:
    deployment.worker()
    assert deployment.problems() == []


def test_without_a_live_worker_the_events_that_wait_are_counted(deployment: Deployment) -> None:
    deployment.worker(at=NOW - timedelta(hours=1))
    [problem] = deployment.problems()
    assert problem.startswith("no worker is running (10 events wait)")


def test_partitions_without_an_owner_are_named(deployment: Deployment) -> None:
    deployment.worker(partitions=[1])
    assert deployment.problems() == ["no worker owns partitions [0] (yet)"]


def test_all_that_a_worker_tells_of_is_a_problem(deployment: Deployment) -> None:
    deployment.worker(
        waits="waits for the configuration",
        unsent=1_000,
        log_faults=["a fault"],
        quarantined={"r": "why"},
        quarantined_runs=3,
    )
    quarantined, more, waits, unsent, fault = deployment.problems()
    assert quarantined.startswith("run 'r' is in quarantine (why)")
    assert more == "2 more runs of worker w are in quarantine"
    assert waits == "worker w waits for the configuration"
    assert unsent == "worker w has 1,000 keys that Redis does not have yet"
    assert fault == "a fault"


def test_topics_that_are_missing_are_named_and_no_topics_at_all_are_one_problem(
    deployment: Deployment,
) -> None:
    deployment.worker()
    gone = deployment.topics.popitem()[0]
    assert deployment.problems() == [f"topic {gone!r} is missing: a worker creates it when it starts"]
    deployment.topics.clear()
    assert len(deployment.problems()) == 1
    assert deployment.problems()[0].startswith("none of our topics exists")
