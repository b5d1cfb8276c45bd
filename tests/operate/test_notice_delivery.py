"""Too many rejections within a minute are told, and then not for an hour."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import sys
import threading
from contextlib import nullcontext
from datetime import timedelta

import pytest

from streamer.folding.fold import CannotBeFolded
from streamer.operate import notice_delivery
from streamer.operate.notice_delivery import (
    QUIET,
    BadNotifyUrl,
    NotifyMissing,
    RejectionRate,
    Service,
    Watch,
    watch_name,
)
from streamer.operate.notice_rules import Notification, Rules
from streamer.schemas.wire import Failure
from streamer.settings import Settings
from tests.operate.receiving import SECRET, Receiver
from tests.operate.watching import MINUTE, NOW
from tests.support.cli import streamer
from tests.support.worker_process import wait_for


def test_too_many_rejections_in_a_minute_are_told_and_then_not_for_an_hour() -> None:
    rate, second = RejectionRate(3), timedelta(seconds=1)
    spread = [rate.take("not_json", None, NOW + 20 * n * second) for n in range(1, 30)]
    assert spread == [None] * 29
    at = NOW + timedelta(hours=1)
    burst = [rate.take("missing_field", f"<r{n}>", at) for n in range(50)]
    [told] = [notice for notice in burst if notice]
    assert "more than 3 records rejected within a minute" in told.title
    assert "missing_field" in told.body
    assert "‹r0›" in told.body
    named = re.findall(r"'streamer (rejections \w+)'", told.body)
    assert named == ["rejections list", "rejections requeue"]
    assert all(streamer(*command.split(), "--help").returncode == 0 for command in named)
    again = [rate.take("x", None, at + QUIET + n * second) for n in range(4)]
    assert len([notice for notice in again if notice]) == 1
    assert RejectionRate(0, told_at=at).take("x", None, at + MINUTE) is None


def test_a_clock_that_was_set_back_neither_silences_nor_adds_up_rejections() -> None:
    assert RejectionRate(0, told_at=NOW + timedelta(days=1)).take("x", None, NOW)
    rate = RejectionRate(1)
    assert rate.take("x", None, NOW + timedelta(hours=1)) is None
    assert rate.take("x", None, NOW) is None, "one a minute"
    assert rate.take("x", None, NOW)


def test_a_ledger_that_cannot_be_folded_keeps_no_other_from_being_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Reader:
        async def runs(self) -> list[object]:
            return []

    said, judged, ended = list[str](), list[str](), asyncio.Event()

    async def judge(name: str, _: set[str]) -> None:
        if name == "a":
            raise CannotBeFolded(Failure("r", "ZeroDivisionError"))
        judged.append(name)
        watch._moved.add("r")
        if len(judged) == 2:
            ended.set()

    async def look() -> None:
        looking = asyncio.create_task(watch._look_ahead())
        await asyncio.wait_for(ended.wait(), 10)
        looking.cancel()

    monkeypatch.setattr(notice_delivery, "LOOK_SECONDS", 0)
    monkeypatch.setattr(notice_delivery, "AsyncStateReader", lambda _: nullcontext(Reader()))
    monkeypatch.setattr(notice_delivery, "runs_of", lambda *_: {"r"})
    watch = Watch(Settings(), [], Rules(), said.append)
    monkeypatch.setattr(watch, "_judge", judge)
    watch._moved, watch._ledgers = {"r"}, {"r": {"a", "b"}}
    asyncio.run(look())
    [once] = said
    assert "ledger a is not watched: run 'r' cannot be folded" in once


# -----------------------------------------------------------------------------
# Services that take, refuse, hang and do not exist; and URLs that nobody hears of.


AT_ONCE = (0.0, 0.0)
CLOSE_SECONDS = 30.0


def a_notice(number: int = 0) -> Notification:
    return Notification("r", f"key-{number}", f"title {number}", "body\nof two lines")


class Said(list[str]):
    """What was said; and a count of what is done with."""

    def __init__(self) -> None:
        super().__init__()
        self.done = threading.Semaphore(0)

    def wait_done(self) -> None:
        assert self.done.acquire(timeout=60)


def test_a_refused_notice_is_tried_again_within_bounds_and_that_is_said_once() -> None:
    said = Said()

    def send(number: int) -> None:
        service.send(a_notice(number), said.done.release)
        said.wait_done()

    with Receiver() as receiver:
        service = Service(receiver.url, 2, said.append, AT_ONCE)
        receiver.refusals = 2
        send(0)
        assert (receiver.posts, said) == (3, [])
        receiver.refusals = 6
        send(1)
        send(2)
        assert receiver.posts == 9
        assert len(said) == 1
        assert "notification service 2 (JSON) does not accept notices" in said[0]
        send(3)
        service.close(CLOSE_SECONDS)
        assert said[1:] == ["notification service 2 (JSON) gets notices again"]
        assert receiver.taken == [(f"title {number}", "body\nof two lines") for number in (0, 3)]


def test_a_service_that_hangs_holds_up_neither_the_caller_nor_another_service() -> None:
    said = Said()
    with socket.create_server(("127.0.0.1", 0)) as silent, Receiver() as receiver:
        hanging = Service(f"json://127.0.0.1:{silent.getsockname()[1]}/{SECRET}?rto=60", 1, said.append)
        quick = Service(receiver.url, 2, said.append)
        for number in range(3):
            for service in (hanging, quick):
                service.send(a_notice(number), said.done.release)
        wait_for(lambda: len(receiver.titles) == 3, "the other service has everything")
        hanging.close(0)
        quick.close(CLOSE_SECONDS)


def test_more_than_can_wait_is_given_up_and_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamer.operate.notice_delivery.MAX_WAITING", 2)
    said = Said()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        service = Service(f"json://127.0.0.1:{silent.getsockname()[1]}/?rto=60", 1, said.append)
        for number in range(10):
            service.send(a_notice(number), said.done.release)
        for _ in range(7):  # one is being sent, two wait
            said.wait_done()
        service.close(0)
    assert len(said) == 1


def test_what_is_on_its_way_when_the_watch_ends_stays_undone_if_it_fails() -> None:
    said = Said()
    with Receiver() as receiver:
        receiver.refusals = 100
        service = Service(receiver.url, 1, said.append, (3600.0,))
        service.send(a_notice(), said.done.release)
        wait_for(lambda: receiver.posts == 1, "the first attempt")
        service.close(CLOSE_SECONDS)
    assert not said.done.acquire(blocking=False)


@pytest.mark.parametrize("url", [f"nosuch://{SECRET}", SECRET, "", f"json://[{SECRET}"])
def test_a_url_that_no_service_has_is_refused_without_being_said(
    url: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(BadNotifyUrl) as caught:
        Service(url, 3, print)
    assert "notification URL 3" in str(caught.value)
    assert SECRET not in f"{caught.value}{caplog.text}{''.join(capfd.readouterr())}"


def test_failures_never_say_the_url(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    said = Said()
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with caplog.at_level(logging.INFO):
        service = Service(f"json://user:{SECRET}@127.0.0.1:{port}/{SECRET}", 1, said.append, AT_ONCE)
        service.send(a_notice(), said.done.release)
        said.wait_done()
        service.close(CLOSE_SECONDS)
    assert said
    assert SECRET not in f"{said}{caplog.text}{''.join(capfd.readouterr())}{watch_name([SECRET])}"


def test_without_apprise_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    with pytest.raises(NotifyMissing, match=r"trialstream\[notify\]"):
        Service("json://x", 1, print)
