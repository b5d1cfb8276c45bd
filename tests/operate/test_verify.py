"""Whether a deployment is well, and whether what it publishes is what a fold of its log says."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
import redis
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, RecordsToDelete
from aiokafka.errors import KafkaConnectionError

from streamer.client.queries import UnknownRun, WorkerStatus
from streamer.client.readers import StateReader
from streamer.folding.fold import Pipeline
from streamer.folding.prices import PriceTable
from streamer.operate import health as module
from streamer.operate import verify
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
from streamer.operate.verify import Verdict, Verification, fold_log
from streamer.schemas.base import SEMANTICS_VERSION, canonical_json, digest_of
from streamer.schemas.summaries import Rejection
from streamer.schemas.wire import TOPICS, Record
from streamer.settings import Settings
from streamer.storage.entries import Keys
from streamer.storage.kafka import (
    BrokerRefuses,
    Names,
    TopicAuthorizationFailedError,
    TopicUnreadable,
    partition_of,
)
from streamer.storage.log import read_topic
from streamer.worker.process import ensure_topics
from tests.client.publish.publishing import make_topics, settings_of
from tests.operate.verifying import (
    a_run,
    client,
    left_by_a_worker,
    publish,
    scatter,
    topics_verdict,
    verdict_of,
    wait_until_published,
)
from tests.support.cli import found_by, streamer
from tests.support.events import a_deletion, a_plan, a_start, a_trial, folded
from tests.support.online import PARTITIONS, Online, online
from tests.support.servers import RedisServer
from tests.support.worker_process import wait_for
from tests.terminal.calling import lines
from tests.worker.deployment import Deployment, trial_events

THREE = tuple(PartitionLag(number, beginning=0, end=9, committed=9) for number in range(3))
FIRST = {"partitions": [0, 2], "published_to": {"0": 9, "2": 9}}
SECOND = {"partitions": [1], "published_to": {"1": 9}}


def flow(*workers: dict[str, Any]) -> Flow:
    return Flow(THREE, workers)


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
    earlier = flow({"partitions": [0, 2]}, SECOND).in_flight  # of a release that does not say it
    assert earlier == "workers have not published everything of partitions 0, 2 yet"


def test_events_that_wait_and_workers_with_work_are_in_flight() -> None:
    waiting = Flow((PartitionLag(0, beginning=0, end=9, committed=4),), ())
    assert "5 events are not processed yet" in (waiting.in_flight or "")
    said = "{} not sent everything to Redis yet".format
    assert flow(FIRST | {"unsent": 1}, SECOND | {"catching_up": [1]}).in_flight == said("2 workers have")
    assert flow(FIRST | {"unsent": 1}, SECOND).in_flight == said("1 worker has")


# -----------------------------------------------------------------------------
# Whether a deployment is well: what is away is a problem in the answer, and never an exception.


NOW = datetime(2026, 1, 2, tzinfo=UTC)
SETTINGS = Settings(bootstrap="broker:9092")


def test_where_nobody_answers_each_is_a_problem() -> None:
    away = Settings(bootstrap=f"127.0.0.1:{free_port()}", redis=f"redis://127.0.0.1:{free_port()}/0")
    health = read_health(away)
    assert (health.broker_answers, health.redis_answers) == (False, False)
    broker, store = health.problems
    start = "Start one (streamer up, or docker compose up)"
    assert broker == f"no Kafka broker answers at {away.bootstrap}. {start}"
    assert "Redis" in store


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (BrokerRefuses("Kafka at b:1 refuses user 'u'"), "Kafka at b:1 refuses user 'u'"),
        (TopicAuthorizationFailedError("t"), "Kafka refused: [Error 29] TopicAuthorizationFailedError: t"),
        (TopicUnreadable([("t", 0)], 60), "the broker at b:1 does not answer: topic 't': partitions [0]"),
    ],
)
def test_a_refusal_is_not_called_silence(
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

    store = nullcontext(SimpleNamespace(get=fail))
    monkeypatch.setattr(StateReader, "workers", lambda _: [])
    monkeypatch.setattr("streamer.storage.redis.sync_client", lambda *_: store)
    monkeypatch.setattr(module, "_ask_broker", lambda *_: None)
    [problem] = read_health(Settings(redis="redis://h:1")).problems
    assert problem.startswith("Redis at h:1 does not answer (Connection reset by peer)")


class Answering:
    def __init__(self) -> None:
        self.topics = {Names().topic(topic.name): 2 for topic in TOPICS}
        self.workers: list[WorkerStatus] = []
        self.full = False

    def worker(self, name: str = "w", silent: timedelta = timedelta(), **status: Any) -> None:
        self.workers.append(WorkerStatus(name, NOW - silent, {"partitions": [0, 1]} | status, NOW))

    def problems(self) -> list[str]:
        return read_health(SETTINGS).problems


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Answering:
    answering = Answering()

    def ask_broker(_: Settings, health: Any) -> None:
        health.broker_answers, health.topics = True, answering.topics
        health.problems += module._topic_problems(answering.topics, Names())
        health.partitions = [PartitionLag(number, 0, 5, None) for number in range(2)]

    def ask_redis(_: Settings, health: Any) -> None:
        health.redis_answers, health.workers = True, answering.workers
        health.redis_full = answering.full

    monkeypatch.setattr(module, "_ask_broker", ask_broker)
    monkeypatch.setattr(module, "_ask_redis", ask_redis)
    return answering


SILENT = {"silent": timedelta(hours=1)}
TROUBLED: dict[str, Any] = {"waits": "waits for the configuration", "unsent": 1_000, "refused": 7}
TROUBLED |= {"outdated": ["r", "s"], "log_faults": ["a fault"]}
TROUBLED |= {"quarantined": {"r": "why"}, "quarantined_runs": 3}
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
    answering: Answering, worker: dict[str, Any], full: bool, problems: list[str]
) -> None:
    answering.worker(**worker)
    answering.full = full
    said = zip(answering.problems(), problems, strict=True)
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


def test_topics_that_are_missing_are_named_and_no_topics_at_all_are_one_problem(answering: Answering) -> None:
    answering.worker()
    missing = answering.topics.popitem()[0]
    hidden = f"topic {missing!r} is missing, or hidden from this user: workers create it"
    assert answering.problems() == [hidden]
    answering.topics.clear()
    [said] = answering.problems()
    assert said.startswith("none of our topics exists")
    assert said.endswith("your user's rights)"), "Kafka lists no topic that an account may not describe"


def test_lag_counts_what_lies_after_the_committed_offsets(idle: Online) -> None:
    def lag() -> list[int]:
        return [partition.lag for partition in asyncio.run(read_lags(idle.settings))]

    assert lag() == [0] * PARTITIONS
    asyncio.run(scatter(idle.settings, [a_trial(run_id="r", task_id=f"t{n}") for n in range(6)]))
    assert lag() == [2] * PARTITIONS
    idle.worker.start()
    wait_for(lambda: lag() == [0] * PARTITIONS, "everything is committed", 20)


def a_rejection(value: bytes | None, key: bytes | None = None) -> StoredRejection:
    """What the pipeline says about a record that it does not fold."""
    [rejected] = Pipeline().fold([Record(value, 5, partition=2, key=key)]).rejections
    rejection = Rejection.model_validate_json(rejected.value)
    return StoredRejection(LogPosition(0, 1), 1_700_000_000_000, rejection)


@pytest.mark.parametrize("text", ["", "1", "1:", ":1", "1:-2", "a:b", "1:2:3", "٣:1", " 1:2"])
def test_only_a_partition_and_an_offset_name_a_rejection(text: str) -> None:
    with pytest.raises(ValueError, match="PARTITION:OFFSET"):
        LogPosition.parse(text)


def test_a_rejection_has_what_was_sent_and_names_the_run_by_it_or_by_its_key() -> None:
    named = orjson.dumps(a_trial(run_id="r", attempt=0))
    rejected = a_rejection(named, b"keyed"), a_rejection(b"{", b"keyed"), a_rejection(b"[1]")
    assert [(one.run_id, one.original) for one in rejected] == [("r", named), ("keyed", b"{"), (None, b"[1]")]
    without = a_rejection(b'{"run_id": 7}').run_id, a_rejection(None).original
    assert (*without, a_rejection(b"x" * (3 * 1024 * 1024)).original) == (None, None, None)
    again = [Again(rejected[1], value).key for value in (orjson.dumps(a_trial(run_id="right")), b"{")]
    assert again == [b"right", b"keyed"]


def test_what_the_pipeline_rejects_is_still_wrong() -> None:
    events = a_trial(), a_trial(attempt=0), a_plan(grading_profile="no such one")
    wrong = [still_wrong(orjson.dumps(event)) for event in events]
    assert [one and one.code for one in wrong] == [None, "invalid_field", "unknown_grading_profile"]


def test_the_runs_in_quarantine_are_those_of_live_workers() -> None:
    now = datetime.now(UTC)
    workers = [
        WorkerStatus("one", now, {"quarantined": {"a": "why"}}),
        WorkerStatus("two", now, {"quarantined": {"b": "because"}}),
        WorkerStatus("dead", now - timedelta(hours=1), {"quarantined": {"c": "long ago"}}),
        WorkerStatus("of an earlier version", now, {}),
    ]
    reader: Any = SimpleNamespace(workers=lambda: workers)
    assert quarantined(reader) == {"a": "why", "b": "because"}


def test_nobody_is_asked_to_repair_a_run_that_does_not_exist(redis_server: RedisServer) -> None:
    with pytest.raises(UnknownRun):
        repair(Settings(redis=redis_server.url), "nobody", wait_seconds=0)


EVENTS = [a_trial(run_id=run, task_id=task) for run in ("one", "two") for task in ("a", "b")]


def test_every_run_has_a_fold_s_digests_until_it_is_deleted(embedded_broker: str, namespace: str) -> None:
    settings = make_topics(settings_of(embedded_broker, namespace))
    log_of = partial(fold_log, settings, prices=PriceTable.default())
    publish(settings, EVENTS)
    log = log_of(run_id=None, scored=True)
    assert log.runs.keys() == log.scored.keys() == {"one", "two"}
    for run_id, changes in log.runs.items():
        expected = folded(EVENTS)[0].run(run_id).summaries()
        assert {c.digest for c in changes.values()} == {c.digest for c in expected}
    assert {len(scored) for scored in log.scored.values()} == {2}
    assert {key[:3] for key in log.scored["one"]} == {b"one"}
    log = log_of(run_id="one", scored=False)
    assert (set(log.runs), log.scored, log.others, log.failed) == ({"one"}, {}, {"two"}, {})
    publish(settings, [a_deletion(run_id="one", revision=9)])
    log = log_of(run_id=None, scored=True)
    assert {change.value for change in log.runs["one"].values()} <= {None}
    assert log.scored.get("one", {}) == {}


def test_a_run_that_fails_behind_its_deletion_is_read_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    events = [a_trial(run_id="one", task_id="t", revision=12), a_deletion(run_id="one", revision=9)]
    readings = []

    def read(*_: Any) -> Iterator[Record]:
        readings.append(True)
        assert len(readings) < 5, "the log is read over and over"
        return (Record(orjson.dumps(event), offset) for offset, event in enumerate(events))

    def fail(*_: Any) -> Any:
        raise ArithmeticError("cannot be divided")

    monkeypatch.setattr(verify, "read_topic", read)
    monkeypatch.setattr("streamer.folding.state.score_trial", fail)
    log = fold_log(Settings(), prices=PriceTable.default(), run_id=None, scored=False)
    assert (log.failed, len(readings)) == ({"one": "ArithmeticError: cannot be divided"}, 2)


# -----------------------------------------------------------------------------
# Rebuilding: wrong state, wherever it came from, is found, named, and replaced for every reader.


ABOVE_ALL = 10**9
"""A state version that no event of the test reaches."""


@pytest.fixture
def deployment(
    kafka_bootstrap: str, tmp_path: Path, redis_server: RedisServer, namespace: str
) -> Iterator[Deployment]:
    result = Deployment(tmp_path, kafka_bootstrap, redis_server.url, namespace, embedded=False, session=6.0)
    yield result
    result.kill_workers()


def call(deployment: Deployment, *arguments: object) -> tuple[int, list[dict[str, Any]], str]:
    found = found_by(deployment.settings)
    del found["STREAMER_PARTITIONS"]  # users need not set it
    done = streamer(*arguments, "--json", environment=found)
    assert b"Traceback" not in done.stderr, done.stderr
    return done.returncode, lines(done.stdout), done.stderr.decode()


def a_page(run_id: str) -> bytes:
    event = orjson.dumps({"type": "trial_result", "run_id": run_id, "task_id": "never", "resolved": True})
    return orjson.dumps({"slots": [len(event)], "v": 1, "as_of": 3, "at": 0}) + b"\n" + event


def tampered(summary: bytes, **more: Any) -> bytes:
    """A summary with other numbers and a high version, its digest right."""
    told = orjson.loads(summary) | {"trials": 77, "epoch": 4, "state_version": ABOVE_ALL} | more
    return canonical_json(told | {"digest": digest_of(told)})


def corrupt_state(deployment: Deployment) -> None:
    """A page, and keys of Redis, that the log knows nothing of."""
    place = partition_of("run 1", deployment.partitions)
    deployment.send_to("trials-changelog", place, b"run 1/forged/1", a_page("run 1"))
    forged, keys = tampered(deployment.latest("run-summaries")["run 2"]), deployment.keys
    with redis.Redis.from_url(deployment.redis_url) as client:
        client.set(keys.run("run 2"), forged)
        client.hset(keys.versions("run 2"), "run", f"5:{ABOVE_ALL}")
        client.set(keys.run("ghost"), tampered(forged, run_id="ghost"))
        client.hset(keys.versions("ghost"), "run", f"4:{ABOVE_ALL}")
        client.zadd(keys.runs, {"ghost": 1.0})


def corrupt_topics(deployment: Deployment) -> None:
    forged = tampered(deployment.latest("run-summaries")["run 2"])
    of_tier = ("tier-summaries", "run 2|T9")
    for topic, key in (("run-summaries", "run 2"), of_tier, ("run-summaries", "ghost")):
        place = partition_of(key.split("|")[0], deployment.partitions)
        deployment.send_to(topic, place, key.encode(), forged)


def test_a_log_without_its_beginning_cannot_be_rebuilt_and_nothing_is_touched(deployment: Deployment) -> None:
    asyncio.run(ensure_topics(deployment.settings))
    deployment.publish(trial_events(40))
    numbers = {record.partition for record in deployment.records("trial-events")}
    asyncio.run(truncate(deployment.settings, numbers))
    code, verdicts, _ = call(deployment, "rebuild", "--switch")
    assert code == 3
    assert "truncated" in verdicts[0]["reason"]
    assert not deployment.records("streamer-meta")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_wrong_pages_summaries_and_runs_are_named_and_replaced(deployment: Deployment) -> None:
    worker = deployment.worker().start()
    deployment.publish(trial_events(400))
    deployment.wait_until_equal(worker)
    assert worker.stop() == 0
    corrupt_state(deployment)
    worker.start()
    again = "run 'run 1': folded again from the log"
    worker.wait_until(lambda: again in worker.output, "the forged page is noticed")
    code, _, said = call(deployment, "rebuild", "--switch", "--wait", 1)
    assert (code, "stop every worker" in said) == (1, True)
    assert worker.stop() == 0
    corrupt_topics(deployment)
    code, verdicts, _ = call(deployment, "rebuild")
    result = {one["run_id"]: one for one in verdicts if one["outcome"] != "equal"}
    assert (code, set(result)) == (1, {"run 2", "ghost"})
    forged = {(d["topic"], d["key"]) for d in result["run 2"]["differences"]}
    assert forged == {(None, "run"), ("run-summaries", "run 2"), ("tier-summaries", "run 2|T9")}
    assert not result["ghost"]["in_log"]
    code, _, said = call(deployment, "rebuild", "--switch")
    assert (code, "epoch 6 begins" in said) == (0, True), said
    worker.start()
    deployment.wait_until_equal(worker)
    code, verdicts, _ = call(deployment, "verify", "--all", "--topics", "--wait", 30)
    assert (code, {one["outcome"] for one in verdicts}) == (0, {"equal"})
    assert not deployment.redis_keys("ghost") & {"run"}
    epochs = {orjson.loads(value)["epoch"] for value in deployment.latest("run-summaries").values()}
    assert epochs == {6}
    deployment.publish(trial_events(100, seed=2))
    deployment.wait_until_equal(worker)


async def add_partitions(deployment: Deployment, count: int) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=deployment.bootstrap)
    await admin.start()
    await admin.create_partitions({deployment.names.trial_events: NewPartitions(count)})
    await admin.close()


def test_added_partitions_give_one_instruction_and_it_is_the_right_one(deployment: Deployment) -> None:
    worker = deployment.worker().start()
    deployment.publish(trial_events(300))
    deployment.wait_until_equal(worker)
    assert worker.stop() == 0
    asyncio.run(add_partitions(deployment, 6))
    instruction = "set STREAMER_PARTITIONS=6 everywhere, run `streamer rebuild --switch`"
    for partitions in (4, 6):  # whatever the settings say
        deployment.partitions = partitions
        stopped = deployment.worker()
        stopped.start(ready=False)
        assert (stopped.process.wait(60), stopped.output.count(instruction)) == (2, 1)
    code, [health], _ = call(deployment, "status")
    assert code == 1
    assert {instruction in problem for problem in health["problems"] if "artitions" in problem} == {True}
    code, _, said = call(deployment, "rebuild", "--switch", "--wait", 1)
    assert code == 0, said
    worker = deployment.worker().start()
    deployment.publish(trial_events(100, seed=2))
    deployment.wait_until_equal(worker)
    code, verdicts, said = call(deployment, "verify", "--all", "--topics")
    assert (code, {verdict["outcome"] for verdict in verdicts}) == (0, {"equal"}), (verdicts, said)


# -----------------------------------------------------------------------------
# Verifying: equal means equal, a difference is named, and what cannot be known is not guessed.


def test_shuffled_and_repeated_events_verify_as_equal(stack: Online) -> None:
    events = a_run("shuffled") * 2
    Random(1).shuffle(events)
    publish(stack.settings, events)
    verdict = verdict_of(stack.settings, "shuffled")
    assert (verdict.outcome, verdict.differences) == ("equal", ())
    assert verdict.summaries == 2 + 2 + 2 * 2 + 1  # agents, tiers, agents within tiers, run


def test_events_in_wrong_partitions_are_folded_too(stack: Online) -> None:
    asyncio.run(scatter(stack.settings, a_run("scattered")[::4]))
    assert verdict_of(stack.settings, "scattered").outcome == "equal"


def test_each_difference_is_named(stack: Online) -> None:
    start = a_start(run_id="changed", task_id="slow")
    rival = a_trial(run_id="changed", agent="b", task_id="t0", tier="T0")  # a baseline is not compared
    publish(stack.settings, [*a_run("changed"), rival, start])
    wait_until_published(stack)
    assert verdict_of(stack.settings, "changed").outcome == "equal"
    publish(stack.settings, [start | {"task_id": "slower"}, a_trial(run_id="changed", task_id="t9")])
    assert verdict_of(stack.settings, "changed").outcome == "equal", "though some is published a second later"
    keys = Keys(stack.settings.namespace)
    with client(stack) as store:
        parts = ("agent_model:nop:gpt-5", "tier:T0", "tier:T9")
        agent, tier, extra = (keys.of_run("changed", part) for part in parts)
        for key, field in ((agent, "trials"), (keys.comparisons("changed"), "agents_total")):
            store.set(key, json.dumps(json.loads(str(store.get(key))) | {field: 1_000}))
        store.set(extra, str(store.get(tier)))
        store.hset(keys.versions("changed"), "tier:T9", "1:0")
        store.delete(tier)
        store.set(keys.run("changed"), "garbage")
        store.hset(keys.in_flight("changed"), "|stale|1|a|m||", "{}")
        store.hset(keys.tasks("changed"), "t9", '{"a:m":[1,1,0]}')
    verdict = verdict_of(stack.settings, "changed")
    result = {difference.key: difference for difference in verdict.differences}
    assert verdict.outcome == "differs"
    assert {key: " ".join(one.fields) for key, one in result.items()} == {
        "agent_model:nop:gpt-5": "digest trials",
        "comparisons": "agents_total digest",
        "in_flight": "|stale|1|a|m||",
        "tasks": "t9",
    } | dict.fromkeys(("run", "tier:T0", "tier:T9"), "")
    assert None not in (result["in_flight"].log, result["in_flight"].found)
    assert (result["run"].found, result["tier:T0"].found, result["tier:T9"].log) == ("unreadable", None, None)


def test_a_deleted_run_is_equal_when_nothing_of_it_is_left(stack: Online) -> None:
    publish(stack.settings, [*a_run("deleted"), a_deletion(run_id="deleted", revision=99)])
    wait_until_published(stack)  # nothing is equal to nothing, too, while the worker has not read it
    assert verdict_of(stack.settings, "deleted") == Verdict("deleted", "equal")
    keys = Keys(stack.settings.namespace)
    with client(stack) as store:
        store.set(keys.run("deleted"), "{}")
        store.hset(keys.versions("deleted"), "run", "1:0")
    verdict = verdict_of(stack.settings, "deleted")
    assert (verdict.outcome, [d.key for d in verdict.differences]) == ("differs", ["run"])


def test_a_run_that_the_log_does_not_know_cannot_be_verified(stack: Online) -> None:
    publish(stack.settings, [a_trial(run_id="known-run")])
    verdict = verdict_of(stack.settings, "knwon-run")
    assert verdict.outcome == "unverifiable"
    assert "Did you mean known-run?" in (verdict.reason or "")


def test_what_is_in_flight_is_waited_for_and_not_called_a_difference(idle: Online) -> None:
    publish(idle.settings, [*a_run("one"), *a_run("two")])
    early = verdict_of(idle.settings, "one", wait_seconds=0.3)
    assert early.outcome == "unverifiable"
    late = Verification(idle.settings, prices=PriceTable.default(), wait_seconds=60)
    idle.worker.start(ready=False)
    assert [(v.run_id, v.outcome) for v in late.verify(None)] == [("one", "equal"), ("two", "equal")]


def test_a_difference_does_not_count_before_the_owner_has_published_everything(idle: Online) -> None:
    left_by_a_worker(idle, "one")
    keys, number = Keys(idle.settings.namespace), partition_of("one", PARTITIONS)
    with client(idle) as store:
        store.set(keys.run("one"), "{}")
        store.hset(keys.workers, "w", heartbeat(*range(PARTITIONS), published_to=3))
        early = verdict_of(idle.settings, "one", wait_seconds=0.3)
        store.hset(keys.workers, "w", heartbeat(*range(PARTITIONS), published_to=len(a_run("one"))))
    assert early.outcome == "unverifiable"
    assert f"not published everything of partitions {number} yet" in (early.reason or "")
    assert verdict_of(idle.settings, "one", wait_seconds=0.3).outcome == "differs"


def test_no_difference_counts_without_an_owner(idle: Online, monkeypatch: pytest.MonkeyPatch) -> None:
    left_by_a_worker(idle, "one")
    keys, number = Keys(idle.settings.namespace), partition_of("one", PARTITIONS)
    with client(idle) as store:
        published = str(store.get(keys.run("one")))
        store.set(keys.run("one"), "{}")
        others = {*range(PARTITIONS)} - {number}
        store.hset(keys.workers, "first", heartbeat(*others, published_to=0))

        def the_owner_comes(seconds: float) -> None:
            store.set(keys.run("one"), published)
            store.hset(keys.workers, "second", heartbeat(number, published_to=len(a_run("one"))))

        readings = itertools.count()  # so slow that no deadline passes first
        clock = SimpleNamespace(monotonic=lambda: next(readings) / 100, sleep=the_owner_comes)
        monkeypatch.setattr("streamer.operate.verify.time", clock)
        assert verdict_of(idle.settings, "one").outcome == "equal"


def test_an_emptied_redis_cannot_be_verified(idle: Online) -> None:
    left_by_a_worker(idle, "one")
    idle.redis.flush()
    verdict = verdict_of(idle.settings, "one", wait_seconds=0.3)
    assert (verdict.outcome, "Redis has no runs" in (verdict.reason or "")) == ("unverifiable", True)


def test_a_broker_that_is_away_is_an_error(stack: Online) -> None:
    settings = stack.settings.model_copy(update={"bootstrap": f"127.0.0.1:{free_port()}"})
    with pytest.raises(KafkaConnectionError):
        verdict_of(settings, "any")


def heartbeat(*partitions: int, published_to: int) -> bytes:
    """Of a worker that owns these partitions and has published each so far."""
    reached = dict.fromkeys(map(str, partitions), published_to)
    return orjson.dumps({"at": datetime.now(UTC), "partitions": partitions, "published_to": reached})


async def truncate(settings: Settings, partitions: Iterable[int]) -> None:
    topic = Names(settings.namespace).trial_events
    admin = AIOKafkaAdminClient(**settings.kafka_options())
    await admin.start()
    try:
        await admin.delete_records({TopicPartition(topic, n): RecordsToDelete(1) for n in partitions})
    finally:
        await admin.close()


@pytest.mark.kafka
def test_a_truncated_log_cannot_be_verified(kafka_bootstrap: str, tmp_path: Path) -> None:
    with online(tmp_path, kafka_bootstrap, "kafka", worker=True) as cut:
        asyncio.run(scatter(cut.settings, a_run("one")))
        assert verdict_of(cut.settings, "one").outcome == "equal"
        asyncio.run(truncate(cut.settings, range(PARTITIONS)))
        verdict = verdict_of(cut.settings, "one")
    assert (verdict.outcome, "truncated" in (verdict.reason or "")) == ("unverifiable", True)


# -----------------------------------------------------------------------------
# Topics and Redis hold the same bytes, and verifying with the topics names what differs.


def test_topics_and_redis_hold_the_same_bytes_after_every_kind_of_recovery(idle: Online) -> None:
    events = a_run("one")
    idle.worker.start()
    for event in events[:8]:  # one by one, so that each summary has another state version
        publish(idle.settings, [event])
        wait_for(lambda: verdict_of(idle.settings, "one").outcome == "equal", "the event is folded")
    assert topics_verdict(idle.settings, "one").differences == ()
    idle.redis.flush()
    wait_for(lambda: topics_verdict(idle.settings, "one").outcome == "equal", "Redis is filled again")
    idle.worker.kill()
    idle.redis.flush()
    publish(idle.settings, events[8:])
    idle.worker.start()
    assert topics_verdict(idle.settings, "one").differences == ()


def test_other_bytes_of_the_same_summary_are_a_difference_that_topics_tells(stack: Online) -> None:
    publish(stack.settings, a_run("bytes"))
    assert topics_verdict(stack.settings, "bytes").outcome == "equal"
    key = Keys(stack.settings.namespace).run("bytes")
    with client(stack) as store:
        store.set(key, json.dumps(json.loads(str(store.get(key))) | {"state_version": 1_000}))
    assert verdict_of(stack.settings, "bytes").outcome == "equal"
    verdict = topics_verdict(stack.settings, "bytes")
    assert verdict.outcome == "differs"
    assert [(d.topic, d.fields) for d in verdict.differences] == [("run-summaries", ("state_version",))]


def of_version_1(value: str | bytes) -> str:
    """A summary as another version of the semantics would have published it, with its own digest."""
    summary = json.loads(value) | {"semantics_version": 1, "trials": 1_000}
    return json.dumps(summary | {"digest": digest_of(summary)})


VERSIONS = f"published with semantics_version 1, compared with {SEMANTICS_VERSION}"
ANOTHER_VERSION = f"{VERSIONS}; upgraded workers publish it again"


async def write(settings: Settings, topic: str, *records: tuple[int, bytes, bytes | None]) -> None:
    async with AIOKafkaProducer(**settings.kafka_options()) as producer:
        for partition, key, value in records:
            await producer.send_and_wait(topic, value, key=key, partition=partition)


def test_a_summary_of_another_semantics_version_is_said_to_be_one(idle: Online) -> None:
    left_by_a_worker(idle, "upgraded")
    names = Names(idle.settings.namespace)
    key = Keys(idle.settings.namespace).run("upgraded")
    with client(idle) as store:
        earlier = of_version_1(str(store.get(key)))
        store.set(key, earlier)
    record = partition_of("upgraded", PARTITIONS), b"upgraded", earlier.encode()
    asyncio.run(write(idle.settings, names.run_summaries, record))
    verdict = topics_verdict(idle.settings, "upgraded")
    assert (verdict.outcome, verdict.semantics_version) == ("differs", SEMANTICS_VERSION)
    reasons = [(d.topic, d.reason) for d in verdict.differences]
    assert reasons == [(topic, ANOTHER_VERSION) for topic in (None, "run-summaries")]
    command = ("verify", "upgraded", "--wait", "1")
    first, *others = streamer(*command, environment=idle.environment).stdout.decode().splitlines()
    assert first == f"Compared by semantics_version {SEMANTICS_VERSION}."
    assert f"upgraded: {ANOTHER_VERSION}" in others
    said = json.loads(streamer(*command, "--json", environment=idle.environment).stdout)
    assert said["semantics_version"] == SEMANTICS_VERSION
    assert [difference["reason"] for difference in said["differences"]] == [ANOTHER_VERSION]


def test_scored_trials_that_are_gone_are_a_difference_that_topics_tells(idle: Online) -> None:
    left_by_a_worker(idle, "withdrawn")  # one that runs publishes them again
    topic = Names(idle.settings.namespace).scored_trials
    scored = [r for r in read_topic(idle.settings, topic) if r.key.startswith(b"withdrawn") and r.value]
    asyncio.run(write(idle.settings, topic, *{(r.partition, r.key, None) for r in scored}))
    verdict = topics_verdict(idle.settings, "withdrawn")
    assert verdict.outcome == "differs"
    assert {d.topic for d in verdict.differences} == {"scored-trials"}
    assert len(verdict.differences) == 11
    assert verdict.differences[-1].key.startswith("and ")
