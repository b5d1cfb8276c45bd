"""Results and starts in their internal form, and how they are read from the bytes of a record."""

from __future__ import annotations

import re
import sys
from datetime import datetime
from functools import lru_cache
from types import GenericAlias
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import msgspec
import orjson
from msgspec import Meta
from pydantic.fields import FieldInfo

from streamer.schemas.base import LARGE_EVENT_BYTES, NO_CONTROL_CHARACTERS, UNKNOWN, is_plausible
from streamer.schemas.events import (
    AnyEvent,
    Event,
    RunDeleted,
    RunFinished,
    RunStarted,
    TrialResult,
    TrialRetracted,
    TrialScored,
    TrialStarted,
)
from streamer.schemas.wire import PLAIN, Reason, canonical_json, decode, encode_plain

# -----------------------------------------------------------------------------
# The usual result and the usual start are read by msgspec, in half of the time that pydantic takes.
#
# A usual result is a trial of its own, without FormulaCode's sections and without artifacts. An event from
# :func:`plain_event` has exactly the fields from :func:`streamer.schemas.wire.decode`. It passes on
# everything uncertain, so pydantic stays the authority on valid values and on error messages. Events read by
# pydantic get the same type: :func:`inside`.


_MAX_BYTES = 64 * 1024

_SEPARATORS = slice(4, 20, 3)
_SEPARATED = frozenset(f"--{between}::{after}" for between in "T " for after in ".Z+")

_LENGTHS_Z = frozenset({20, *range(22, 28)})
"""Lengths of a UTC time that ends in Z: without decimals, and with 1 to 6."""

_LENGTHS_OFFSET = frozenset({25, *range(27, 33)})


_NEVER_PLAIN = frozenset({"agent_index", "benchmarks", "speedup_percentage"})
"""Fields that only sub-trials and FormulaCode's trials have, which need the whole model."""

_KINDS = {"string": str, "integer": int, "number": float}
_LIMITS = {"minLength": "min_length", "maxLength": "max_length", "minimum": "ge", "maximum": "le"}
_UNDERSTOOD = {*_LIMITS, "type", "pattern", "title", "description", "default", "unit"}
_UNDERSTOOD_OF_DICTS = {"type", "patternProperties", "propertyNames", "maxProperties"}


def _plain(name: str, model: type[Event]) -> Any:
    return msgspec.defstruct(
        name,
        [_field(name, schema, model.model_fields[name]) for name, schema in _properties(model)],
        module=__name__,
        forbid_unknown_fields=True,
        gc=False,
        kw_only=True,
        omit_defaults=True,
    )


def _properties(model: type[Event]) -> list[tuple[str, dict[str, Any]]]:
    return sorted(model.model_json_schema(mode="serialization")["properties"].items())


def _options(schema: dict[str, Any]) -> list[dict[str, Any]]:
    return [option for option in schema.get("anyOf", [schema]) if option.get("type") != "null"]


def _field(name: str, schema: dict[str, Any], field: FieldInfo) -> tuple[str, Any] | tuple[str, Any, Any]:
    options = _options(schema)
    kind = None if name in _NEVER_PLAIN or len(options) > 1 else _kind(options[0])
    if field.is_required():
        return name, kind
    return name, kind if field.default is not None or kind is None else kind | None, field.default


def _kind(schema: dict[str, Any]) -> Any:
    if "enum" in schema or "const" in schema:
        return Literal[tuple(schema.get("enum", (schema.get("const"),)))]
    if schema.get("format") == "date-time":
        return Any  # read by `_moment`
    if schema.get("type") == "boolean":
        return bool
    if schema.get("type") == "object":
        return _dict(schema)
    if not _UNDERSTOOD.issuperset(schema) or schema.get("type") not in _KINDS:
        return None
    if schema.get("pattern", NO_CONTROL_CHARACTERS) != NO_CONTROL_CHARACTERS:
        return None
    if schema["type"] == "number":
        schema = {
            "type": "number",
            "minimum": max(schema.get("minimum", -PLAIN), -PLAIN),
            "maximum": min(schema.get("maximum", PLAIN), PLAIN),
        }
    return Annotated[_KINDS[schema["type"]], Meta(**_limits(schema))]


def _dict(schema: dict[str, Any]) -> Any:
    """The type of dictionaries with simple values and one pattern for all keys (`_KEY_FITS`), else None."""
    patterns, names = schema.get("patternProperties", {}), schema.get("propertyNames", {})
    if not _UNDERSTOOD_OF_DICTS.issuperset(schema) or not _UNDERSTOOD.issuperset(names) or len(patterns) != 1:
        return None
    [of_value] = patterns.values()
    value = _kind(of_value) if of_value.get("type") in _KINDS else None
    if value is None:
        return None
    key = Annotated[str, Meta(**_limits(names))]
    return Annotated[GenericAlias(dict, (key, value)), Meta(max_length=schema.get("maxProperties"))]


def _limits(schema: dict[str, Any]) -> dict[str, Any]:
    return {_LIMITS[name]: limit for name, limit in schema.items() if name in _LIMITS}


