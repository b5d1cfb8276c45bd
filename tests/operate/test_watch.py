"""`streamer notify` against a real service: once each, over restarts, and nothing that acts."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
from aiokafka import AIOKafkaProducer

from streamer.schemas.base import SEMANTICS_VERSION
from streamer.schemas.wire import digest_of
from streamer.settings import Settings
from streamer.storage.entries import Keys
from streamer.storage.kafka import Names, partition_of
from streamer.storage.log import read_batches
from tests.operate.receiving import SECRET, Receiver, followed
from tests.operate.verifying import a_run, client, publish, topics_verdict, verdict_of
from tests.support.cli import COMMAND, streamer
from tests.support.events import a_deletion, a_plan, a_trial
from tests.support.online import PARTITIONS, Online
from tests.support.worker_process import wait_for
from tests.views.test_ledger import BASE, day, entered
from tests.web.feeding import Feed
from tests.web.report.reporting import HOSTILE

STOP_SECONDS = 60


@contextmanager
def notifying(
    environment: dict[str, str], log: Path, *arguments: str, expect_quiet: bool = True
) -> Iterator[subprocess.Popen[bytes]]:
    """`streamer notify` as a process, once it follows; at the end it says nothing of a secret."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("STREAMER_")}
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*COMMAND, "notify", *arguments], env=clean | environment, stdout=out, stderr=out
        )
    try:
        wait_for(lambda: b"telling" in log.read_bytes() or process.poll() is not None, "the watch begins")
        yield process
        process.send_signal(signal.SIGINT)
        assert process.wait(STOP_SECONDS) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()
    said = log.read_text()
    assert said.startswith("telling ")
    assert SECRET not in said
    assert not expect_quiet or len(said.splitlines()) == 1, said


async def until_followed(settings: Settings) -> None:
    await asyncio.to_thread(wait_for, lambda: followed(settings), "somebody follows the updates")


def finished(run: str = "run-1") -> dict[str, Any]:
    return {"type": "run_finished", "run_id": run, "status": "completed"}


async def test_a_run_is_told_from_start_to_end_once_and_a_restart_tells_nothing_again(
    feed: Feed, settings: Settings, environment: dict[str, str], tmp_path: Path
) -> None:
    with Receiver() as receiver:
        environment |= {"STREAMER_NOTIFY": receiver.url}
        arguments = ("--all", "--budget", "2")
        with notifying(environment, tmp_path / "first.log", *arguments):
            await until_followed(settings)
            await feed.take([a_plan(tasks=6, display_name="Nightly"), a_trial(resolved=False, cost_usd=1.5)])
            await asyncio.to_thread(receiver.expect, "Nightly (run-1) started")
            for number in range(2, 4):
                await feed.take([a_trial(task_id=f"task-{number}", cost_usd=0.4)])
            grade = "Nightly (run-1) terminus:gpt-5: grade F → D"
            budget = "Nightly (run-1) is over its budget of $2.0000"
            await asyncio.to_thread(receiver.expect, "Nightly (run-1) started", grade, budget)
        told = receiver.titles
        await feed.take([finished()])
        with notifying(environment, tmp_path / "second.log", *arguments):
            await asyncio.to_thread(receiver.expect, *told, "Nightly (run-1) finished (completed)")
            body = receiver.taken[-1][1]
            assert "2 of 3 trials resolved" in body
            assert "terminus:gpt-5: grade D" in body
        with notifying(environment, tmp_path / "third.log", *arguments):
            await until_followed(settings)
            await feed.take([a_plan(run_id="other"), finished("other")])
            ends = ("Nightly (run-1) finished (completed)", "other finished (completed)")
            await asyncio.to_thread(receiver.expect, *told, "other started", *ends)


async def test_only_the_runs_that_were_named_are_told(
    feed: Feed, settings: Settings, environment: dict[str, str], tmp_path: Path
) -> None:
    with (
        Receiver() as receiver,
        notifying(environment, tmp_path / "log", "wanted", "last", "--notify", receiver.url),
    ):
        await until_followed(settings)
        for run in ("other", "wanted", "third", "last"):
            await feed.take([a_trial(run_id=run)])
        await asyncio.to_thread(receiver.expect, "wanted started", "last started")


