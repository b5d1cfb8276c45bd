"""What an event may be, and what its fingerprint covers."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from pydantic import ValidationError

from streamer.schemas.base import MAX_BENCHMARKS_PER_TRIAL, MAX_ID_CHARACTERS
from streamer.schemas.events import EVENT, AnyEvent, TrialResult
from tests.schemas.examples import BAD_EVENTS, FULL_TRIAL, GOOD_EVENTS, SLOT
from tests.schemas.recording import event_content


def read(event: dict[str, Any]) -> AnyEvent:
    return EVENT.validate_json(json.dumps(event))


@pytest.mark.parametrize("event", GOOD_EVENTS.values(), ids=GOOD_EVENTS)
def test_a_good_event_is_read_and_keeps_what_it_says(event: dict[str, Any]) -> None:
    written = read(event).model_dump(mode="json", exclude_none=True)
    rewritten = {"started_at", "finished_at", "tests", "snapshot"}
    said = {k: v for k, v in event.items() if v is not None and k not in rewritten}
    assert {k: written[k] for k in said} == said


@pytest.mark.parametrize("event", BAD_EVENTS.values(), ids=BAD_EVENTS)
def test_a_bad_event_is_refused(event: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        read(event)


NOT_FINITE = ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"]


@pytest.mark.parametrize("number", NOT_FINITE)
@pytest.mark.parametrize(
    "field",
    [
        '"score": {}',
        '"cost_usd": {}',
        '"claimed": {{"a": {}}}',
        '"claimed": {{"a": [1, {{"b": {}}}]}}',
        '"benchmarks": {{"a": {{"agent/nop": {}}}}}',
        '"benchmarks": {{"a": {{"agent_s": [1.0, {}]}}}}',
        '"snapshot": {{"status": "passed", "pass_to_fail": {}}}',
    ],
)
def test_a_number_that_is_not_finite_is_refused_wherever_it_stands(field: str, number: str) -> None:
    text = f'{{"type": "trial_result", "run_id": "r", "task_id": "t", {field.format(number)}}}'
    with pytest.raises(ValidationError, match="finite"):
        EVENT.validate_json(text)


def test_what_is_not_finite_travels_as_text_among_benchmarks() -> None:
    event = read(SLOT | {"benchmarks": {"a": {"agent/nop": "NaN", "oracle/nop": "Infinity"}}})
    assert isinstance(event, TrialResult)
    assert event.benchmarks == {"a": {"agent/nop": "NaN", "oracle/nop": "Infinity"}}


@pytest.mark.parametrize("integer", [2**63, -(2**63) - 1, 10**300])
def test_an_integer_beyond_64_bits_is_refused_in_free_json(integer: int) -> None:
    """Canonical JSON could not write it down."""
    with pytest.raises(ValidationError, match="64 bits"):
        read(SLOT | {"claimed": {"a": [integer]}})


def test_a_refused_benchmark_is_named_in_printable_characters() -> None:
    with pytest.raises(ValidationError, match=r"Entry 'good\\x1b' holds"):
        EVENT.validate_json(
            '{"type": "trial_result", "run_id": "r", "task_id": "t", "benchmarks": {"good\\u001b": NaN}}'
        )


def test_10_000_benchmarks_are_checked_in_a_fraction_of_a_second() -> None:
    entries = {
        f"b{n}": {"agent/nop": n + 0.5, "oracle/nop": n + 0.25} for n in range(MAX_BENCHMARKS_PER_TRIAL)
    }
    text = json.dumps(SLOT | {"benchmarks": entries})
    started = time.process_time()
    EVENT.validate_json(text)
    assert time.process_time() - started < 0.5


@pytest.mark.parametrize("length", [1, MAX_ID_CHARACTERS])
def test_the_length_of_an_id_counts_characters_not_bytes(length: int) -> None:
    assert read(SLOT | {"run_id": "𝕏" * length}).run_id == "𝕏" * length


@pytest.mark.parametrize("field", ["run_id", "task_id", "agent", "model", "tier", "subtest", "shard"])
def test_no_id_holds_a_control_character(field: str) -> None:
    for code in (*range(0x20), *range(0x7F, 0xA0)):
        with pytest.raises(ValidationError):
            read(SLOT | {field: f"a{chr(code)}"})


def test_unknown_fields_are_kept_apart_where_they_can_be_counted() -> None:
    event = read(SLOT | {"colour": "red", "size": 3})
    assert event.model_extra == {"colour": "red", "size": 3}
    assert "colour" not in event_content(event)


def test_an_event_cannot_be_changed_once_it_is_built() -> None:
    event = read(SLOT)
    with pytest.raises(ValidationError, match="frozen"):
        event.run_id = "other"  # type: ignore[misc]


def test_times_are_kept_in_utc() -> None:
    event = read(FULL_TRIAL)
    assert isinstance(event, TrialResult)
    assert event.finished_at == datetime(2026, 1, 31, 9, 30, 0, 125_000, UTC)
    assert event.finished_at.tzinfo is UTC


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"])
def test_a_time_that_utc_cannot_say_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="years 1 to 9999"):
        read(SLOT | {"finished_at": text})


EQUAL_INSTANTS = [
    "2026-01-31T09:30:00Z",
    "2026-01-31T09:30:00.000Z",
    "2026-01-31T09:30:00+00:00",
    "2026-01-31T11:30:00+02:00",
    "2026-01-30T23:30:00-10:00",
    "2026-01-31t09:30:00z",
    "2026-01-31 09:30:00Z",
]


@pytest.mark.parametrize("text", EQUAL_INSTANTS)
def test_equal_instants_are_equal_content(text: str) -> None:
    event = read(SLOT | {"finished_at": text})
    assert event_content(event) == SLOT | {"finished_at": "2026-01-31T09:30:00Z"}


def test_an_event_built_in_python_has_the_content_of_the_one_read_from_json() -> None:
    two_hours_east = timezone(timedelta(hours=2))
    built = TrialResult(
        type="trial_result",
        run_id="r",
        task_id="t",
        finished_at=datetime(2026, 1, 31, 11, 30, tzinfo=two_hours_east),
    )
    assert event_content(built) == event_content(read(SLOT | {"finished_at": EQUAL_INSTANTS[0]}))


def test_a_default_written_out_is_the_same_content_as_one_left_out() -> None:
    fields = TrialResult.model_fields
    defaults = {name: field.default for name, field in fields.items() if not field.is_required()}
    assert event_content(read(SLOT | defaults)) == event_content(read(SLOT)) == SLOT


def test_an_unnamed_agent_is_the_same_content_as_an_unknown_one() -> None:
    assert event_content(read(SLOT | {"agent": None, "model": None})) == event_content(
        read(SLOT | {"agent": "unknown", "model": "unknown"})
    )


def test_the_revision_is_no_part_of_the_content() -> None:
    assert event_content(read(SLOT | {"revision": 5})) == event_content(read(SLOT | {"revision": 6}))


@pytest.mark.parametrize("number", [1, 1.0])
def test_an_integer_where_a_float_belongs_is_the_same_content(number: float) -> None:
    assert json.dumps(event_content(read(SLOT | {"cost_usd": number}))["cost_usd"]) == "1.0"


def test_what_differs_in_any_other_field_is_other_content() -> None:
    whole = event_content(read(FULL_TRIAL))
    known = set(TrialResult.model_fields) - {
        "revision",
        "type",
        "run_id",
        "task_id",
        "schema_version",
        "resolved",
    }
    for field in known:
        without = {k: v for k, v in FULL_TRIAL.items() if k != field}
        assert event_content(read(without)) != whole, field
