"""The events in a body: every element as it was written, and the worker's own judgement of it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.folding.fold import Pipeline
from streamer.schemas.wire import Record
from streamer.web.intake import MAX_EVENTS, BodyKind, BodyTooLarge, UnreadableBody, read_events

TEXTS = st.text(st.sampled_from('ab"\\[]{},: \n\u00e9\U0001f600'), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)
EVENTS = st.sampled_from(
    [
        b'{"type": "trial_result", "run_id": "r", "task_id": "t"}',
        b'{"type": "trial_result", "run_id": "r"}',
        b'{"type": "run_started", "run_id": "r", "grading_profile": "none-such"}',
        b'{"type": "run_started", "run_id": "r", "tasks": 2}',
        b'{"type": "trial_result", "run_id": "r", "task_id": "t", "cost_usd": -1}',
        b'{"type": "run_finished", "run_id": "\xff"}',
        b"[]",
        b"7",
    ]
)


@given(st.lists(VALUES, max_size=6), st.sampled_from([None, 2]), st.booleans())
def test_the_elements_of_an_array_are_found_as_they_were_written(
    values: list[object], indent: int | None, escaped: bool
) -> None:
    body = json.dumps(values, indent=indent, ensure_ascii=escaped).encode()
    read = read_events(BodyKind.JSON, body)
    assert [json.loads(record.value) for record in read.records] == values
    assert b"".join(record.value for record in read.records) in body or len(values) > 1
    assert all(record.value in body for record in read.records)


@given(st.lists(EVENTS, max_size=8))
def test_what_is_named_as_rejected_is_what_the_worker_rejects(lines: list[bytes]) -> None:
    read = read_events(BodyKind.LINES, b"\n".join(lines))
    folded = Pipeline().fold([Record(record.value, number) for number, record in enumerate(read.records, 1)])
    worker = [json.loads(rejected.value) for rejected in folded.rejections]
    told = [(one.number, one.code, one.message) for one in read.answer.rejections]
    assert told == [(one["source_offset"], one["code"], one["message"]) for one in worker]
    assert (read.answer.accepted, read.answer.rejected) == (len(lines) - len(worker), len(worker))
    assert [record.value for record in read.records] == lines


@given(
    st.sampled_from(BodyKind),
    st.binary(max_size=60) | st.text(st.sampled_from('[]{}",:\\ 0a\n')).map(str.encode),
)
def test_any_bytes_are_read_or_refused_and_nothing_is_lost(kind: BodyKind, body: bytes) -> None:
    try:
        read = read_events(kind, body)
    except UnreadableBody:
        assert kind is BodyKind.JSON
        return
    assert read.answer.accepted + read.answer.rejected == len(read.records)
    if kind is BodyKind.LINES:
        lines = [line.strip() for line in body.removeprefix(b"\xef\xbb\xbf").split(b"\n")]
        assert [record.value for record in read.records] == [line for line in lines if line]


def test_an_event_has_its_run_as_key_and_an_invalid_one_has_none() -> None:
    event, none = b'{"type": "run_finished", "run_id": "r\\u00e9"}', b'{"type": "x", "run_id": "r"}'
    read = read_events(BodyKind.LINES, event + b"\n" + none)
    assert [record.key for record in read.records] == ["ré".encode(), None]


def test_blank_lines_count_as_lines_but_not_as_events() -> None:
    read = read_events(BodyKind.LINES, b"\xef\xbb\xbf\n \r\n7\r\n\n")
    assert [(one.number, one.code) for one in read.answer.rejections] == [(3, "not_an_object")]


@pytest.mark.parametrize(
    ("kind", "most", "one_more"),
    [
        (BodyKind.LINES, b"0\n" * MAX_EVENTS, b"0"),
        (BodyKind.JSON, b"[0" + b",0" * (MAX_EVENTS - 1), b",0"),
    ],
)
def test_there_is_a_limit_to_the_number_of_events(kind: BodyKind, most: bytes, one_more: bytes) -> None:
    end = b"]" if kind is BodyKind.JSON else b""
    assert read_events(kind, most + end).answer.rejected == MAX_EVENTS
    with pytest.raises(BodyTooLarge, match="100,000"):
        read_events(kind, most + one_more + end)
