"""Verifying: equal means equal, a difference is named, and what cannot be known is not guessed."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from random import Random
from types import SimpleNamespace

import orjson
import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.errors import KafkaConnectionError

from streamer.folding.score.prices import PriceTable
from streamer.operate.local.processes import free_port
from streamer.operate.verify import Verdict, Verification
from streamer.settings import Settings
from streamer.storage.entries import Keys
from streamer.storage.kafka import Names, partition_of
from tests.ops.verifying import a_run, client, publish, scatter, verdict_of
from tests.support.events import a_deletion, a_trial
from tests.support.online import PARTITIONS, Online, online


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
    publish(stack.settings, [start | {"task_id": "slower"}])
    assert verdict_of(stack.settings, "flying").outcome == "equal", "though it is published a second later"
    with client(stack) as store:
        store.hset(Keys(stack.settings.namespace).in_flight("flying"), "|stale|1|a|m||", "{}")
    [found] = verdict_of(stack.settings, "flying").differences
    assert (found.key, found.fields) == ("in_flight", ("|stale|1|a|m||",))
    assert None not in (found.log, found.found)


def test_a_comparison_and_tasks_that_differ_are_named(stack: Online) -> None:
    results = [a_trial(run_id="compared", agent=agent, task_id=f"t{n}") for agent in "ab" for n in range(3)]
    publish(stack.settings, results)
    assert verdict_of(stack.settings, "compared").outcome == "equal"
    publish(stack.settings, [a_trial(run_id="compared", agent="b", task_id="t3")])
    assert verdict_of(stack.settings, "compared").outcome == "equal", "though it is published a second later"
    keys = Keys(stack.settings.namespace)
    with client(stack) as store:
        tampered = json.loads(str(store.get(keys.comparisons("compared")))) | {"agents_total": 9}
        store.set(keys.comparisons("compared"), json.dumps(tampered))
        store.hset(keys.tasks("compared"), "t1", '{"a:m":[1,1,0]}')
    found = {
        difference.key: difference.fields for difference in verdict_of(stack.settings, "compared").differences
    }
    assert found == {"comparisons": ("agents_total", "digest"), "tasks": ("t1",)}


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


def test_a_difference_does_not_count_before_the_owner_has_published_everything(idle: Online) -> None:
    idle.worker.start()
    publish(idle.settings, a_run("one"))
    assert verdict_of(idle.settings, "one").outcome == "equal"
    assert idle.worker.stop() == 0
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
    idle.worker.start()
    publish(idle.settings, a_run("one"))
    assert verdict_of(idle.settings, "one").outcome == "equal"
    assert idle.worker.stop() == 0
    keys, number = Keys(idle.settings.namespace), partition_of("one", PARTITIONS)
    with client(idle) as store:
        published = str(store.get(keys.run("one")))
        store.set(keys.run("one"), "{}")
        others = {*range(PARTITIONS)} - {number}
        store.hset(keys.workers, "first", heartbeat(*others, published_to=0))

        def the_owner_comes(seconds: float) -> None:
            store.set(keys.run("one"), published)
            store.hset(keys.workers, "second", heartbeat(number, published_to=len(a_run("one"))))

        clock = SimpleNamespace(monotonic=lambda: 0.0, sleep=the_owner_comes)
        monkeypatch.setattr("streamer.operate.verify.time", clock)
        assert verdict_of(idle.settings, "one").outcome == "equal"


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


def heartbeat(*partitions: int, published_to: int) -> bytes:
    """Of a worker that owns these partitions and has published each so far."""
    reached = dict.fromkeys(map(str, partitions), published_to)
    return orjson.dumps({"at": datetime.now(UTC), "partitions": partitions, "published_to": reached})


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
