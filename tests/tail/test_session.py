"""One `streamer tail`: what a directory says is published, and what the broker does not take is kept."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from streamer.operate.local.processes import free_port
from streamer.settings import Settings
from streamer.sources.base import ConvertOptions
from streamer.sources.tail import session
from streamer.sources.tail.session import tail
from tests.publish.publishing import events, make_topics, settings_of
from tests.sources.builders import a_result, a_run


def test_what_is_there_is_published_once_and_all_of_it_has_arrived_at_the_end(
    embedded_broker: str, namespace: str, tmp_path: Path
) -> None:
    settings = make_topics(settings_of(embedded_broker, namespace)).model_copy(
        update={"data_dir": tmp_path / "data"}
    )
    run = a_run(tmp_path / "run1", [a_result("a"), a_result("b")])
    result = tail(settings, run, ConvertOptions(), threading.Event(), print, lambda _: None, once=True)
    assert result.pending == 0
    trials = [event for event in events(settings) if event["type"] == "trial_result"]
    assert sorted(event["task_id"] for event in trials) == ["a", "b"]


def test_what_the_broker_does_not_take_is_kept_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "CLOSE_SECONDS", 1.0)
    away = Settings(bootstrap=f"127.0.0.1:{free_port()}", data_dir=tmp_path / "data")
    run = a_run(tmp_path / "run1", [a_result("a"), a_result("b")])
    stop = threading.Event()

    def end_when_published(_: object) -> None:
        stop.set()

    said: list[str] = []
    result = tail(away, run, ConvertOptions(), stop, said.append, end_when_published)
    assert result.pending >= 2
    assert any("does not take events" in line for line in said)
