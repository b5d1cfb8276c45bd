"""Work of a hook is done in order, in a thread, and none of its errors reaches the harness."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from streamer.client.capture import NotAccepted
from streamer.hooks import background
from streamer.hooks.background import Background

DEADLINE_SECONDS = 60


class Recording:
    """A publisher that keeps what it gets, and refuses what it is told to."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.closed = False

    def publish(self, event: Any) -> None:
        if event == "refused":
            raise NotAccepted("memory is full")
        self.events.append(event)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def publisher() -> Recording:
    return Recording()


@pytest.fixture
def thread(publisher: Any) -> Background:
    return Background("test", publisher)


def test_work_is_done_in_order_and_the_publisher_is_closed(publisher: Recording, thread: Background) -> None:
    for number in range(100):
        thread.hand_over(lambda publish, number=number: publish(number))
    thread.close()
    assert publisher.events == list(range(100))
    assert publisher.closed


def test_handing_over_does_not_wait_for_the_work_before(publisher: Recording, thread: Background) -> None:
    go = threading.Event()
    thread.hand_over(lambda publish: publish(go.wait(DEADLINE_SECONDS)))
    thread.hand_over(lambda publish: publish("second"))
    assert publisher.events == []
    go.set()
    thread.close()
    assert publisher.events == [True, "second"]


def test_errors_are_logged_and_the_next_work_is_done(
    publisher: Recording, thread: Background, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "streamer.hooks"):
        thread.hand_over(lambda publish: publish(1 / 0))
        thread.hand_over(lambda publish: publish("refused"))
        thread.hand_over(lambda publish: publish("kept"))
        thread.close()
    assert publisher.events == ["kept"]
    assert "ZeroDivisionError" in caplog.text
    assert "memory is full" in caplog.text


def test_close_waits_no_longer_than_its_limit_and_says_what_to_do(
    thread: Background, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(background, "WORK_SECONDS", 0.01)
    go = threading.Event()
    thread.hand_over(lambda publish: publish(go.wait(DEADLINE_SECONDS)))
    thread.close()
    assert "not everything was published" in caplog.text
    assert "streamer convert DIR | streamer publish" in caplog.text
    go.set()


LATE = """
import sys, threading
from streamer.hooks import background

background.CLOSE_SECONDS = 1.0

def late(publish):
    threading.main_thread().join()
    for number in range(2_000):
        publish({"type": "trial_result", "run_id": "r", "task_id": str(number), "resolved": True})

hook, begun = background.Background("test"), threading.Event()
hook.hand_over(lambda publish: begun.set())
hook.hand_over(late)
begun.wait()
"""
"""A harness that ends while the hook still works: the events are made after its last statement."""


IN_A_CHILD = """
import multiprocessing
from streamer.hooks import background

background.CLOSE_SECONDS = 1.0

def late(publish):
    for number in range(2_000):
        publish({"type": "trial_result", "run_id": "r", "task_id": str(number), "resolved": True})

def harness():
    background.Background("test").hand_over(late)

child = multiprocessing.get_context("fork").Process(target=harness)
child.start()
child.join()
"""


@pytest.mark.parametrize("program", [LATE, IN_A_CHILD])
def test_events_that_are_made_while_the_harness_ends_are_kept(program: str, tmp_path: Path) -> None:
    nowhere = {"STREAMER_BOOTSTRAP": "127.0.0.1:9", "XDG_DATA_HOME": str(tmp_path)}
    command = [sys.executable, "-c", program]
    ended = subprocess.run(
        command, env=os.environ | nowhere, stderr=subprocess.PIPE, text=True, timeout=DEADLINE_SECONDS
    )
    [kept] = tmp_path.rglob("*.spill.ndjson")
    tasks = [json.loads(line)["task_id"] for line in kept.read_text().splitlines()]
    assert tasks == [str(number) for number in range(2_000)], ended.stderr
