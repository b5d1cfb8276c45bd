"""Decoding takes a shorter way for large events; what comes out is the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from streamer.schemas import wire as module
from streamer.schemas.events import EVENT, TrialResult
from streamer.schemas.wire import Reason, decode
from tests.support.examples import examples

SLOT = {"type": "trial_result", "run_id": "r", "task_id": "t"}
RATIO = {"agent/nop": 1.5, "oracle/nop": 2.5e-7}

numbers = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([1, 0, -(2**63), 2**63, 2**64, 10**300, True, None, "NaN", [1.0], {"a": 1.0}]),
)
entries = st.one_of(
    st.just(RATIO),
    st.dictionaries(st.text(max_size=3), numbers, max_size=3),
    st.sampled_from([None, 1.0, []]),
)
others = st.fixed_dictionaries(
    {},
    optional={
        "claimed": st.none() | st.fixed_dictionaries({"agent_advantage": numbers}),
        "tests": st.sampled_from([None, {"status": "ok", "failed": 1, "more": 2}, {"status": "fine"}]),
        "cost_usd": st.sampled_from([None, 1, 0.5, -1.0, 10**300, "1"]),
        "attempt": st.sampled_from([1, 2.0, 2**40, "1"]),
        "finished_at": st.sampled_from(["2026-01-31T09:30:00Z", "2026-01-31t11:30:00.1+02:00", "now"]),
        "unknown": numbers,
        "type": st.sampled_from(["trial_result", "run_started", "nothing"]),
    },
)


def the_long_way(value: bytes) -> Any:
    try:
        return EVENT.validate_json(value)
    except ValidationError:
        return Reason


@examples(400)
@given(st.dictionaries(st.text(max_size=5), entries, max_size=6) | st.sampled_from([None, [], 1.0]), others)
def test_large_events_decode_as_if_they_were_small(benchmarks: object, fields: dict[str, Any]) -> None:
    value = json.dumps(
        SLOT | fields | {"benchmarks": benchmarks, "trial_name": "x" * 1024, "trial_id": "x" * 1024}
    ).encode()
    event, expected = decode(value), the_long_way(value)
    if isinstance(event, Reason):
        assert expected is Reason
    else:
        assert type(event) is type(expected)
        assert repr(event) == repr(expected)  # every field, the unknown ones too; NaN there equals itself
        assert event.model_fields_set == expected.model_fields_set


def test_the_short_way_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []
    validate = module._validate
    monkeypatch.setattr(module, "_validate", lambda value: seen.append(value) or validate(value))
    suite = {f"module.time_{n}": RATIO for n in range(100)}
    event = decode(json.dumps(SLOT | {"benchmarks": suite}).encode())
    assert isinstance(event, TrialResult)
    assert event.benchmarks == suite
    assert [len(value) < 200 for value in seen] == [True]


@pytest.mark.parametrize(
    "value", [b'{"benchmarks": ' + b"[" * 3000, b'"benchmarks"' + b" " * 3000, b"\xff" * 3000]
)
def test_a_large_record_that_is_no_event_has_its_reason(value: bytes) -> None:
    assert isinstance(decode(value), Reason)


def test_more_benchmarks_than_allowed_are_refused_on_the_short_way_too() -> None:
    suite = {str(n): RATIO for n in range(10_001)}
    reason = decode(json.dumps(SLOT | {"benchmarks": suite}).encode())
    assert isinstance(reason, Reason)
    assert "10000" in reason.message.replace(",", "")
