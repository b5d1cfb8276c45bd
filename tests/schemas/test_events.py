"""Decoding takes a shorter way for large events; what comes out is the same."""

from __future__ import annotations

import importlib
import json
import math
import pkgutil
import re
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

import streamer.schemas
from streamer.schemas import wire as module
from streamer.schemas.base import MAX_BENCHMARKS_PER_TRIAL
from streamer.schemas.events import BOARD_METRICS, EVENT, AnyEvent, TrialResult, board_values
from streamer.schemas.export import MESSAGES
from streamer.schemas.wire import Reason, decode
from tests.schemas.examples import FULL_TRIAL, SLOT
from tests.schemas.recording import event_content
from tests.support.builders import METRICS, a_formulacode_summary, an_agent_model_change
from tests.support.examples import examples

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
advantages = st.fixed_dictionaries({"agent_advantage": numbers})
listed: dict[str, list[Any]] = {
    "tests": [None, {"status": "ok", "failed": 1, "more": 2}, {"status": "fine"}],
    "cost_usd": [None, 1, 0.5, -1.0, 10**300, "1"],
    "attempt": [1, 2.0, 2**40, "1"],
    "finished_at": ["2026-01-31T09:30:00Z", "2026-01-31t11:30:00.1+02:00", "now"],
    "type": ["trial_result", "run_started", "nothing"],
}
optional = {name: st.sampled_from(values) for name, values in listed.items()}
others = st.fixed_dictionaries(
    {}, optional=optional | {"claimed": st.none() | advantages, "unknown": numbers}
)


def the_long_way(value: bytes) -> Any:
    try:
        return EVENT.validate_json(value)
    except ValidationError:
        return Reason


@examples(400)
@given(st.dictionaries(st.text(max_size=5), entries, max_size=6) | st.sampled_from([None, [], 1.0]), others)
def test_large_events_decode_as_if_they_were_small(benchmarks: object, fields: dict[str, Any]) -> None:
    large = {"benchmarks": benchmarks, "trial_name": "x" * 1024, "trial_id": "x" * 1024}
    value = json.dumps(SLOT | fields | large).encode()
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


# -----------------------------------------------------------------------------
# Every field says what it is, in which unit and range.


UNITS = (
    {r"cost|_usd$": r"USD|US dollars", r"_seconds$|duration": r"seconds", r"_ms$": r"milliseconds"}
    | {r"_bytes$": r"bytes", r"_percentage$": r"percent", r"_tokens$": r"tokens", r"_base64$": r"base64"}
    | {r"_at$": r"UTC|RFC 3339|of the run"}
)
"""Part of a field's name to what its description must say."""

NO_NUMBER = {"cost_source"}


def models() -> Iterator[type[BaseModel]]:
    """Every model of the package, nested ones included."""
    for result in pkgutil.iter_modules(streamer.schemas.__path__):
        module = importlib.import_module(f"streamer.schemas.{result.name}")
        for item in vars(module).values():
            if isinstance(item, type) and issubclass(item, BaseModel) and item.__module__ == module.__name__:
                yield item


DESCRIPTIONS = {
    (model, name): field.description or "" for model in models() for name, field in model.model_fields.items()
}
"""Model and field to what the field says of itself."""


def named(fields: Iterable[tuple[type[BaseModel], str]]) -> list[str]:
    return [f"{model.__name__}.{name}" for model, name in fields]


def test_every_model_and_field_says_what_it_is() -> None:
    assert set(MESSAGES) <= set(models())
    first_lines = {model.__name__: (model.__doc__ or "").strip().partition("\n")[0] for model in models()}
    assert {name: line for name, line in first_lines.items() if not line.endswith((".", "`)."))} == {}
    assert named(field for field, description in DESCRIPTIONS.items() if not description.endswith(".")) == []


@pytest.mark.parametrize(("part", "unit"), UNITS.items())
def test_a_field_with_a_unit_says_it(part: str, unit: str) -> None:
    measured = {
        (model, name): description
        for (model, name), description in DESCRIPTIONS.items()
        if re.search(part, name) and name not in NO_NUMBER
    }
    assert measured
    silent = named(field for field, description in measured.items() if not re.search(unit, description))
    assert silent == [], f"each must say its unit ({unit})"


# -----------------------------------------------------------------------------
# What an event may be, and what its fingerprint covers.


def read(event: dict[str, Any]) -> AnyEvent:
    return EVENT.validate_json(json.dumps(event))


NOT_FINITE = ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"]


@pytest.mark.parametrize("number", NOT_FINITE)
@pytest.mark.parametrize(
    "field",
    [
        '"score": {}',
        '"cost_usd": {}',
        '"claimed": {{"a": [1, {{"b": {}}}]}}',
        '"benchmarks": {{"a": {{"agent_s": [1.0, {}]}}}}',
        '"snapshot": {{"status": "passed", "pass_to_fail": {}}}',
    ],
)
def test_a_number_that_is_not_finite_is_refused_wherever_it_stands(field: str, number: str) -> None:
    text = f'{{"type": "trial_result", "run_id": "r", "task_id": "t", {field.format(number)}}}'
    with pytest.raises(ValidationError, match="finite"):
        EVENT.validate_json(text)


