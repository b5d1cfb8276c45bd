"""What is in flight, and which partitions nothing is known of, by the heartbeats of the workers."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
import redis

from streamer.client.queries import UnknownRun, WorkerStatus
from streamer.client.readers import StateReader
from streamer.folding.fold import Pipeline
from streamer.operate import health as module
from streamer.operate.health import (
    Again,
    Flow,
    LogPosition,
    PartitionLag,
    StoredRejection,
    quarantined,
    read_health,
    read_lags,
    repair,
    still_wrong,
)
from streamer.operate.local.processes import free_port
from streamer.schemas.summaries import Rejection
from streamer.schemas.wire import TOPICS, Record
from streamer.settings import Settings
from streamer.storage.kafka import BrokerRefuses, Names, TopicAuthorizationFailedError, TopicUnreadable
from tests.operate.verifying import scatter
from tests.support.events import a_plan, a_trial
from tests.support.online import PARTITIONS as PARTITIONS_OF_LAG
from tests.support.online import Online
from tests.support.servers import RedisServer
from tests.support.worker_process import wait_for

PARTITIONS = tuple(PartitionLag(number, beginning=0, end=9, committed=9) for number in range(3))
FIRST = {"partitions": [0, 2], "published_to": {"0": 9, "2": 9}}
SECOND = {"partitions": [1], "published_to": {"1": 9}}


def flow(*workers: dict[str, Any]) -> Flow:
    """All three partitions, and these heartbeats."""
    return Flow(PARTITIONS, workers)


def test_nothing_is_known_of_the_partitions_of_a_worker_that_is_not_heard() -> None:
    assert flow(FIRST, SECOND).without_owner == []
    assert flow(FIRST).without_owner == [1]
    assert flow(SECOND, {"partitions": [], "waits": "for its group"}).without_owner == [0, 2]
    assert flow().without_owner == [0, 1, 2]


def test_what_an_owner_has_not_published_is_in_flight() -> None:
    assert flow(FIRST, SECOND).in_flight is None
    assert flow(FIRST).in_flight is None
    behind = flow(FIRST, SECOND | {"published_to": {"1": 8}}).in_flight
    assert behind == "workers have not published everything of partitions 1 yet"
    assert flow(FIRST, SECOND | {"published_to": {}}).in_flight == behind
    assert flow(SECOND | {"published_to": {}}, SECOND).in_flight is None, "its owner before is heard, too"


def test_workers_of_a_release_that_does_not_say_what_is_published_count_as_busy() -> None:
    assert "partitions 0, 2 yet" in (flow({"partitions": [0, 2]}, SECOND).in_flight or "")


def test_events_that_wait_and_workers_with_work_are_in_flight() -> None:
    waiting = Flow((PartitionLag(0, beginning=0, end=9, committed=4),), ())
    assert "5 events are not processed yet" in (waiting.in_flight or "")
    assert flow(FIRST | {"unsent": 1}, SECOND | {"catching_up": [1]}).in_flight == (
        "2 workers have not sent everything to Redis yet"
    )
    assert flow(FIRST | {"unsent": 1}, SECOND).in_flight == "1 worker has not sent everything to Redis yet"


# -----------------------------------------------------------------------------
# Whether a deployment is well: what is away is a problem in the answer, and never an exception.


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


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (BrokerRefuses("Kafka at b:1 refuses user 'u'"), "Kafka at b:1 refuses user 'u'"),
        (TopicAuthorizationFailedError("t"), "Kafka refused: [Error 29] TopicAuthorizationFailedError: t"),
        (TopicUnreadable([("t", 0)], 60), "the broker at b:1 does not answer: topic 't': partitions [0]"),
    ],
)
def test_a_broker_that_refuses_is_not_called_silent(
    monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    async def refuse(_: Settings) -> None:
        raise error

    monkeypatch.setattr(module, "read_partition_counts", refuse)
    monkeypatch.setattr(module, "_ask_redis", lambda *_: None)
    [problem] = read_health(Settings(bootstrap="b:1")).problems
    assert problem.startswith(said)


def test_a_redis_that_goes_while_it_is_asked_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: str) -> None:
        raise redis.ConnectionError("Connection reset by peer")

    monkeypatch.setattr(StateReader, "workers", lambda _: [])
    monkeypatch.setattr(
        "streamer.storage.redis.sync_client", lambda *_: nullcontext(SimpleNamespace(get=fail))
    )
    monkeypatch.setattr(module, "_ask_broker", lambda *_: None)
    [problem] = read_health(Settings(redis="redis://h:1")).problems
    assert problem.startswith("Redis at h:1 does not answer (Connection reset by peer)")


class Deployment:
    """A deployment in which everything answers, and says this."""

    def __init__(self) -> None:
        self.topics = {Names().topic(topic.name): 2 for topic in TOPICS}
        self.workers: list[WorkerStatus] = []
        self.full = False

    def worker(self, name: str = "w", silent: timedelta = timedelta(), **status: Any) -> None:
        self.workers.append(WorkerStatus(name, NOW - silent, {"partitions": [0, 1]} | status, NOW))

    def problems(self) -> list[str]:
        return read_health(SETTINGS).problems


@pytest.fixture
def deployment(monkeypatch: pytest.MonkeyPatch) -> Deployment:
    deployment = Deployment()

    def ask_broker(_: Settings, health: Any) -> None:
        health.broker_answers, health.topics = True, deployment.topics
        health.problems += module._topic_problems(deployment.topics, Names())
        health.partitions = [PartitionLag(number, 0, 5, None) for number in range(2)]

    def ask_redis(_: Settings, health: Any) -> None:
        health.redis_answers, health.workers = True, deployment.workers
        health.redis_full = deployment.full

    monkeypatch.setattr(module, "_ask_broker", ask_broker)
    monkeypatch.setattr(module, "_ask_redis", ask_redis)
    return deployment


SILENT = {"silent": timedelta(hours=1)}
TROUBLED: dict[str, Any] = {
    "waits": "waits for the configuration",
    "unsent": 1_000,
    "refused": 7,
    "outdated": ["r", "s"],
    "log_faults": ["a fault"],
    "quarantined": {"r": "why"},
    "quarantined_runs": 3,
}
ALL_THAT_IT_TELLS = [
    "run 'r' is in quarantine (why)",
    "2 more runs of worker w in quarantine",
    "worker w waits for the configuration",
    "worker w has 1,000 keys that Redis does not have yet",
    "Redis refuses values of worker w (7 so far). It holds newer ones for 2 runs, like 'r'",
    "a fault",
]


@pytest.mark.parametrize(
    ("worker", "full", "problems"),
    [
        ({}, False, []),
        (SILENT, False, ["no worker is running (10 events wait)"]),
        (SILENT, True, []),  # a full Redis has no heartbeats
        ({"partitions": [1]}, False, ["no worker owns partitions [0] (yet)"]),
        (TROUBLED, False, ALL_THAT_IT_TELLS),
        ({"unsent": 36, "held_up": False}, False, []),  # they are being sent
        ({"unsent": 36, "held_up": True}, False, ["worker w has 36 keys that Redis does not have yet"]),
    ],
)
def test_all_that_is_wrong_with_the_workers_is_a_problem(
    deployment: Deployment, worker: dict[str, Any], full: bool, problems: list[str]
) -> None:
    deployment.worker(**worker)
    deployment.full = full
    said = zip(deployment.problems(), problems, strict=True)
    assert [problem[: len(begin)] for problem, begin in said] == problems


def test_a_full_redis_is_named_until_it_has_room(idle: Online) -> None:
    idle.worker.start()
    with redis.Redis.from_url(idle.redis.url) as client:
        client.config_set("maxmemory", client.info("memory")["used_memory"] + 300_000)

        def full() -> list[str]:
            return [problem for problem in read_health(idle.settings).problems if " is full: " in problem]

        assert full() == []
        events = [a_trial(run_id=f"r{n % 20}", task_id=f"t{n}") for n in range(400)]
        asyncio.run(scatter(idle.settings, events))
        idle.worker.wait_until(lambda: "'maxmemory'" in idle.worker.output, "Redis refuses a write")
        wait_for(full, "status names it", 5)
        assert "maxmemory" in full()[0]
        client.config_set("maxmemory", 0)
        assert full() == []
    wait_for(lambda: not read_health(idle.settings).problems, "all is well again", 30)


def test_topics_that_are_missing_are_named_and_no_topics_at_all_are_one_problem(
    deployment: Deployment,
) -> None:
    deployment.worker()
    missing = deployment.topics.popitem()[0]
    assert deployment.problems() == [f"topic {missing!r} is missing: a worker creates it when it starts"]
    deployment.topics.clear()
    assert len(deployment.problems()) == 1
    assert deployment.problems()[0].startswith("none of our topics exists")


# -----------------------------------------------------------------------------
# The lag of the workers behind the event topic.


def test_lag_counts_what_lies_after_the_committed_offsets(idle: Online) -> None:
    def lag() -> list[int]:
        return [partition.lag for partition in asyncio.run(read_lags(idle.settings))]

    assert lag() == [0] * PARTITIONS_OF_LAG
    asyncio.run(scatter(idle.settings, [a_trial(run_id="r", task_id=f"t{n}") for n in range(6)]))
    assert lag() == [2] * PARTITIONS_OF_LAG
    idle.worker.start()
    wait_for(lambda: lag() == [0] * PARTITIONS_OF_LAG, "everything is committed", 20)


# -----------------------------------------------------------------------------
# Rejections as values: what they are about, and whether they are still wrong.


def a_rejection(value: bytes | None, key: bytes | None = None) -> StoredRejection:
    """What the pipeline says about a record that it does not fold."""
    [rejected] = Pipeline().fold([Record(value, 5, partition=2, key=key)]).rejections
    return StoredRejection(
        LogPosition(0, 1), 1_700_000_000_000, Rejection.model_validate_json(rejected.value)
    )


@pytest.mark.parametrize("text", ["", "1", "1:", ":1", "1:-2", "a:b", "1:2:3", "٣:1", " 1:2"])
def test_only_a_partition_and_an_offset_name_a_rejection(text: str) -> None:
    with pytest.raises(ValueError, match="PARTITION:OFFSET"):
        LogPosition.parse(text)


def test_the_run_is_named_by_the_record_else_by_its_key() -> None:
    named = orjson.dumps(a_trial(run_id="r", attempt=0))
    assert a_rejection(named, b"other").run_id == "r"
    assert a_rejection(b"{", b"keyed").run_id == "keyed"
    assert a_rejection(b"[1]").run_id is None
    assert a_rejection(b'{"run_id": 7}').run_id is None


def test_a_record_without_value_or_with_too_many_bytes_has_no_original() -> None:
    assert a_rejection(None).original is None
    assert a_rejection(b"x" * (3 * 1024 * 1024)).original is None
    assert a_rejection(b"x").original == b"x"


def test_what_the_pipeline_rejects_is_still_wrong() -> None:
    events = a_trial(), a_trial(attempt=0), a_plan(grading_profile="no such one")
    wrong = [still_wrong(orjson.dumps(event)) for event in events]
    assert [one and one.code for one in wrong] == [None, "invalid_field", "unknown_grading_profile"]


def test_what_is_published_again_has_the_key_of_its_run() -> None:
    rejected = a_rejection(b"{", b"keyed")
    assert Again(rejected, orjson.dumps(a_trial(run_id="right"))).key == b"right"
    assert Again(rejected, b"{").key == b"keyed"


# -----------------------------------------------------------------------------
# A run is folded again on request: which runs are in quarantine, and who was asked in vain.


def test_the_runs_in_quarantine_are_those_of_live_workers() -> None:
    def a_worker(name: str, minutes_ago: int = 0, **status: Any) -> WorkerStatus:
        return WorkerStatus(name, datetime.now(UTC) - timedelta(minutes=minutes_ago), status)

    workers = [
        a_worker("one", quarantined={"a": "why"}),
        a_worker("two", quarantined={"b": "because"}),
        a_worker("dead", minutes_ago=60, quarantined={"c": "long ago"}),
        a_worker("of an earlier version"),
    ]
    reader: Any = SimpleNamespace(workers=lambda: workers)
    assert quarantined(reader) == {"a": "why", "b": "because"}


def test_nobody_is_asked_to_repair_a_run_that_does_not_exist(redis_server: RedisServer) -> None:
    with pytest.raises(UnknownRun):
        repair(Settings(redis=redis_server.url), "nobody", wait_seconds=0)
