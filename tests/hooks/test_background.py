"""Work of a hook is done in order, in a thread, and none of its errors reaches the harness."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

from streamer.hooks import background
from streamer.hooks.background import Background
from streamer.publish.results import NotAccepted

DEADLINE_SECONDS = 30


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


def a_background(publisher: Any) -> Background:
    return Background("test", lambda: publisher)


def test_work_is_done_in_order_and_the_publisher_is_closed() -> None:
    publisher = Recording()
    thread = a_background(publisher)
    for number in range(100):
        thread.hand_over(lambda publish, number=number: publish(number))
    thread.close()
    assert publisher.events == list(range(100))
    assert publisher.closed


def test_handing_over_does_not_wait_for_the_work_before() -> None:
    publisher, go = Recording(), threading.Event()
    thread = a_background(publisher)
    thread.hand_over(lambda publish: publish(go.wait(DEADLINE_SECONDS)))
    thread.hand_over(lambda publish: publish("second"))
    assert publisher.events == []
    go.set()
    thread.close()
    assert publisher.events == [True, "second"]


def test_errors_are_logged_and_the_next_work_is_done(caplog: pytest.LogCaptureFixture) -> None:
    publisher = Recording()
    thread = a_background(publisher)
    with caplog.at_level(logging.WARNING, "streamer.hooks"):
        thread.hand_over(lambda publish: publish(1 / 0))
        thread.hand_over(lambda publish: publish("refused"))
        thread.hand_over(lambda publish: publish("kept"))
        thread.close()
    assert publisher.events == ["kept"]
    assert "ZeroDivisionError" in caplog.text
    assert "memory is full" in caplog.text


def test_a_publisher_that_cannot_be_made_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def none() -> Any:
        raise ValueError("no settings")

    thread = Background("test", none)
    thread.hand_over(lambda publish: publish("x"))
    thread.close()
    assert "no settings" in caplog.text


def test_close_waits_no_longer_than_its_limit(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(background, "CLOSE_SECONDS", 0.01)
    go = threading.Event()
    thread = a_background(Recording())
    thread.hand_over(lambda publish: publish(go.wait(DEADLINE_SECONDS)))
    thread.close()
    assert "not everything was published" in caplog.text
    go.set()
