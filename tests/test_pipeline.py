"""Bytes in, changes out; what cannot be read is handed back with its bytes."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable

import pytest

from streamer.folding.fold import Pipeline
from streamer.schemas.summaries import SUMMARY
from streamer.schemas.wire import MAX_KEPT_BYTES, Record
from tests.support.events import a_plan, a_trial, digests, folded, records

GARBAGE: dict[str, bytes | None] = {
    "empty": None,
    "not_json": b"\xff\xfe\x00",
    "not_an_object": b"[1, 2]",
    "unknown_type": b'{"type": "trial", "run_id": "r"}',
    "unknown_schema_version": b'{"type": "run_finished", "run_id": "r", "schema_version": 2}',
    "missing_field": b'{"type": "trial_result", "run_id": "r"}',
    "not_finite": b'{"type": "trial_result", "run_id": "r", "task_id": "t", "cost_usd": NaN}',
    "invalid_field": b'{"type": "trial_result", "run_id": "r", "task_id": "t", "attempt": "1"}',
    "unknown_grading_profile": b'{"type": "run_started", "run_id": "r", "grading_profile": "mine"}',
    "too_large": b'{"type": "trial_result", "run_id": "' + b"x" * 1024 * 1024 + b'"}',
}


@pytest.mark.parametrize("code", GARBAGE)
def test_bad_bytes_become_a_rejection_that_keeps_them(code: str) -> None:
    value = GARBAGE[code]
    record = Record(value, 7, partition=3, timestamp=5, key=b"k", topic="trial-events")
    (rejected,) = Pipeline().fold([record]).rejections
    body = json.loads(rejected.value)
    SUMMARY.validate_json(rejected.value, extra="forbid")
    assert body["code"] == code
    assert (body["source_topic"], body["source_partition"], body["source_offset"]) == ("trial-events", 3, 7)
    assert base64.b64decode(body["source_key_base64"]) == b"k"
    if value is not None:
        assert base64.b64decode(body["source_value_base64"]) == value


def test_deeply_nested_and_huge_numbers_are_rejections_not_crashes() -> None:
    nested = (
        b'{"type":"trial_result","run_id":"r","task_id":"t","claimed":{"x":'
        + b"[" * 5000
        + b"]" * 5000
        + b"}}"
    )
    huge = b'{"type":"trial_result","run_id":"r","task_id":"t","input_tokens":' + b"9" * 5000 + b"}"
    assert len(Pipeline().fold([Record(nested, 0), Record(huge, 1)]).rejections) == 2


def test_a_record_too_large_to_repeat_is_rejected_with_its_size() -> None:
    (rejected,) = Pipeline().fold([Record(b"x" * (MAX_KEPT_BYTES + 1), 0)]).rejections
    body = json.loads(rejected.value)
    assert (body["source_value_base64"], body["source_value_bytes"]) == (None, MAX_KEPT_BYTES + 1)


def test_garbage_between_events_changes_nothing_and_is_rejected_once_each() -> None:
    events = [a_trial(task_id=f"t{n}") for n in range(5)]
    mixed: list[dict[str, object] | bytes] = []
    for event, garbage in zip(events, [v for v in GARBAGE.values() if v][:5], strict=True):
        mixed += [event, garbage]
    pipeline, result = folded(mixed)
    assert len(result.rejections) == 5
    assert digests(pipeline) == digests(folded(events)[0])


def test_messages_show_hostile_text_escaped_and_cut() -> None:
    hostile = {"type": "trial_result", "run_id": "r", "task_id": "\x1b[31m" * 200}
    (rejected,) = Pipeline().fold([Record(json.dumps(hostile).encode(), 0)]).rejections
    message = json.loads(rejected.value)["message"]
    assert "\x1b" not in message
    assert len(message) < 400


def test_unknown_fields_are_ignored_and_counted() -> None:
    pipeline, result = folded([a_trial(shoe_size=44, hat={"size": 7})])
    assert (result.counted, result.unknown_fields) == (1, 2)
    assert digests(pipeline) == digests(folded([a_trial()])[0])


def test_runs_of_another_partition_are_handed_back() -> None:
    pipeline = Pipeline(owns=lambda run_id: run_id == "run-1")
    result = pipeline.fold(records([a_trial(), a_trial(run_id="run-2")]))
    assert [(record.offset, run_id) for record, run_id in result.misplaced] == [(1, "run-2")]
    assert pipeline.runs() == ["run-1"]


def test_state_version_is_the_greatest_offset_folded() -> None:
    pipeline = Pipeline()

    def at(offsets: Iterable[int]) -> int:
        pipeline.fold(Record(json.dumps(a_trial(task_id=f"t{n}")).encode(), n) for n in offsets)
        return pipeline.run("run-1").summaries()[-1].state_version

    assert at([5]) == 5
    assert at([3]) == 5
    assert at([9]) == 9


def test_last_event_at_is_event_time_and_falls_back_to_revision_then_broker() -> None:
    def when(**fields: object) -> str:
        pipeline, _ = folded([a_trial(**fields)])
        summary = pipeline.run("run-1").summaries()[0].summary or {}
        return str(summary["last_event_at"])

    assert when(finished_at="2026-01-01T02:00:00+02:00", revision=5) == "2026-01-01T00:00:00Z"
    assert when(revision=1_767_225_600_000_000_000) == "2026-01-01T00:00:00Z"
    assert when() == "2023-11-14T22:13:20Z"


def test_a_plan_alone_makes_a_run_with_no_trials() -> None:
    pipeline, _ = folded([a_plan(tasks=4, attempts=1, display_name="n")])
    (change,) = pipeline.run("run-1").summaries()
    assert change.summary is not None
    assert (change.summary["trials"], change.summary["accuracy"]) == (0, None)


def test_scored_trials_can_be_drained_without_the_summaries() -> None:
    pipeline, _ = folded([a_trial(), a_trial(task_id="t2")])
    assert len(pipeline.run("run-1").take_scored()) == 2
    assert pipeline.run("run-1").take_scored() == []
    cut = pipeline.run("run-1").take_changes()
    assert (len(cut.summaries), cut.scored) == (2, [])


def test_a_pipeline_that_notes_no_changes_cuts_the_scored_trials_of_all_slots() -> None:
    pipeline, _ = folded([a_trial(), a_trial(task_id="t2")], takes_changes=False)
    noting, _ = folded([a_trial(), a_trial(task_id="t2")])
    run = pipeline.run("run-1")
    assert run.take_changes().scored == run.take_changes().scored == noting.run("run-1").take_changes().scored
