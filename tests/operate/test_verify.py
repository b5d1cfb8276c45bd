"""The event log folded again is what a fold of the same events says."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
import redis
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, RecordsToDelete
from aiokafka.errors import KafkaConnectionError

from streamer.folding.prices import PriceTable
from streamer.operate import verify
from streamer.operate.local.processes import free_port
from streamer.operate.verify import Verdict, Verification, fold_log
from streamer.schemas.base import canonical_json, digest_of
from streamer.schemas.wire import Record
from streamer.settings import Settings
from streamer.storage.entries import Keys
from streamer.storage.kafka import Names, partition_of
from streamer.worker.process import ensure_topics
from tests.client.publish.publishing import make_topics, settings_of
from tests.operate.verifying import (
    a_run,
    client,
    left_by_a_worker,
    publish,
    scatter,
    verdict_of,
    wait_until_published,
)
from tests.support.cli import streamer
from tests.support.events import a_deletion, a_start, a_trial, folded
from tests.support.online import PARTITIONS, Online, online
from tests.support.servers import RedisServer
from tests.worker.deployment import Deployment, trial_events

EVENTS = [a_trial(run_id=run, task_id=task) for run in ("one", "two") for task in ("a", "b")]


def test_every_run_has_the_digests_of_a_fold_until_it_is_deleted(
    embedded_broker: str, namespace: str
) -> None:
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


def test_a_run_that_fails_on_events_newer_than_its_deletion_is_told_after_two_readings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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
    """A command that writes JSON: exit code, objects, what it said."""
    environment = {
        "STREAMER_BOOTSTRAP": deployment.bootstrap,
        "STREAMER_REDIS": deployment.redis_url,
        "STREAMER_NAMESPACE": deployment.namespace,
        "STREAMER_EMBEDDED": str(deployment.embedded),
    }
    done = streamer(*arguments, "--json", environment=environment)
    assert b"Traceback" not in done.stderr, done.stderr
    return done.returncode, [orjson.loads(line) for line in done.stdout.splitlines()], done.stderr.decode()


def a_page(run_id: str) -> bytes:
    """A state page of a result that nobody published."""
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
    """Summaries that the log knows nothing of."""
    forged = tampered(deployment.latest("run-summaries")["run 2"])
    of_tier = ("tier-summaries", "run 2|T9")
    for topic, key in (("run-summaries", "run 2"), of_tier, ("run-summaries", "ghost")):
        place = partition_of(key.split("|")[0], deployment.partitions)
        deployment.send_to(topic, place, key.encode(), forged)


def outcomes(verdicts: list[dict[str, Any]]) -> dict[str, str]:
    return {verdict["run_id"]: verdict["outcome"] for verdict in verdicts}


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
    result = {verdict["run_id"]: verdict for verdict in verdicts}
    assert code == 1
    assert {run for run, outcome in outcomes(verdicts).items() if outcome != "equal"} == {"run 2", "ghost"}
    assert {(d["topic"], d["key"]) for d in result["run 2"]["differences"]} == {
        (None, "run"),
        ("run-summaries", "run 2"),
        ("tier-summaries", "run 2|T9"),
    }
    assert not result["ghost"]["in_log"]

    code, _, said = call(deployment, "rebuild", "--switch")
    assert (code, "epoch 6 begins" in said) == (0, True), said
    worker.start()
    deployment.wait_until_equal(worker)
    code, verdicts, _ = call(deployment, "verify", "--all", "--topics", "--wait", 30)
    assert (code, set(outcomes(verdicts).values())) == (0, {"equal"})
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
        assert stopped.process.wait(60) == 2
        assert stopped.output.count(instruction) == 1
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
        agent, tier, extra = (
            keys.of_run("changed", s) for s in ("agent_model:nop:gpt-5", "tier:T0", "tier:T9")
        )
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
    assert {key: one.fields for key, one in result.items() if one.fields} == {
        "agent_model:nop:gpt-5": ("digest", "trials"),
        "comparisons": ("agents_total", "digest"),
        "in_flight": ("|stale|1|a|m||",),
        "tasks": ("t9",),
    }
    assert result.keys() - {"agent_model:nop:gpt-5", "comparisons", "in_flight", "tasks"} == {
        *("run", "tier:T0", "tier:T9")
    }
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


def test_a_difference_does_not_count_while_a_partition_waits_for_its_owner(
    idle: Online, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    """Delete the first event of these partitions."""
    topic = Names(settings.namespace).trial_events
    admin = AIOKafkaAdminClient(**settings.kafka_options())
    await admin.start()
    try:
        await admin.delete_records({TopicPartition(topic, n): RecordsToDelete(1) for n in partitions})
    finally:
        await admin.close()


@pytest.mark.kafka
def test_a_truncated_log_cannot_be_verified(
    kafka_bootstrap: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with online(tmp_path_factory.mktemp("cut"), kafka_bootstrap, "kafka", worker=True) as cut:
        asyncio.run(scatter(cut.settings, a_run("one")))
        assert verdict_of(cut.settings, "one").outcome == "equal"
        asyncio.run(truncate(cut.settings, range(PARTITIONS)))
        verdict = verdict_of(cut.settings, "one")
    assert (verdict.outcome, "truncated" in (verdict.reason or "")) == ("unverifiable", True)
