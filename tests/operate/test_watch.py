"""`streamer notify` against a real service: once each, over restarts, and nothing that acts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
from aiokafka import AIOKafkaProducer

from streamer.schemas.base import SEMANTICS_VERSION, digest_of
from streamer.settings import Settings
from streamer.storage.entries import Keys
from streamer.storage.kafka import Names, partition_of
from streamer.storage.log import read_batches
from tests.operate.receiving import SECRET, Receiver, followed
from tests.operate.verifying import a_run, client, left_by_a_worker, publish, topics_verdict, verdict_of
from tests.support.cli import staying, streamer
from tests.support.events import a_deletion, a_plan, a_trial
from tests.support.online import PARTITIONS, Online
from tests.support.worker_process import wait_for
from tests.views.test_ledger import BASE, day, entered
from tests.web.feeding import Feed


class Watch:
    """`streamer notify`, one process after the other, and the one service that they tell."""

    def __init__(self, settings: Settings, environment: dict[str, str], log: Path, service: Receiver) -> None:
        self.settings, self.log, self.service = settings, log, service
        self._environment = environment | {"STREAMER_NOTIFY": service.url}

    @asynccontextmanager
    async def telling(self, *arguments: str, expect_quiet: bool = True) -> AsyncIterator[None]:
        """A process that follows the updates; at the end it says nothing of a secret."""
        with staying(self.log, "notify", *arguments, environment=self._environment):
            await self.until(lambda: followed(self.settings), "somebody follows the updates")
            yield
        said = self.log.read_text()
        assert said.startswith("telling ")
        assert SECRET not in said
        assert not expect_quiet or len(said.splitlines()) == 1, said

    async def until(self, *condition: Any) -> None:
        await asyncio.to_thread(wait_for, *condition)

    async def expect(self, *titles: str) -> None:
        """Wait until exactly these titles were taken, from the first process on."""
        await asyncio.to_thread(self.service.expect, *titles)


@pytest.fixture
def watch(settings: Settings, environment: dict[str, str], tmp_path: Path) -> Iterator[Watch]:
    with Receiver() as service:
        yield Watch(settings, environment, tmp_path / "log", service)


def finished(run: str = "run-1") -> dict[str, Any]:
    return {"type": "run_finished", "run_id": run, "status": "completed"}


async def test_a_run_is_told_from_start_to_end_once_and_a_restart_tells_nothing_again(
    feed: Feed, watch: Watch
) -> None:
    arguments = ("--all", "--budget", "2")
    told = ["Nightly (run-1) started"]
    async with watch.telling(*arguments):
        await feed.take([a_plan(tasks=6, display_name="Nightly"), a_trial(resolved=False, cost_usd=1.5)])
        await watch.expect(*told)
        for number in range(2, 4):
            await feed.take([a_trial(task_id=f"task-{number}", cost_usd=0.4)])
        told.append("Nightly (run-1) terminus:gpt-5: grade F → D")
        told.append("Nightly (run-1) is over its budget of $2.0000")
        await watch.expect(*told)
    await feed.take([finished()])
    async with watch.telling(*arguments):
        told.append("Nightly (run-1) finished (completed)")
        await watch.expect(*told)
        body = watch.service.taken[-1][1]
        assert "2 of 3 trials resolved" in body
        assert "terminus:gpt-5: grade D" in body
    async with watch.telling(*arguments):
        await feed.take([a_plan(run_id="other"), finished("other")])
        await watch.expect(*told, "other started", "other finished (completed)")


async def test_named_runs_alone_have_notices_and_none_of_what_was_over_before_the_first_watch(
    feed: Feed, watch: Watch
) -> None:
    await feed.take([a_trial(run_id="old"), finished("old"), a_trial(run_id="running", cost_usd=9.0)])
    async with watch.telling("old", "running", "wanted", "last", "--budget", "5"):
        over = "running is over its budget of $5.0000"
        await watch.expect(over)
        for run in ("other", "wanted", "third", "last"):
            await feed.take([a_trial(run_id=run)])
        await feed.take([finished("running")])
        await watch.expect(over, "wanted started", "last started", "running finished (completed)")


async def test_a_deleted_run_is_forgotten_and_may_begin_again(feed: Feed, watch: Watch) -> None:
    async with watch.telling("--all"):
        await feed.take([a_trial()])
        await watch.expect("run-1 started")
        await feed.take([a_deletion(revision=5)])
        with redis.Redis.from_url(watch.settings.redis) as client:
            assert not client.exists(Keys(watch.settings.namespace).notices("run-1"))
        await feed.take([a_trial(revision=6)])
        await watch.expect("run-1 started", "run-1 started")


async def test_what_hard_bounds_settle_is_told_once_over_a_restart(feed: Feed, watch: Watch) -> None:
    def results(agent: str, *outcomes: bool) -> list[dict[str, Any]]:
        return [a_trial(agent=agent, task_id=f"t{n}", resolved=ok) for n, ok in enumerate(outcomes)]

    arguments = ("--all", "--target", "0.7")
    told = [
        "run-1 started",
        "run-1 ahead:gpt-5: can no longer be overtaken",
        "run-1 ahead:gpt-5: target of 70.00 % reached",
        "run-1 behind:gpt-5: target of 70.00 % out of reach",
    ]
    async with watch.telling(*arguments):
        await feed.take([a_plan(tasks=4, attempts=1), *results("ahead", True, True, True)])
        await feed.take(results("behind", False, False))
        await watch.expect(*told)
    async with watch.telling(*arguments):
        await feed.take([*results("behind", False, False, False), finished()])
        await watch.expect(*told, "run-1 finished (completed)")


async def test_ledgers_and_estimates_are_told_beside_the_runs(feed: Feed, watch: Watch) -> None:
    """`c` passes 14 of 20 tasks, its baseline 4. Of `two` one agent passes 6 of 10 tasks, the other none."""
    tasks = [f"t{number:02}" for number in range(40)]
    pair = a_plan(run_id="two", tasks=tasks, attempts=1, order=tasks, order_kind="shuffled")
    pair |= {"agent_models": ["a:m", "b:m"]}
    of_two = [
        a_trial(run_id="two", agent=agent, model="m", task_id=task, resolved=agent == "a" and at < 6)
        for at, task in enumerate(tasks[:10])
        for agent in "ab"
    ]
    async with watch.telling("--all"):
        await feed.take([*BASE, *entered("c", 4, range(14)), pair, *of_two])
        told = [
            *("base started", "c started", "two started"),
            "c b:m: better than base, in ledger nightly",
            "two estimate: it will tell its top two agents apart",
        ]
        await watch.expect(*told)
    async with watch.telling("--all"):
        older = entered("b", 2, range(14)) + entered("a", 1, range(14), planned_at=day(1, 1))
        await feed.take([*older, finished("two")])
        told += [
            *("a started", "b started", "two finished (completed)"),
            *(f"{one} b:m: better than base, in ledger nightly" for one in "ab"),
        ]
        await watch.until(lambda: set(told) <= set(watch.service.titles), "all notices")
    titles = watch.service.titles
    assert len(titles) == len(set(titles))


async def test_silence_is_told(feed: Feed, watch: Watch) -> None:
    async with watch.telling("--all", "--stalled-after", "0.02"):
        await feed.take([a_plan(tasks=2), a_trial()])
        await watch.until(lambda: len(watch.service.titles) >= 2, "start and silence")
        started, stalled = watch.service.titles
        assert started == "run-1 started"
        assert stalled.startswith("run-1 is unfinished: no result for ")


async def test_too_many_rejections_are_told_once(feed: Feed, watch: Watch) -> None:
    topic = Names(watch.settings.namespace).trial_rejections
    rejection = json.dumps({"type": "rejection", "code": "not_json", "run_id": None}).encode()
    async with AIOKafkaProducer(**watch.settings.kafka_options()) as producer:
        await producer.send_and_wait(topic, rejection)  # makes the topic
        async with watch.telling("--all", "--rejection-rate", "3", expect_quiet=False):
            while not watch.service.titles:  # until they are followed nobody sees them
                await producer.send_and_wait(topic, rejection)
            for _ in range(20):
                await producer.send_and_wait(topic, rejection)
            await feed.take([a_trial()])
            await watch.expect("more than 3 records rejected within a minute", "run-1 started")


@pytest.mark.slow
@pytest.mark.in_turn(2)
async def test_a_service_that_is_down_is_said_once_and_the_other_hears_everything(
    feed: Feed, watch: Watch
) -> None:
    given = ("--all", "--notify", f"json://127.0.0.1:1/{SECRET}", "--notify", watch.service.url)
    async with watch.telling(*given, expect_quiet=False):
        runs = [f"run-{number}" for number in range(5)]
        await feed.take([a_trial(run_id=run) for run in runs])
        await watch.expect(*(f"{run} started" for run in runs))
        word = b"notification service 1 (JSON) does not accept"
        await watch.until(lambda: word in watch.log.read_bytes(), "that it is said", 120)
    assert watch.log.read_text().count("notification service 1") == 1


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


ANOTHER_VERSION = (
    f"published with semantics_version 1, compared with {SEMANTICS_VERSION}; upgraded workers publish it "
    "again"
)


async def write(settings: Settings, topic: str, partition: int, key: bytes, value: bytes) -> None:
    """One record, by somebody else."""
    async with AIOKafkaProducer(**settings.kafka_options()) as producer:
        await producer.send_and_wait(topic, value, key=key, partition=partition)


def test_a_summary_of_another_semantics_version_is_said_to_be_one(idle: Online) -> None:
    left_by_a_worker(idle, "upgraded")
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
    command = ("verify", "upgraded", "--wait", "1")
    lines = streamer(*command, environment=idle.environment).stdout.decode().splitlines()
    assert lines[0] == f"Compared by semantics_version {SEMANTICS_VERSION}."
    assert f"upgraded: {ANOTHER_VERSION}" in lines
    said = json.loads(streamer(*command, "--json", environment=idle.environment).stdout)
    assert said["semantics_version"] == SEMANTICS_VERSION
    assert [difference["reason"] for difference in said["differences"]] == [ANOTHER_VERSION]


async def withdraw_scored(settings: Settings, run_id: str) -> None:
    """Tombstones for the scored trials of a run, by somebody else."""
    topic = Names(settings.namespace).scored_trials
    records = [record async for batch in read_batches(settings, topic) for record in batch]
    keys = {(r.partition, r.key) for r in records if r.key.startswith(run_id.encode()) and r.value}
    async with AIOKafkaProducer(**settings.kafka_options()) as producer:
        for partition, key in keys:
            await producer.send_and_wait(topic, None, key=key, partition=partition)


def test_scored_trials_that_are_gone_are_a_difference_that_topics_tells(idle: Online) -> None:
    left_by_a_worker(idle, "withdrawn")  # one that runs publishes them again
    asyncio.run(withdraw_scored(idle.settings, "withdrawn"))
    verdict = topics_verdict(idle.settings, "withdrawn")
    assert verdict.outcome == "differs"
    assert {d.topic for d in verdict.differences} == {"scored-trials"}
    assert len(verdict.differences) == 11
    assert verdict.differences[-1].key.startswith("and ")
