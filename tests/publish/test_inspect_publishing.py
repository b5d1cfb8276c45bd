"""What the hook of inspect_ai publishes: the events that `convert` makes of the same eval's log."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from streamer.publish.inspect_publishing import InspectPublishing
from streamer.publish.results import NotAccepted
from streamer.schemas.canonical import canonical_json
from tests.sources.builders import converted
from tests.sources.inspect import A_PLAN, a_spec, a_summary, the_log, unpack_logs
from tests.support.eventually import eventually


class Recorder:
    """Takes events as a publisher does."""

    def __init__(self, delivers: bool = True, error: Exception | None = None) -> None:
        self.events: list[dict[str, Any]] = []
        self.problem = "no broker"
        self._delivers = delivers
        self._error = error

    def publish(self, event: dict[str, Any]) -> None:
        if self._error:
            raise self._error
        self.events.append(event)

    def flush(self, timeout_seconds: float) -> bool:
        return self._delivers


def publishing_to(recorder: Recorder) -> InspectPublishing:
    return InspectPublishing(recorder)  # type: ignore[arg-type]


def test_an_eval_gives_the_events_of_its_log(tmp_path: Path) -> None:
    logs = unpack_logs(tmp_path)
    record = json.loads(the_log(logs / "json").read_text())
    recorder = Recorder()
    publishing = publishing_to(recorder)
    publishing.task_started("e", record["eval"], record["plan"])
    for sample in record["samples"]:
        publishing.sample_started("e", {name: sample[name] for name in ("id", "epoch", "started_at")})
        publishing.sample_ended("e", sample)
    publishing.task_ended("e", record["status"], record["stats"])
    starts = [event for event in recorder.events if event["type"] == "trial_started"]
    others = [event for event in recorder.events if event["type"] != "trial_started"]
    assert len(starts) == 18
    assert sorted(others, key=canonical_json) == sorted(converted(logs / "finished")[0], key=canonical_json)


def test_evals_beside_one_another_keep_their_runs() -> None:
    recorder = Recorder()
    publishing = publishing_to(recorder)
    publishing.task_started("e1", a_spec(), A_PLAN)
    publishing.task_started("e2", a_spec(task_id="T2", model="m2"), A_PLAN)
    publishing.sample_ended("e2", a_summary())
    publishing.sample_ended("e1", a_summary())
    trials = [event for event in recorder.events if event["type"] == "trial_result"]
    assert [(trial["run_id"], trial["model"]) for trial in trials] == [
        ("addition_T2", "m2"),
        ("addition_T1", "mockllm/model"),
    ]


def test_samples_of_an_eval_that_began_before_the_hook_was_on_are_left_alone() -> None:
    recorder = Recorder()
    publishing = publishing_to(recorder)
    publishing.sample_started("e", {"id": 1})
    publishing.sample_ended("e", a_summary())
    publishing.task_ended("e", "success", {})
    publishing.task_started("f", {"task": ""}, {})
    assert recorder.events == []


def test_what_is_left_out_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder()
    publishing = publishing_to(recorder)
    publishing.task_started("e", a_spec(), A_PLAN)
    for number in range(3):
        scores = {"words": {"value": "lovely"}}
        publishing.sample_ended("e", a_summary(id=number, total_time=-1, scores=scores))
    assert len(caplog.messages) == 2
    assert caplog.messages[0] == (
        "run addition_T1: the score 'words' is 'lovely', which is no number, and is left out"
    )
    assert caplog.messages[1].startswith("run addition_T1: duration_seconds -1")
    assert not any("duration_seconds" in event for event in recorder.events)


def test_an_event_that_is_not_taken_is_said_and_raises_nothing(caplog: pytest.LogCaptureFixture) -> None:
    publishing = publishing_to(Recorder(error=NotAccepted(9, "disk full")))
    publishing.task_started("e", a_spec(), A_PLAN)
    assert "run addition_T1: an event is not published: the event was not taken" in caplog.text


def test_a_sample_without_a_task_is_no_event(caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder()
    publishing = publishing_to(recorder)
    publishing.task_started("e", a_spec(), A_PLAN)
    publishing.sample_ended("e", a_summary(id=""))
    assert [event["type"] for event in recorder.events] == ["run_started"]
    assert "task_id" in caplog.text


async def test_the_end_of_an_eval_says_what_has_not_arrived(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    publishing = publishing_to(Recorder(delivers=False))
    publishing.task_started("e", a_spec(), A_PLAN)
    publishing.task_ended("e", "success", {"completed_at": "2026-01-02T03:04:09+00:00"})
    await eventually(lambda: "not at the broker yet (no broker)" in caplog.text, "the warning")