def test_what_is_not_finite_travels_as_text_among_benchmarks() -> None:
    benchmarks = {"a": {"agent/nop": "NaN", "oracle/nop": "Infinity"}}
    event = read(SLOT | {"benchmarks": benchmarks})
    assert isinstance(event, TrialResult)
    assert event.benchmarks == benchmarks
    with pytest.raises(ValidationError, match=r"Entry 'good\\x1b' holds"):
        read(SLOT | {"benchmarks": {"good\x1b": math.nan}})


@pytest.mark.parametrize("integer", [2**63, -(2**63) - 1, 10**300])
def test_an_integer_beyond_64_bits_is_refused_in_free_json(integer: int) -> None:
    """Canonical JSON could not write it down."""
    with pytest.raises(ValidationError, match="64 bits"):
        read(SLOT | {"claimed": {"a": [integer]}})


def test_10_000_benchmarks_are_checked_in_a_fraction_of_a_second() -> None:
    entries = {
        f"b{n}": {"agent/nop": n + 0.5, "oracle/nop": n + 0.25} for n in range(MAX_BENCHMARKS_PER_TRIAL)
    }
    text = json.dumps(SLOT | {"benchmarks": entries})
    started = time.process_time()
    EVENT.validate_json(text)
    assert time.process_time() - started < 0.5


@pytest.mark.parametrize("field", ["run_id", "task_id", "agent", "model", "tier", "subtest", "shard"])
def test_no_id_holds_a_control_character(field: str) -> None:
    for code in (*range(0x20), *range(0x7F, 0xA0)):
        with pytest.raises(ValidationError):
            read(SLOT | {field: f"a{chr(code)}"})


def test_unknown_fields_are_kept_apart_and_an_event_cannot_be_changed() -> None:
    event = read(SLOT | {"colour": "red", "size": 3})
    assert event.model_extra == {"colour": "red", "size": 3}
    assert "colour" not in event_content(event)
    with pytest.raises(ValidationError, match="frozen"):
        event.run_id = "other"  # type: ignore[misc]


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"])
def test_a_time_that_utc_cannot_say_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="years 1 to 9999"):
        read(SLOT | {"finished_at": text})


EQUAL_INSTANTS: list[str | datetime] = [f"2026-01-31T09:30:00{zone}" for zone in ("Z", ".000Z", "+00:00")]
EQUAL_INSTANTS += ["2026-01-31T11:30:00+02:00", "2026-01-30T23:30:00-10:00"]
EQUAL_INSTANTS += ["2026-01-31t09:30:00z", "2026-01-31 09:30:00Z"]
EQUAL_INSTANTS += [datetime(2026, 1, 31, 11, 30, tzinfo=timezone(timedelta(hours=2)))]


@pytest.mark.parametrize("time", EQUAL_INSTANTS, ids=str)
def test_equal_instants_are_equal_content_from_json_and_from_python(time: str | datetime) -> None:
    fields: dict[str, Any] = SLOT | {"finished_at": time}
    event = read(fields) if isinstance(time, str) else TrialResult(**fields)
    assert event_content(event) == SLOT | {"finished_at": "2026-01-31T09:30:00Z"}
    assert isinstance(event, TrialResult)
    assert event.finished_at is not None
    assert isinstance(time, datetime) or event.finished_at.tzinfo is UTC


DEFAULTS = {
    name: field.default for name, field in TrialResult.model_fields.items() if not field.is_required()
}


@pytest.mark.parametrize(
    ("fields", "same"),
    [
        pytest.param(DEFAULTS, {}, id="a default that is written out"),
        pytest.param({"agent": None, "model": None}, {"agent": "unknown", "model": "unknown"}, id="no agent"),
        pytest.param({"revision": 5}, {"revision": 6}, id="another revision"),
        pytest.param({"cost_usd": 1}, {"cost_usd": 1.0}, id="an integer for a float"),
    ],
)
def test_what_means_the_same_is_the_same_content(fields: dict[str, Any], same: dict[str, Any]) -> None:
    content = event_content(read(SLOT | fields))
    assert json.dumps(content) == json.dumps(event_content(read(SLOT | same)))
    assert fields is not DEFAULTS or content == SLOT


def test_what_differs_in_any_other_field_is_other_content() -> None:
    whole = event_content(read(FULL_TRIAL))
    left_out = {"revision", "type", "run_id", "task_id", "schema_version", "resolved"}
    for field in TrialResult.model_fields.keys() - left_out:
        without = {k: v for k, v in FULL_TRIAL.items() if k != field}
        assert event_content(read(without)) != whole, field


# -----------------------------------------------------------------------------
# Every board metric is a number of an agent:model summary.


def test_every_metric_is_found_in_a_summary_that_knows_everything_and_a_baseline_has_none() -> None:
    known: dict[str, Any] = {
        "means": dict.fromkeys(METRICS, 0.5),
        "formulacode": a_formulacode_summary(mean_speedup=0.5, agent_advantage=0.5),
        **dict.fromkeys(("accuracy", "cost_of_pass", "mean_cost", "total_cost"), 0.5),
    }
    one, baseline = (an_agent_model_change(agent=agent, **known) for agent in ("claude", "nop"))
    changes = (one, baseline, an_agent_model_change(accuracy=None))
    values = [board_values(change.summary or {}) for change in changes]
    assert values == [dict.fromkeys(BOARD_METRICS, value) for value in (0.5, None, None)]
