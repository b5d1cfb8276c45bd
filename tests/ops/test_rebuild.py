"""Rebuilding: wrong state, wherever it came from, is found, named, and replaced for every reader."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import redis
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, RecordsToDelete

from streamer.folding.score.prices import PriceTable
from streamer.operate.verify import Verification
from streamer.schemas.wire import canonical_json, digest_of
from streamer.storage.kafka import partition_of
from streamer.worker.process import ensure_topics
from tests.support.cli import streamer
from tests.support.layers import ENGINES
from tests.support.online import bootstrap_of
from tests.support.servers import RedisServer
from tests.worker.deployment import Deployment, trial_events

ABOVE_ALL = 10**9
"""A state version that no event of the test reaches."""


@pytest.fixture(params=ENGINES)
def deployment(
    request: pytest.FixtureRequest, tmp_path: Path, redis_server: RedisServer, namespace: str
) -> Iterator[Deployment]:
    """On each engine."""
    bootstrap = bootstrap_of(request, request.param)
    redis_server.flush()
    found = Deployment(
        tmp_path, bootstrap, redis_server.url, namespace, embedded=request.param == "embedded", session=6.0
    )
    yield found
    found.kill_workers()


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
    for topic, key in (
        ("run-summaries", "run 2"),
        ("tier-summaries", "run 2|T9"),
        ("run-summaries", "ghost"),
    ):
        place = partition_of(key.split("|")[0], deployment.partitions)
        deployment.send_to(topic, place, key.encode(), forged)


def outcomes(verdicts: list[dict[str, Any]]) -> dict[str, str]:
    return {verdict["run_id"]: verdict["outcome"] for verdict in verdicts}


@pytest.mark.kafka
def test_a_log_without_its_beginning_cannot_be_rebuilt_and_nothing_is_touched(
    kafka_bootstrap: str, tmp_path: Path, redis_server: RedisServer, namespace: str
) -> None:
    deployment = Deployment(tmp_path, kafka_bootstrap, redis_server.url, namespace, embedded=False)
    asyncio.run(ensure_topics(deployment.settings))
    deployment.publish(trial_events(40))
    numbers = {record.partition for record in deployment.records("trial-events")}
    asyncio.run(lose_the_first(deployment, numbers))
    code, verdicts, _ = call(deployment, "rebuild", "--switch")
    assert code == 3
    assert "truncated" in verdicts[0]["reason"]
    assert not deployment.records("streamer-meta")


async def lose_the_first(deployment: Deployment, numbers: set[int]) -> None:
    """Delete the first event of these partitions."""
    admin = AIOKafkaAdminClient(bootstrap_servers=deployment.bootstrap)
    await admin.start()
    try:
        topic = deployment.names.trial_events
        await admin.delete_records({TopicPartition(topic, n): RecordsToDelete(1) for n in numbers})
    finally:
        await admin.close()


def is_equal(deployment: Deployment, run_id: str) -> bool:
    verification = Verification(deployment.settings, prices=PriceTable.default(), wait_seconds=0)
    return verification.verify(run_id)[0].outcome == "equal"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_wrong_pages_summaries_and_runs_are_named_and_replaced(deployment: Deployment) -> None:
    worker = deployment.worker().start()
    deployment.publish(trial_events(400))
    deployment.wait_until_equal(worker)
    assert worker.stop() == 0
    corrupt_state(deployment)
    worker.start()
    worker.wait_until(lambda: not is_equal(deployment, "run 1"), "the forged page is in the summaries")
    code, _, said = call(deployment, "rebuild", "--switch", "--wait", 1)
    assert (code, "stop them" in said) == (1, True)
    assert worker.stop() == 0
    corrupt_topics(deployment)
    code, verdicts, _ = call(deployment, "rebuild")
    found = {verdict["run_id"]: verdict for verdict in verdicts}
    assert code == 1
    assert {run for run, outcome in outcomes(verdicts).items() if outcome != "equal"} == {
        "run 1",
        "run 2",
        "ghost",
    }
    assert {(d["topic"], d["key"]) for d in found["run 2"]["differences"]} == {
        (None, "run"),
        ("run-summaries", "run 2"),
        ("tier-summaries", "run 2|T9"),
    }
    assert not found["ghost"]["in_log"]

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


@pytest.mark.kafka
def test_added_partitions_give_one_instruction_and_it_is_the_right_one(
    on_kafka_deployment: Deployment,
) -> None:
    deployment = on_kafka_deployment
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
    assert [problem for problem in health["problems"] if "artitions" in problem] == [
        problem for problem in health["problems"] if instruction in problem
    ]
    code, _, said = call(deployment, "rebuild", "--switch", "--wait", 1)
    assert code == 0, said
    worker = deployment.worker().start()
    deployment.publish(trial_events(100, seed=2))
    deployment.wait_until_equal(worker)
    code, verdicts, said = call(deployment, "verify", "--all", "--topics")
    assert (code, {verdict["outcome"] for verdict in verdicts}) == (0, {"equal"}), (verdicts, said)


@pytest.fixture
def on_kafka_deployment(
    kafka_bootstrap: str, tmp_path: Path, redis_server: RedisServer, namespace: str
) -> Iterator[Deployment]:
    found = Deployment(tmp_path, kafka_bootstrap, redis_server.url, namespace, embedded=False, session=6.0)
    yield found
    found.kill_workers()
