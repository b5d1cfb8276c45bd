"""The fast reading of usual results: whatever it accepts is what the schema says, field for field."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.folding.fold import Pipeline
from streamer.folding.score import ScoringRules, score_trial
from streamer.folding.score.prices import PriceTable
from streamer.folding.slots import event_time, fingerprint, slot_key
from streamer.schemas.events import TrialResult, TrialStarted, known_content
from streamer.schemas.wire import (
    PlainTrial,
    Record,
    canonical_content,
    canonical_json,
    decode,
    plain_event,
    plain_trial,
)
from tests.support.examples import examples

RULES = ScoringRules(PriceTable.default())

USUAL: dict[str, Any] = {
    "type": "trial_result",
    "schema_version": 1,
    "run_id": "r",
    "shard": "s",
    "task_id": "t",
    "attempt": 2,
    "agent": "a",
    "model": "anthropic/claude-sonnet-4",
    "tier": "T1",
    "subtest": "01",
    "revision": 1_767_225_600_000_000_000,
    "trial_id": "id",
    "trial_name": "name",
    "harness": "h",
    "resolved": True,
    "failure_mode": "unset",
    "score": 0.5,
    "input_tokens": 7,
    "output_tokens": 0,
    "cache_read_tokens": 1,
    "cache_write_tokens": 2,
    "cost_usd": 0.25,
    "duration_seconds": 1.5,
    "started_at": "2026-01-01T00:00:00Z",
    "finished_at": "2026-01-01T00:00:01.250000+00:00",
    "trajectory_length": 3,
    "metrics": {"reward": 0.5, "z/b-1.0_": -2, "a": 1e15},
    "labels": {"language": "py", "a b": ""},
    "message": "no tests ran",
}
ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    1,
    1.0,
    -0.0,
    2**31,
    2**31 + 1,
    2**53,
    2**53 + 1,
    2**63 - 1,
    -(2**63),
    2**63,
    10**30,
    0.1,
    1e308,
    "",
    "x" * 512,
    "x" * 513,
    "a\u007fb",
    "a\u0085b",
    "\t",
    "é",
    [],
    {},
    {"a": {"agent/nop": 1.0}},
    {"b": 1, "a": -0.0, "B": 5e-324, "_": 0.1},
    {"b": "x", "a": ""},
    {"a": None},
    {"a": True},
    {"a": "1"},
    {"a": 1.0000000000000002e15},
    {"a": 2**63},
    {"a": -(10**400)},
    {"a": 1e308},
    {"a": float("nan")},
    {"": 1},
    {"": "x"},
    {"a b": 1},
    {"a\n": 1},
    {"a\u007f": "x"},
    {"x" * 64: 1},
    {"x" * 65: 1},
    {"x" * 64: "y" * 256},
    {"x" * 65: "y"},
    {"x": "y" * 257},
    {f"m{n}": n for n in range(64)},
    {f"m{n}": n for n in range(65)},
    {f"m{n}": "v" for n in range(16)},
    {f"m{n}": "v" for n in range(17)},
    float("nan"),
    float("inf"),
    "trial_result",
    "2026-01-01t00:00:00z",
    "2026-01-01 00:00:00Z",
    "2026-01-01T00:00:00.1234567Z",
    "2026-01-01T00:00:00.123456Z",
    "2026-01-01T00:00:00,123456Z",
    "2026-01-01T00:00:00.Z",
    "2026-01-01T00:00:00.+00:00",
    "2026-01-01T00:00:00.",
    "2026-01-01 00:00:00.1234567+00:00",
    "2026-01-01T00:00:00-00:00",
    "2026-01-01T00:00:00+05:00+00:00",
    "20260101T000000.1234Z",
    "2026-01-01T00:00:00Z+00:00",
    "2026-01-01T24:00:00Z",
    1e15,
    1.0000000000000002e15,
    5e-324,
    1e-7,
    "unknown",
    "@unknown",
    "2026-01-01T00:00:00.1+00:00",
    "2026-01-01T00:00:00+0000",
    "2026-01-01T00:00:00+05:30",
    "2026-01-01T00:00:60Z",
    "2026-02-30T00:00:00Z",
    "2026-W01-1T00:00:00Z",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999999Z",
    "2026-01-01T00:00:00",
    "2026-01-01",
]
DEEP = b'{"type":"trial_result","run_id":"r","task_id":"t","started_at":%b%b}' % (b"[" * 5000, b"]" * 5000)
NAMES = [*TrialResult.model_fields, "colour"]
SLOT = ("run_id", "shard", "task_id", "attempt", "agent", "model", "tier", "subtest")


def agree(value: bytes) -> bool:
    """Whether the fast way took the record; asserts that it then says what the schema says."""
    fast, event = plain_trial(value), decode(value)
    if fast is None:
        return False
    assert isinstance(event, TrialResult)
    assert slot_key(fast) == slot_key(event)
    scores = [score_trial(trial, RULES) for trial in (fast, event)]
    assert repr(scores[0]) == repr(scores[1])
    for name in TrialResult.model_fields:
        ours, theirs = getattr(fast, name), getattr(event, name)
        assert (type(ours), repr(ours)) == (type(theirs), repr(theirs)), name
    assert not event.model_extra
    assert canonical_content(fast, fast.model) == canonical_json(known_content(event))
    assert plain_trial(value) == fast
    assert fingerprint(fast) == fingerprint(event)
    assert slot_key(fast) == slot_key(event)
    assert event_time(fast, 5) == event_time(event, 5)
    return True


def test_the_usual_result_is_taken_and_says_the_same() -> None:
    assert agree(json.dumps(USUAL).encode())
    assert agree(json.dumps(USUAL | dict.fromkeys(("tier", "score", "started_at", "finished_at"))).encode())
    assert agree(json.dumps(USUAL | {"duration_seconds": None}).encode())
    assert agree(b'\n {"type": "trial_result", "run_id": "r", "run_id": "q", "task_id": "t"} ')


@pytest.mark.parametrize("name", NAMES)
def test_no_odd_value_of_a_field_is_read_otherwise_than_the_schema_reads_it(name: str) -> None:
    for odd in ODD:
        for dump in (json.dumps(USUAL | {name: odd}), json.dumps(USUAL | {name: odd}, ensure_ascii=False)):
            agree(dump.encode())
    without = {field: value for field, value in USUAL.items() if field != name}
    agree(json.dumps(without).encode())


@examples(400)
@given(st.dictionaries(st.sampled_from(NAMES), st.sampled_from(ODD), max_size=4), st.data())
def test_no_mixture_of_odd_values_is_read_otherwise(odd: dict[str, Any], data: st.DataObject) -> None:
    value = json.dumps(USUAL | odd).encode()
    agree(value)
    place = data.draw(st.integers(0, len(value) - 1))
    agree(value[:place] + bytes([data.draw(st.integers(0, 255))]) + value[place + 1 :])


@examples(400)
@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(0, 1e16), st.floats(-1e16, 1e16))
def test_no_number_is_fingerprinted_otherwise(wide: float, cost: float, score: float) -> None:
    agree(json.dumps(USUAL | {"cost_usd": cost, "score": score, "duration_seconds": abs(wide)}).encode())
    assert agree(json.dumps(USUAL | {"cost_usd": min(cost, 1e15)}).encode())


KEYS = st.text(st.sampled_from("ab Z9_./-\x7f"), max_size=3)


@examples(400)
@given(
    st.dictionaries(KEYS, st.integers() | st.floats() | st.booleans() | st.none()),
    st.dictionaries(KEYS, st.text(st.characters(max_codepoint=130), max_size=3)),
)
def test_no_dictionary_is_read_otherwise(metrics: dict[str, Any], labels: dict[str, str]) -> None:
    agree(json.dumps(USUAL | {"metrics": metrics, "labels": labels}).encode())


@pytest.mark.parametrize(("name", "value", "most"), [("metrics", "1", 64), ("labels", '"v"', 16)])
def test_a_key_that_comes_twice_is_read_as_the_schema_reads_it(name: str, value: str, most: int) -> None:
    for count in (1, most - 1, most):
        keys = ["k0", *(f"k{number}" for number in range(count))]
        pairs = ",".join(f'"{key}":{value}' for key in keys)
        agree(
            b'{"type":"trial_result","run_id":"r","task_id":"t","%b":{%b}}' % (name.encode(), pairs.encode())
        )


def test_keys_in_any_order_have_one_fingerprint() -> None:
    values = [{"b": 1.0, "a": 2.0, "B": 3.0}, {"B": 3.0, "a": 2.0, "b": 1.0}]
    found = [plain_trial(json.dumps(USUAL | {"metrics": metrics}).encode()) for metrics in values]
    assert fingerprint(found[0]) == fingerprint(found[1])


START = {name: USUAL[name] for name in (*SLOT, "schema_version", "revision", "started_at")} | {
    "type": "trial_started",
    "position": 7,
}


def start_agrees(value: bytes) -> bool:
    """Whether the fast way took a start; asserts that it then says what the schema says."""
    fast, event = plain_event(value), decode(value)
    if fast is None or isinstance(event, TrialResult):
        return False
    assert isinstance(event, TrialStarted)
    for name in TrialStarted.model_fields:
        ours, theirs = getattr(fast, name), getattr(event, name)
        assert (type(ours), repr(ours)) == (type(theirs), repr(theirs)), name
    assert not event.model_extra
    assert slot_key(fast) == slot_key(event)
    assert event_time(fast, 5) == event_time(event, 5)
    return True


def test_the_usual_start_is_taken_and_says_the_same() -> None:
    assert start_agrees(json.dumps(START).encode())
    assert start_agrees(json.dumps(START | {"started_at": None, "position": None}).encode())
    assert start_agrees(b'{"type": "trial_started", "run_id": "r", "task_id": "t"}')
    assert not start_agrees(json.dumps(START | {"colour": 1}).encode())


@pytest.mark.parametrize("name", [*TrialStarted.model_fields, "finished_at", "resolved", "colour"])
def test_no_odd_value_of_a_start_is_read_otherwise_than_the_schema_reads_it(name: str) -> None:
    for odd in ODD:
        for dump in (json.dumps(START | {name: odd}), json.dumps(START | {name: odd}, ensure_ascii=False)):
            start_agrees(dump.encode())
    without = {field: value for field, value in START.items() if field != name}
    start_agrees(json.dumps(without).encode())


@examples(200)
@given(st.dictionaries(st.sampled_from(NAMES), st.sampled_from(ODD), max_size=4), st.data())
def test_no_mixture_of_odd_values_of_a_start_is_read_otherwise(
    odd: dict[str, Any], data: st.DataObject
) -> None:
    value = json.dumps(START | odd).encode()
    start_agrees(value)
    place = data.draw(st.integers(0, len(value) - 1))
    start_agrees(value[:place] + bytes([data.draw(st.integers(0, 255))]) + value[place + 1 :])


def test_a_result_that_names_a_start_is_read_as_a_result() -> None:
    value = json.dumps(USUAL | {"task_id": "trial_started"}).encode()
    plain, event = plain_event(value), decode(value)
    assert isinstance(plain, PlainTrial)
    assert isinstance(event, TrialResult)
    assert plain.task_id == event.task_id == "trial_started"


@pytest.mark.parametrize(
    "value", [DEEP, None, b"", b"[]", b"{}", b"\xff", b'{"type": "run_deleted"}', b"{" * 10_000]
)
def test_what_is_no_usual_result_is_left_to_the_schema(value: bytes | None) -> None:
    assert plain_trial(value) is None
    assert plain_event(value) is None


def test_nothing_nested_ends_a_fold() -> None:
    (rejected,) = Pipeline().fold([Record(DEEP, 0)]).rejections
    assert json.loads(rejected.value)["code"] == "not_json"
