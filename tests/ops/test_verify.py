"""Verifying: equal means equal, a difference is named, and what cannot be known is not guessed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from random import Random

import pytest
import redis
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.errors import KafkaConnectionError

from streamer.embedded.probe import free_port
from streamer.kafka.log import read_batches
from streamer.kafka.names import Names
from streamer.kafka.partitioner import partition_of
from streamer.ops.lag import read_lags
from streamer.ops.verify import Verdict, Verification
from streamer.publish.publisher import ThreadedPublisher, outgoing
from streamer.redis.keys import Keys
from streamer.schemas.base import SEMANTICS_VERSION
from streamer.schemas.canonical import digest_of
from streamer.score import PriceTable
from streamer.settings import Settings
from tests.support.cli import streamer
from tests.support.events import Event, a_deletion, a_plan, a_retraction, a_trial
from tests.support.layers import ENGINES
from tests.support.online import PARTITIONS, Online, bootstrap_of, online
from tests.support.worker_process import wait_for

WAIT_SECONDS = 30.0


@pytest.fixture(params=ENGINES, scope="module")
def engine(request: pytest.FixtureRequest) -> tuple[str, str]:
    return request.param, bootstrap_of(request, request.param)


@pytest.fixture(scope="module")
def stack(engine: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Online]:
    with online(tmp_path_factory.mktemp("verify"), engine[1], engine[0], worker=True) as found:
        yield found


@pytest.fixture
def idle(engine: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Online]:
    """A deployment whose worker is not running yet."""
    with online(tmp_path_factory.mktemp("idle"), engine[1], engine[0], worker=False) as found:
        yield found


def a_run(run_id: str) -> list[Event]:
    """Some of everything that can happen to a run."""
    trials = [
        a_trial(run_id=run_id, task_id=f"t{n % 4}", tier=f"T{n % 2}", attempt=n // 8 + 1, agent=agent)
        | {"resolved": n % 3 > 0, "score": n / 23, "revision": 1, "input_tokens": 10 * n, "output_tokens": n}
        for n in range(24)
        for agent in ("terminus", "nop")
    ]
    plan = a_plan(run_id=run_id, tasks=4, attempts=3, tiers=["T0", "T1"], benchmark="b")
    correction = trials[3] | {"resolved": True, "revision": 2}
    retraction = a_retraction(run_id=run_id, task_id="t1", tier="T1", revision=5)
    return [*trials, plan, correction, retraction]


def publish(settings: Settings, events: list[Event]) -> None:
    with ThreadedPublisher(settings) as publisher:
        for event in events:
            publisher.send(outgoing(event))


def verdict_of(settings: Settings, run_id: str, wait_seconds: float = WAIT_SECONDS) -> Verdict:
    verification = Verification(settings, prices=PriceTable.default(), wait_seconds=wait_seconds)
    [verdict] = verification.verify(run_id)
    return verdict


def client(stack: Online) -> redis.Redis:
    return redis.Redis.from_url(stack.redis.url, decode_responses=True)


def test_shuffled_and_repeated_events_verify_as_equal(stack: Online) -> None:
    events = a_run("shuffled") * 2
    Random(1).shuffle(events)
    publish(stack.settings, events)
    verdict = verdict_of(stack.settings, "shuffled")
    assert (verdict.outcome, verdict.differences) == ("equal", ())
    assert verdict.summaries == 2 + 2 + 2 * 2 + 1  # agents, tiers, agents within tiers, run


async def scatter(settings: Settings, events: list[Event]) -> None:
    topic = Names(settings.namespace).trial_events
    async with AIOKafkaProducer(**settings.kafka_options()) as producer:
        for number, event in enumerate(events):
            await producer.send_and_wait(topic, json.dumps(event).encode(), partition=number % PARTITIONS)


def test_events_in_wrong_partitions_are_folded_too(stack: Online) -> None:
    asyncio.run(scatter(stack.settings, a_run("scattered")[::4]))
    assert verdict_of(stack.settings, "scattered").outcome == "equal"


def test_each_difference_is_named(stack: Online) -> None:
    publish(stack.settings, a_run("changed"))
    assert verdict_of(stack.settings, "changed").outcome == "equal"
    keys = Keys(stack.settings.namespace)
    with client(stack) as store:
        agent, tier, extra = (
            keys.of_run("changed", s) for s in ("agent_model:nop:gpt-5", "tier:T0", "tier:T9")
        )
        tampered = json.loads(str(store.get(agent))) | {"trials": 1_000}
        store.set(agent, json.dumps(tampered))
        store.set(extra, str(store.get(tier)))
        store.hset(keys.versions("changed"), "tier:T9", "1:0")
        store.delete(tier)
        store.set(keys.run("changed"), "garbage")
    verdict = verdict_of(stack.settings, "changed")
    found = {difference.key: difference for difference in verdict.differences}
    assert verdict.outcome == "differs"
    assert sorted(found) == ["agent_model:nop:gpt-5", "run", "tier:T0", "tier:T9"]
    assert found["agent_model:nop:gpt-5"].fields == ("digest", "trials")
    assert (found["run"].found, found["tier:T0"].found, found["tier:T9"].log) == ("unreadable", None, None)


def test_trials_in_flight_that_differ_are_named(stack: Online) -> None:
    start = {"type": "trial_started", "run_id": "flying", "task_id": "slow", "agent": "a", "model": "m"}
    publish(stack.settings, [*a_run("flying"), start])
    assert verdict_of(stack.settings, "flying").outcome == "equal"
    with client(stack) as store:
        store.hset(Keys(stack.settings.namespace).in_flight("flying"), "|stale|1|a|m||", "{}")
    [found] = verdict_of(stack.settings, "flying").differences
    assert (found.key, found.fields) == ("in_flight", ("|stale|1|a|m||",))
    assert None not in (found.log, found.found)


def test_a_deleted_run_is_equal_when_nothing_of_it_is_left(stack: Online) -> None:
    publish(stack.settings, [*a_run("deleted"), a_deletion(run_id="deleted", revision=99)])
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


def test_an_emptied_redis_cannot_be_verified(idle: Online) -> None:
    idle.worker.start()
    publish(idle.settings, a_run("one"))
    assert verdict_of(idle.settings, "one").outcome == "equal"
    assert idle.worker.stop() == 0
    idle.redis.flush()
    verdict = verdict_of(idle.settings, "one", wait_seconds=0.3)
    assert (verdict.outcome, "no runs at all" in (verdict.reason or "")) == ("unverifiable", True)


def test_a_broker_that_is_away_is_an_error(stack: Online) -> None:
    settings = stack.settings.model_copy(update={"bootstrap": f"127.0.0.1:{free_port()}"})
    with pytest.raises(KafkaConnectionError):
        verdict_of(settings, "any")


async def truncate(settings: Settings) -> None:
    topic = Names(settings.namespace).trial_events
    admin = AIOKafkaAdminClient(**settings.kafka_options())
    await admin.start()
    try:
        await admin.delete_records(
            {TopicPartition(topic, n): RecordsToDelete(before_offset=1) for n in range(PARTITIONS)}
        )
    finally:
        await admin.close()


@pytest.mark.kafka
def test_a_truncated_log_cannot_be_verified(
    kafka_bootstrap: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with online(tmp_path_factory.mktemp("cut"), kafka_bootstrap, "kafka", worker=True) as cut:
        asyncio.run(scatter(cut.settings, a_run("one")))
        assert verdict_of(cut.settings, "one").outcome == "equal"
        asyncio.run(truncate(cut.settings))
        verdict = verdict_of(cut.settings, "one")
    assert (verdict.outcome, "truncated" in (verdict.reason or "")) == ("unverifiable", True)


def test_lag_counts_what_lies_after_the_committed_offsets(idle: Online) -> None:
    def lag() -> list[int]:
        return [partition.lag for partition in asyncio.run(read_lags(idle.settings))]

    assert lag() == [0] * PARTITIONS
    asyncio.run(scatter(idle.settings, [a_trial(run_id="r", task_id=f"t{n}") for n in range(6)]))
    assert lag() == [2] * PARTITIONS
    idle.worker.start()
    wait_for(lambda: lag() == [0] * PARTITIONS, "everything is committed", 20)


def topics_verdict(settings: Settings, run_id: str) -> Verdict:
    prices = PriceTable.default()
    verification = Verification(settings, prices=prices, wait_seconds=WAIT_SECONDS, topics=True)
    [verdict] = verification.verify(run_id)
    return verdict


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


ANOTHER_VERSION = (
    f"published by semantics_version 1, compared by {SEMANTICS_VERSION}; "
    "the workers publish it again once they are upgraded"
)


async def write(settings: Settings, topic: str, partition: int, key: bytes, value: bytes) -> None:
    """One record, by somebody else."""
    async with AIOKafkaProducer(**settings.kafka_options()) as producer:
        await producer.send_and_wait(topic, value, key=key, partition=partition)


def test_a_summary_of_another_semantics_version_is_said_to_be_one(idle: Online) -> None:
    idle.worker.start()
    publish(idle.settings, a_run("upgraded"))
    assert topics_verdict(idle.settings, "upgraded").outcome == "equal"
    assert idle.worker.stop() == 0
    names = Names(idle.settings.namespace)
    key = Keys(idle.settings.namespace).run("upgraded")
    with client(idle) as store:
        earlier = of_version_1(str(store.get(key)))
        store.set(key, earlier)
    partition = partition_of("upgraded", PARTITIONS)
    asyncio.run(write(idle.settings, names.run_summaries, partition, b"upgraded", earlier.encode()))
    verdict = topics_verdict(idle.settings, "upgraded")
    assert (verdict.outcome, verdict.semantics_version) == ("differs", SEMANTICS_VERSION)
    assert [(d.topic, d.reason) for d in verdict.differences] == [
        (None, ANOTHER_VERSION),
        ("run-summaries", ANOTHER_VERSION),
    ]
    told = streamer("verify", "upgraded", "--wait", "1", environment=idle.environment)
    lines = told.stdout.decode().splitlines()
    assert lines[0] == f"Compared by semantics_version {SEMANTICS_VERSION}."
    assert f"upgraded: {ANOTHER_VERSION}" in lines
    as_json = streamer("verify", "upgraded", "--json", "--wait", "1", environment=idle.environment)
    said = json.loads(as_json.stdout)
    assert said["semantics_version"] == SEMANTICS_VERSION
    assert [difference["reason"] for difference in said["differences"]] == [ANOTHER_VERSION]


async def withdraw_scored(settings: Settings, run_id: str) -> int:
    """Tombstones for the scored trials of a run, by somebody else; how many."""
    topic = Names(settings.namespace).scored_trials
    records = [record async for batch in read_batches(settings, topic) for record in batch]
    keys = {(r.partition, r.key) for r in records if r.key.startswith(run_id.encode()) and r.value}
    async with AIOKafkaProducer(**settings.kafka_options()) as producer:
        for partition, key in keys:
            await producer.send_and_wait(topic, None, key=key, partition=partition)
    return len(keys)


def test_scored_trials_that_are_gone_are_a_difference_that_topics_tells(stack: Online) -> None:
    publish(stack.settings, a_run("withdrawn"))
    assert topics_verdict(stack.settings, "withdrawn").outcome == "equal"
    asyncio.run(withdraw_scored(stack.settings, "withdrawn"))
    verdict = topics_verdict(stack.settings, "withdrawn")
    assert verdict.outcome == "differs"
    assert {d.topic for d in verdict.differences} == {"scored-trials"}
    assert len(verdict.differences) == 11
    assert verdict.differences[-1].key.startswith("and ")