async def test_runs_that_were_finished_before_the_first_watch_are_not_told(
    feed: Feed, settings: Settings, environment: dict[str, str], tmp_path: Path
) -> None:
    await feed.take([a_trial(run_id="old"), finished("old"), a_trial(run_id="running", cost_usd=9.0)])
    with Receiver() as receiver:
        given = ("--all", "--budget", "5", "--notify", receiver.url)
        with notifying(environment, tmp_path / "log", *given):
            await asyncio.to_thread(receiver.expect, "running is over its budget of $5.0000")
            await feed.take([finished("running")])
            await asyncio.to_thread(
                receiver.expect, "running is over its budget of $5.0000", "running finished (completed)"
            )


async def test_a_deleted_run_is_forgotten_and_may_begin_again(
    feed: Feed, settings: Settings, environment: dict[str, str], tmp_path: Path
) -> None:
    with Receiver() as receiver, notifying(environment, tmp_path / "log", "--all", "--notify", receiver.url):
        await until_followed(settings)
        await feed.take([a_trial()])
        await asyncio.to_thread(receiver.expect, "run-1 started")
        await feed.take([a_deletion(revision=5)])
        with redis.Redis.from_url(settings.redis) as client:
            assert not client.exists(Keys(settings.namespace).notices("run-1"))
        await feed.take([a_trial(revision=6)])
        await asyncio.to_thread(receiver.expect, "run-1 started", "run-1 started")


async def test_what_hard_bounds_settle_is_told_once_over_a_restart(
    feed: Feed, settings: Settings, environment: dict[str, str], tmp_path: Path
) -> None:
    def results(agent: str, *outcomes: bool) -> list[dict[str, Any]]:
        return [a_trial(agent=agent, task_id=f"t{n}", resolved=ok) for n, ok in enumerate(outcomes)]

    arguments = ("--all", "--target", "0.7")
    told = [
        "run-1 started",
        "run-1 ahead:gpt-5: can no longer be overtaken",
        "run-1 ahead:gpt-5: target of 70.00 % reached",
        "run-1 behind:gpt-5: target of 70.00 % out of reach",
    ]
    with Receiver() as receiver:
        environment |= {"STREAMER_NOTIFY": receiver.url}
        with notifying(environment, tmp_path / "first.log", *arguments):
            await until_followed(settings)
            await feed.take([a_plan(tasks=4, attempts=1), *results("ahead", True, True, True)])
            await feed.take(results("behind", False, False))
            await asyncio.to_thread(wait_for, lambda: sorted(receiver.titles) == sorted(told), "all notices")
        assert all("unless results are corrected" in body for title, body in receiver.taken if ":" in title)
        with notifying(environment, tmp_path / "second.log", *arguments):
            await until_followed(settings)
            await feed.take([*results("behind", False, False, False), finished()])
            end = "run-1 finished (completed)"
            await asyncio.to_thread(wait_for, lambda: end in receiver.titles, "the end")
        assert sorted(receiver.titles) == sorted([*told, end])


async def test_ledgers_and_estimates_are_told_beside_the_runs(
    feed: Feed, settings: Settings, environment: dict[str, str], tmp_path: Path
) -> None:
    """`c` passes 14 of 20 tasks, its baseline 4. Of `two` one agent passes 6 of 10 tasks, the other none."""
    tasks = [f"t{number:02}" for number in range(40)]
    pair = a_plan(run_id="two", tasks=tasks, attempts=1, order=tasks, order_kind="shuffled")
    pair |= {"agent_models": ["a:m", "b:m"]}
    of_two = [
        a_trial(run_id="two", agent=agent, model="m", task_id=task, resolved=agent == "a" and at < 6)
        for at, task in enumerate(tasks[:10])
        for agent in "ab"
    ]
    arguments = ("--all", "--notify")
    with Receiver() as receiver:
        with notifying(environment, tmp_path / "first.log", *arguments, receiver.url):
            await until_followed(settings)
            await feed.take([*BASE, *entered("c", 4, range(14)), pair, *of_two])
            told = [
                *("base started", "c started", "two started"),
                "c b:m: better than base, in ledger nightly",
                "two estimate: it will tell its top two agents apart",
            ]
            await asyncio.to_thread(receiver.expect, *told)
        with notifying(environment, tmp_path / "second.log", *arguments, receiver.url):
            await until_followed(settings)
            older = entered("b", 2, range(14)) + entered("a", 1, range(14), planned_at=day(1, 1))
            await feed.take([*older, finished("two")])
            told += [
                *("a started", "b started", "two finished (completed)"),
                *(f"{one} b:m: better than base, in ledger nightly" for one in "ab"),
            ]
            await asyncio.to_thread(wait_for, lambda: set(told) <= set(receiver.titles), "all notices")
    assert len(receiver.titles) == len(set(receiver.titles))


