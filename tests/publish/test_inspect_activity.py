"""When the hook of inspect_ai publishes."""

from __future__ import annotations

import os
import time

import pytest

from streamer.discovery import remove_discovery, write_discovery
from streamer.publish.inspect_activity import VARIABLE, Activity


@pytest.mark.parametrize(
    ("said", "on"),
    [("1", True), ("true", True), (" ON ", True), ("0", False), ("off", False), ("", False), (None, False)],
)
def test_the_variable_decides(monkeypatch: pytest.MonkeyPatch, said: str | None, on: bool) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    if said is not None:
        monkeypatch.setenv(VARIABLE, said)
    assert Activity().is_on() is on


def test_a_stack_that_runs_here_decides_where_the_variable_says_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    write_discovery({"pid": os.getpid(), "started_at": time.time()})
    try:
        assert Activity().is_on()
        monkeypatch.setenv(VARIABLE, "0")
        assert not Activity().is_on()
    finally:
        remove_discovery()


def test_an_answer_holds_for_some_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("streamer.publish.inspect_activity.time.monotonic", lambda: clock[0])
    monkeypatch.setenv(VARIABLE, "1")
    activity = Activity()
    assert activity.is_on()
    monkeypatch.setenv(VARIABLE, "0")
    assert activity.is_on()
    clock[0] += 5
    assert not activity.is_on()


def test_a_word_that_nobody_knows_is_said_once_and_means_no(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(VARIABLE, "maybe")
    monkeypatch.setattr("streamer.publish.inspect_activity.LOOK_SECONDS", 0.0)
    activity = Activity()
    assert [activity.is_on() for _ in range(3)] == [False] * 3
    assert caplog.messages == [
        "STREAMER_INSPECT=maybe is unknown, so nothing is published; set it to 1 or 0",
    ]
