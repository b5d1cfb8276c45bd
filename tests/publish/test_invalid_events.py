"""An invalid event is refused at the call or reported later, is put aside, and keeps nothing back."""

from __future__ import annotations

import math
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from streamer.client import InvalidEvent, InvalidEvents, TrialPublisher
from streamer.client.capture import REFUSED
from streamer.settings import Settings
from tests.publish.publishing import DEADLINE_SECONDS, LARGE, events
from tests.support.events import a_trial


@pytest.mark.parametrize("wrong", [[1], "text", None, 7, b"{}"])
def test_what_is_neither_mapping_nor_model_fails_at_the_call(publisher: TrialPublisher, wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"takes an event, a mapping or a model.*not"):
        publisher.publish(wrong)


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        ({"score": math.nan}, "not_finite", "'score' is not a finite number"),
        ({"benchmarks": {"b": {"agent/nop": [1.0, math.inf]}}}, "not_finite", "benchmarks.b.agent/nop.1"),
        ({"trial_name": {1, 2}}, "not_json", "set"),
        ({"trial_name": "\ud800"}, "not_json", "surrogates"),
        ({"input_tokens": 2**70}, "not_json", "64-bit"),
        ({"trial_name": "x" * 2**20}, "too_large", "1,048,576 are allowed"),
    ],
)
def test_what_json_cannot_hold_fails_at_the_call(
    publisher: TrialPublisher, settings: Settings, change: dict[str, Any], code: str, says: str
) -> None:
    with pytest.raises(InvalidEvent, match=says) as caught:
        publisher.publish(a_trial() | change)
    assert caught.value.code == code
    publisher.publish(a_trial(task_id="the next one"))
    assert publisher.flush(DEADLINE_SECONDS)
    assert (publisher.counts.sent, publisher.counts.rejected) == (1, 1)
    assert [event["task_id"] for event in events(settings)] == ["the next one"]


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        ({"type": "trail_result"}, "unknown_type", "trail_result"),
        ({"task_id": ""}, "invalid_field", "task_id"),
        ({"resolved": "yes"}, "invalid_field", "resolved"),
        ({"attempt": None}, "invalid_field", "attempt"),
        ({"tests": {"status": "odd"}}, "invalid_field", "tests.status"),
        ({"finished_at": datetime(2026, 1, 1)}, "invalid_field", "RFC 3339 with a zone"),  # noqa: DTZ001
        ({"attempt": 0, "benchmarks": LARGE}, "invalid_field", "attempt"),
        (
            {"benchmarks": LARGE | {"b": {"agent/nop": [1.0, math.inf]}}},
            "not_finite",
            "benchmarks.b.agent/nop",
        ),
        ({"benchmarks": LARGE | {"b": {1, 2}}}, "not_json", "set"),
        ({"benchmarks": LARGE | {"b": {"agent/nop": "\ud800"}}}, "not_json", "surrogates"),
        ({"benchmarks": LARGE | {"b": "x" * 2**20}}, "too_large", "1,048,576 are allowed"),
        ({"benchmarks": dict.fromkeys(map(str, range(10_001)), 1.0)}, "invalid_field", "at most 10000 items"),
        ({"benchmarks": [LARGE]}, "invalid_field", "benchmarks"),
    ],
)
def test_an_invalid_event_is_told_of_put_aside_and_keeps_nothing_back(
    settings: Settings, tmp_path: Path, change: dict[str, Any], code: str, says: str
) -> None:
    told: list[InvalidEvent] = []
    with TrialPublisher(settings, spill_dir=tmp_path, on_invalid=told.append) as publisher:
        publisher.publish(a_trial(run_id="nightly", task_id="bad") | change)
        publisher.publish(a_trial(task_id="the next one"))
        assert publisher.flush(DEADLINE_SECONDS)
    assert [error.code for error in told] == [code]
    assert says in str(told[0])
    assert (told[0].run_id, told[0].task_id) == ("nightly", change.get("task_id", "bad"))
    assert publisher.invalid == tuple(told)
    assert (publisher.counts.sent, publisher.counts.rejected, publisher.counts.pending) == (1, 1, 0)
    assert [event["task_id"] for event in events(settings)] == ["the next one"]
    [aside] = (tmp_path / REFUSED).read_bytes().splitlines()
    assert orjson.loads(aside)["run_id"] == "nightly"


def test_closing_says_which_events_were_invalid_unless_somebody_was_told(
    settings: Settings, tmp_path: Path
) -> None:
    publisher = TrialPublisher(settings, spill_dir=tmp_path)
    for attempt in (0, 1, -1):
        publisher.trial(run_id="nightly", task_id="t1", attempt=attempt)
    with pytest.raises(
        InvalidEvents, match=r"^2 published events were invalid.*nightly.*'attempt'.*got 0"
    ) as told:
        publisher.close()
    assert told.value.count == len(told.value.first) == 2
    assert str(tmp_path / REFUSED) in str(told.value)
    assert publisher.close() == publisher.counts
    assert (publisher.counts.sent, publisher.counts.rejected) == (1, 2)


def test_invalid_events_do_not_hide_what_went_wrong_before(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), TrialPublisher(settings, spill_dir=tmp_path) as publisher:  # noqa: PT012
        publisher.trial(run_id="nightly", task_id="t1", attempt=0)
        raise ZeroDivisionError


def test_a_callback_that_fails_stops_nothing(
    settings: Settings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: InvalidEvent) -> None:
        raise ZeroDivisionError

    with TrialPublisher(settings, spill_dir=tmp_path, on_invalid=fail) as publisher:
        publisher.trial(run_id="nightly", task_id="t1", attempt=0)
        publisher.trial(run_id="nightly", task_id="t1")
        assert publisher.flush(DEADLINE_SECONDS)
    assert publisher.counts.sent == 1
    assert "on_invalid failed" in caplog.text
