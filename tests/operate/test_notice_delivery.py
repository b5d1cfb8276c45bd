"""Notices on their way: services that take, refuse and hang, and `streamer notify` over restarts."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from aiokafka import AIOKafkaProducer

from streamer.folding.fold import CannotBeFolded
from streamer.operate import notice_delivery
from streamer.operate.local.processes import free_port
from streamer.operate.notice_delivery import BadNotifyUrl, NotifyMissing, Service, Watch, watch_name
from streamer.operate.notice_rules import Memory, Notification, Rules
from streamer.schemas.wire import Failure
from streamer.settings import Settings
from streamer.storage.entries import Keys
from streamer.storage.kafka import Names
from tests.operate.receiving import SECRET, Receiver, followed
from tests.support.cli import staying
from tests.support.events import Event, a_deletion, a_plan, a_trial, an_end
from tests.support.worker_process import wait_for
from tests.views.test_ledger import BASE, day, entered
from tests.web.feeding import Feed


def test_a_ledger_that_cannot_be_folded_keeps_no_other_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_runs() -> list[object]:
        return []

    said, judged, ended = list[str](), list[str](), asyncio.Event()

    async def judge(name: str, _: set[str]) -> None:
        if name == "a":
            raise CannotBeFolded(Failure("r", "ZeroDivisionError"))
        judged.append(name)
        watching._moved.add("r")
        if len(judged) == 2:
            ended.set()

    async def look() -> None:
        looking = asyncio.create_task(watching._look_ahead())
        await asyncio.wait_for(ended.wait(), 10)
        looking.cancel()

    monkeypatch.setattr(notice_delivery, "LOOK_SECONDS", 0)
    reader = nullcontext(SimpleNamespace(runs=no_runs))
    monkeypatch.setattr(notice_delivery, "AsyncStateReader", lambda _: reader)
    monkeypatch.setattr(notice_delivery, "runs_of", lambda *_: {"r"})
    watching = Watch(Settings(), [], Rules(), said.append)
    monkeypatch.setattr(watching, "_judge", judge)
    watching._moved, watching._ledgers = {"r"}, {"r": {"a", "b"}}
    asyncio.run(look())
    [once] = said
    assert "ledger a is not watched: run 'r' cannot be folded" in once


# -----------------------------------------------------------------------------
# Services that take, refuse, hang and do not exist; and URLs that nobody hears of.


class Sending:
    """A service, what was said of it, and which of its notices are done with."""

    def __init__(self, url: str, number: int = 1, pauses: tuple[float, ...] = (0.0, 0.0)) -> None:
        self.said, self.done = list[str](), threading.Semaphore(0)
        self.service = Service(url, number, self.said.append, pauses)

    def send(self, *numbers: int) -> None:
        for number in numbers:
            notice = Notification("r", f"key-{number}", f"title {number}", "body\nof two lines")
            self.service.send(notice, self.done.release)

    def wait(self, notices: int = 1) -> None:
        for _ in range(notices):
            assert self.done.acquire(timeout=60)

    def close(self, seconds: float = 30.0) -> None:
        self.service.close(seconds)


@contextmanager
def silence() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        yield f"json://127.0.0.1:{silent.getsockname()[1]}/{SECRET}?rto=60"


def test_a_refused_notice_is_tried_again_within_bounds_and_that_is_said_once() -> None:
    with Receiver() as receiver:
        sending = Sending(receiver.url, 2)
        for number, refusals, posts in ((0, 2, 3), (1, 6, 6), (2, 3, 9)):
            receiver.refusals = refusals
            sending.send(number)
            sending.wait()
            assert (receiver.posts, len(sending.said)) == (posts, int(number > 0))
        assert "notification service 2 (JSON) does not accept notices" in sending.said[0]
        sending.send(3)
        sending.close()
        assert sending.said[1:] == ["notification service 2 (JSON) gets notices again"]
        assert receiver.taken == [(f"title {number}", "body\nof two lines") for number in (0, 3)]


def test_a_service_that_hangs_holds_up_neither_the_caller_nor_another_service() -> None:
    with silence() as url, Receiver() as receiver:
        hanging, quick = Sending(url), Sending(receiver.url, 2)
        for number in range(3):
            hanging.send(number)
            quick.send(number)
        wait_for(lambda: len(receiver.titles) == 3, "the other service has everything")
        hanging.close(0)
        quick.close()


def test_more_than_can_wait_is_given_up_and_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamer.operate.notice_delivery.MAX_WAITING", 2)
    with silence() as url:
        sending = Sending(url)
        sending.send(*range(10))
        sending.wait(7)  # one is being sent, two wait
        sending.close(0)
    assert len(sending.said) == 1


def test_what_is_on_its_way_when_the_watch_ends_stays_undone_if_it_fails() -> None:
    with Receiver() as receiver:
        receiver.refusals = 100
        sending = Sending(receiver.url, pauses=(3600.0,))
        sending.send(0)
        wait_for(lambda: receiver.posts == 1, "the first attempt")
        sending.close()
    assert not sending.done.acquire(blocking=False)


@pytest.mark.parametrize("url", [f"nosuch://{SECRET}", SECRET, "", f"json://[{SECRET}"])
def test_a_url_that_no_service_has_is_refused_without_being_said(
    url: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(BadNotifyUrl) as caught:
        Service(url, 3, print)
    assert "notification URL 3" in str(caught.value)
    assert SECRET not in f"{caught.value}{caplog.text}{''.join(capfd.readouterr())}"


def test_no_failure_says_the_url(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    with caplog.at_level(logging.INFO):
        sending = Sending(f"json://user:{SECRET}@127.0.0.1:{free_port()}/{SECRET}")
        sending.send(0)
        sending.wait()
        sending.close()
    assert sending.said
    assert SECRET not in f"{sending.said}{caplog.text}{''.join(capfd.readouterr())}{watch_name([SECRET])}"


def test_without_apprise_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    with pytest.raises(NotifyMissing, match=r"trialstream\[notify\]"):
        Service("json://x", 1, print)


# -----------------------------------------------------------------------------
# `streamer notify` against a real service: once each, over restarts, and nothing that acts.


class Notifying:
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
        await asyncio.to_thread(self.service.expect, *titles)


@pytest.fixture
def watch(settings: Settings, environment: dict[str, str], tmp_path: Path) -> Iterator[Notifying]:
    with Receiver() as service:
        yield Notifying(settings, environment, tmp_path / "log", service)


def finished(run: str = "run-1") -> Event:
    return an_end(run_id=run, status="completed")


async def test_a_run_is_told_once_from_start_to_end_over_restarts(feed: Feed, watch: Notifying) -> None:
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


async def test_named_runs_alone_are_told_and_none_that_was_over(feed: Feed, watch: Notifying) -> None:
    await feed.take([a_trial(run_id="old"), finished("old"), a_trial(run_id="running", cost_usd=9.0)])
    async with watch.telling("old", "running", "wanted", "last", "--budget", "5"):
        over = "running is over its budget of $5.0000"
        await watch.expect(over)
        for run in ("other", "wanted", "third", "last"):
            await feed.take([a_trial(run_id=run)])
        await feed.take([finished("running")])
        await watch.expect(over, "wanted started", "last started", "running finished (completed)")


async def test_a_deleted_run_is_forgotten_and_may_begin_again(feed: Feed, watch: Notifying) -> None:
    async with watch.telling("--all"):
        await feed.take([a_trial()])
        await watch.expect("run-1 started")
        await feed.take([a_deletion(revision=5)])
        with redis.Redis.from_url(watch.settings.redis) as client:
            assert not client.exists(Keys(watch.settings.namespace).notices("run-1"))
        await feed.take([a_trial(revision=6)])
        await watch.expect("run-1 started", "run-1 started")


async def test_what_hard_bounds_settle_is_told_once_over_a_restart(feed: Feed, watch: Notifying) -> None:
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


async def test_ledgers_and_estimates_are_told_beside_the_runs(feed: Feed, watch: Notifying) -> None:
    """`c` passes 14 of 20 tasks, its baseline 4. Of `two` one agent passes 6 of 10 tasks, the other none."""
    tasks = [f"t{number:02}" for number in range(40)]
    pair = a_plan(run_id="two", tasks=tasks, attempts=1, order=tasks, order_kind="shuffled")
    pair |= {"agent_models": ["a:m", "b:m"]}
    slots = [(agent, task) for task in tasks[:10] for agent in "ab"]
    of_two = [
        a_trial(run_id="two", agent=agent, model="m", task_id=task, resolved=agent == "a" and task < "t06")
        for agent, task in slots
    ]
    async with watch.telling("--all"):
        await feed.take([*BASE, *entered("c", 4, range(14)), pair, *of_two])
        told = ["base started", "c started", "two started", "c b:m: better than base, in ledger nightly"]
        told.append("two estimate: it will tell its top two agents apart")
        await watch.expect(*told)
    async with watch.telling("--all"):
        older = entered("b", 2, range(14)) + entered("a", 1, range(14), planned_at=day(1, 1))
        await feed.take([*older, finished("two")])
        told += ["a started", "b started", "two finished (completed)"]
        told += [f"{one} b:m: better than base, in ledger nightly" for one in "ab"]
        await watch.until(lambda: set(told) <= set(watch.service.titles), "all notices")
    titles = watch.service.titles
    assert len(titles) == len(set(titles))


async def test_silence_is_told(feed: Feed, watch: Notifying) -> None:
    async with watch.telling("--all", "--stalled-after", "0.02"):
        await feed.take([a_plan(tasks=2), a_trial()])
        await watch.until(lambda: len(watch.service.titles) >= 2, "start and silence")
        started, stalled = watch.service.titles
        assert started == "run-1 started"
        assert stalled.startswith("run-1 is unfinished: no result for ")


async def test_too_many_rejections_are_told_once(feed: Feed, watch: Notifying) -> None:
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
async def test_a_service_that_is_down_is_said_once_and_keeps_no_other_back(
    feed: Feed, watch: Notifying
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
# What was told is remembered in Redis; one watch alone claims a notice.


@pytest.fixture
async def memory(settings: Settings) -> AsyncIterator[Memory]:
    memory = Memory(settings, "mine", lambda line: None)
    yield memory
    await memory.close()


async def test_what_was_saved_is_there_for_this_name_alone(memory: Memory, settings: Settings) -> None:
    await memory.save("r", {"started": "done"})
    await memory.save("r", {})
    await memory.save("", {"rejections": "1"})
    assert await memory.load("r") == {"started": "done"}
    assert await memory.load("") == {"rejections": "1"}
    other = Memory(settings, "other", lambda line: None)
    assert await other.load("r") == {}
    await other.close()


async def test_a_notice_is_claimed_once(memory: Memory) -> None:
    assert [await memory.claim("r", "started") for _ in range(2)] == [True, False]
    assert await memory.load("r") == {"started": "pending"}


async def test_a_redis_that_is_away_is_said_once_and_holds_up_no_notice() -> None:
    said: list[str] = []
    away = Memory(Settings(redis=f"redis://127.0.0.1:{free_port()}/0"), "mine", said.append)
    assert await away.load("r") == {}
    await away.save("r", {"a": "b"})
    assert await away.claim("r", "started")
    await away.close()
    assert len(said) == 1
    assert "a restart may send them again" in said[0]