async def test_silence_is_told(
    feed: Feed, settings: Settings, environment: dict[str, str], tmp_path: Path
) -> None:
    with Receiver() as receiver:
        arguments = ("--all", "--stalled-after", "0.02", "--notify", receiver.url)
        with notifying(environment, tmp_path / "log", *arguments):
            await until_followed(settings)
            await feed.take([a_plan(tasks=2), a_trial()])
            told = partial(wait_for, lambda: len(receiver.titles) >= 2, "start and silence")
            await asyncio.to_thread(told)
            started, stalled = receiver.titles
            assert started == "run-1 started"
            assert stalled.startswith("run-1 is unfinished: no result for ")


async def test_too_many_rejections_are_told_once(
    feed: Feed, settings: Settings, environment: dict[str, str], tmp_path: Path
) -> None:
    topic = Names(settings.namespace).trial_rejections
    producer = AIOKafkaProducer(**settings.kafka_options())
    await producer.start()
    rejection = json.dumps({"type": "rejection", "code": "not_json", "run_id": None}).encode()
    try:
        await producer.send_and_wait(topic, rejection)  # makes the topic
        with Receiver() as receiver:
            arguments = ("--all", "--rejection-rate", "3", "--notify", receiver.url)
            with notifying(environment, tmp_path / "log", *arguments, expect_quiet=False):
                while not receiver.titles:  # until they are followed nobody sees them
                    await producer.send_and_wait(topic, rejection)
                for _ in range(20):
                    await producer.send_and_wait(topic, rejection)
                await until_followed(settings)
                await feed.take([a_trial()])
                title = "more than 3 records rejected within a minute"
                await asyncio.to_thread(receiver.expect, title, "run-1 started")
    finally:
        await producer.stop()


@pytest.mark.slow
async def test_a_service_that_is_down_is_said_once_and_the_other_hears_everything(
    feed: Feed, settings: Settings, environment: dict[str, str], tmp_path: Path
) -> None:
    with Receiver() as receiver:
        dead = f"json://127.0.0.1:1/{SECRET}"
        given = ("--all", "--notify", dead, "--notify", receiver.url)
        log = tmp_path / "log"
        with notifying(environment, log, *given, expect_quiet=False):
            await until_followed(settings)
            runs = [f"run-{number}" for number in range(5)]
            await feed.take([a_trial(run_id=run) for run in runs])
            await asyncio.to_thread(receiver.expect, *(f"{run} started" for run in runs))
            word = b"notification service 1 (JSON) does not accept"
            said = partial(wait_for, lambda: word in log.read_bytes(), "that it is said", 120)
            await asyncio.to_thread(said)
    assert log.read_text().count("notification service 1") == 1


async def test_hostile_names_reach_no_service_as_they_are(
    feed: Feed, settings: Settings, environment: dict[str, str], tmp_path: Path
) -> None:
    with Receiver() as receiver, notifying(environment, tmp_path / "log", "--all", "--notify", receiver.url):
        await until_followed(settings)
        for number, name in enumerate(HOSTILE):
            run = f"{name} {number}"
            await feed.take(
                [a_plan(run_id=run, display_name=name), a_trial(run_id=run, agent=name), finished(run)]
            )
        await asyncio.to_thread(wait_for, lambda: len(receiver.taken) == 2 * len(HOSTILE), "all notices")
    for title, body in receiver.taken:
        assert not set(title + body) & set("<>@`*[]\u202e")
        assert "://" not in title + body


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


def test_scored_trials_that_are_gone_are_a_difference_that_topics_tells(idle: Online) -> None:
    idle.worker.start()
    publish(idle.settings, a_run("withdrawn"))
    assert topics_verdict(idle.settings, "withdrawn").outcome == "equal"
    assert idle.worker.stop() == 0  # a worker that runs publishes them again
    asyncio.run(withdraw_scored(idle.settings, "withdrawn"))
    verdict = topics_verdict(idle.settings, "withdrawn")
    assert verdict.outcome == "differs"
    assert {d.topic for d in verdict.differences} == {"scored-trials"}
    assert len(verdict.differences) == 11
    assert verdict.differences[-1].key.startswith("and ")
