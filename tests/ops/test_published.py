"""Topics and Redis hold the same bytes, and verifying with the topics names what differs."""

from __future__ import annotations

import asyncio
import json

from aiokafka import AIOKafkaProducer

from streamer.schemas.base import SEMANTICS_VERSION
from streamer.schemas.wire import digest_of
from streamer.settings import Settings
from streamer.storage.entries import Keys
from streamer.storage.kafka import Names, partition_of
from streamer.storage.log import read_batches
from tests.ops.verifying import a_run, client, publish, topics_verdict, verdict_of
from tests.support.cli import streamer
from tests.support.online import PARTITIONS, Online
from tests.support.worker_process import wait_for


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