if TYPE_CHECKING:

    class Result(TrialResult):
        """The fields of a :class:`~streamer.schemas.events.TrialResult`, with the same values."""

    class TrialStart(TrialStarted):
        """The fields of a :class:`~streamer.schemas.events.TrialStarted`, with the same values."""

else:
    Result = _plain("Result", TrialResult)
    TrialStart = _plain("TrialStart", TrialStarted)


class WholeResult(Result):
    """A result read by pydantic: it may have FormulaCode's sections, artifacts and any text."""


_KEY_FITS = {
    name: lru_cache(maxsize=4096)(re.compile(pattern).search)
    for name, schema in _properties(TrialResult)
    for option in _options(schema)
    for pattern in option.get("patternProperties", ())
    if pattern != NO_CONTROL_CHARACTERS and name not in _NEVER_PLAIN
}
"""Whether a key fits each dictionary field. Keys repeat, and msgspec would match each one again."""

Inside: TypeAlias = Result | TrialStart | TrialRetracted | TrialScored | RunStarted | RunFinished | RunDeleted

_decode = msgspec.json.Decoder(Result).decode
_decode_start = msgspec.json.Decoder(TrialStart).decode


def inside(event: AnyEvent) -> Inside:
    if isinstance(event, TrialResult):
        return WholeResult(**event.__dict__)
    return TrialStart(**event.__dict__) if isinstance(event, TrialStarted) else event


def read(value: bytes | None) -> Inside | Reason:
    """The event in the bytes of a record, or the reason for its rejection; never raises."""
    if (plain := plain_event(value)) is not None:
        return plain
    event = decode(value)
    return event if isinstance(event, Reason) else inside(event)


def canonical_content(trial: Result, model: str) -> bytes:
    """Canonical JSON of :func:`streamer.schemas.events.known_content` with this model's name.

    msgspec leaves out a default by identity, and text that was read is never identical.
    """
    if model == UNKNOWN != trial.model:
        return canonical_json(orjson.loads(canonical_content(trial, trial.model)) | {"model": model})
    fields: Any = trial
    stored = fields.agent, fields.model, fields.revision, fields.schema_version
    fields.agent = UNKNOWN if trial.agent == UNKNOWN else trial.agent
    fields.model = UNKNOWN if model == UNKNOWN else model
    fields.revision, fields.schema_version = 0, 1
    content = encode_plain(fields)
    fields.agent, fields.model, fields.revision, fields.schema_version = stored
    return content


def _within_the_day(text: str) -> datetime:
    """The time in a text whose hour is below 24; Python reads 24 as midnight since 3.14."""
    if text[11:13] == "24":
        raise ValueError
    return datetime.fromisoformat(text)


_from_iso = datetime.fromisoformat if sys.version_info < (3, 14) else _within_the_day


def plain_event(value: bytes | None) -> Result | TrialStart | None:
    """The result or start in `value` if it is in the usual form of :func:`plain_trial`; else None.

    >>> plain_event(b'{"type": "trial_started", "run_id": "r", "task_id": "t", "position": 7}').position
    7
    """
    trial = plain_trial(value)
    if trial is not None or value is None or b'"trial_started"' not in value or not _may_be_plain(value):
        return trial
    try:
        result = _decode_start(value)
        start: Any = result
        if start.started_at is not None:
            start.started_at = _moment(start.started_at)
    except (ValueError, RecursionError):
        return None
    return result


def plain_trial(value: bytes | None) -> Result | None:
    """The result in `value` if it is in the usual form; else None, and `decode` must read it.

    Text beyond ASCII, escapes and times outside UTC are unusual, so control characters cannot occur.

    >>> plain_trial(b'{"type": "trial_result", "run_id": "r", "task_id": "t"}').task_id
    't'
    >>> plain_trial(b'{"type": "trial_result", "run_id": "r", "task_id": "t", "colour": 1}') is None
    True
    """
    if value is None or not _may_be_plain(value):
        return None
    try:
        result = _decode(value)
        trial: Any = result  # which may be changed, as mypy does not know
        for name, fits in _KEY_FITS.items():
            if not all(map(fits, getattr(result, name) or ())):
                return None
        if trial.started_at is not None:
            trial.started_at = _moment(trial.started_at)
        if trial.finished_at is not None:
            trial.finished_at = _moment(trial.finished_at)
    except (ValueError, RecursionError):
        return None
    return result


def _may_be_plain(value: bytes) -> bool:
    if not value.isascii() or 0x5C in value or 0x7F in value:
        return False
    return len(value) <= LARGE_EVENT_BYTES or (len(value) <= _MAX_BYTES and b'"benchmarks":{' not in value)


def _moment(text: Any) -> datetime:
    if text.__class__ is not str or text[_SEPARATORS] not in _SEPARATED:
        raise ValueError
    if len(text) not in (_LENGTHS_OFFSET if text[-6:] == "+00:00" else _LENGTHS_Z if text[-1] == "Z" else ()):
        raise ValueError
    moment = _from_iso(text)
    if not is_plausible(moment):
        raise ValueError
    return moment
