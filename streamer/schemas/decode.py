"""Bytes of a record -> an event, or the reason why not.

Bad input is data: :func:`decode` never raises. Every reason says what is wrong, where, what is
allowed and what to do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import orjson
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from streamer.schemas.base import EVENT_SCHEMA_VERSION, SHOWN_CHARACTERS
from streamer.schemas.events import EVENT, AnyEvent, TrialResult
from streamer.schemas.limits import (
    LARGE_EVENT_BYTES,
    MAX_BENCHMARK_NAME_CHARACTERS,
    MAX_BENCHMARKS_PER_TRIAL,
    MAX_RECORD_BYTES,
)

_HUGE = 2.0**63
"""From here on, orjson gives a float where the text may have had an integer, which has to be refused."""

_CODES = {
    "json_invalid": "not_json",
    "union_tag_invalid": "unknown_type",
    "union_tag_not_found": "unknown_type",
    "missing": "missing_field",
    "finite_number": "not_finite",
}

DAMAGED = frozenset({"empty", "not_json", "not_an_object"})
"""Codes of records that never were events of any version."""

_validate: Callable[[bytes], AnyEvent] = EVENT.validator.validate_json


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a record was not folded.

    Attributes:
        code: stable, for programs.
        message: a sentence for people.
    """

    code: str
    message: str


class Unread(bytes):
    """Empty bytes in the place of a value that could not be read, with the reason."""

    reason: Reason

    def __new__(cls, reason: Reason) -> Unread:
        """Args: reason: of the rejection that the record becomes."""
        unread = super().__new__(cls)
        unread.reason = reason
        return unread


def decode(value: bytes | None) -> AnyEvent | Reason:
    """The event in `value`, or the reason for its rejection.

    >>> decode(b'{"type": "run_finished", "run_id": "r"}').run_id
    'r'
    >>> decode(b'[]').code
    'not_an_object'
    """
    if value is None or not value:
        if isinstance(value, Unread):
            return value.reason
        return Reason(
            "empty", "The record has no value; an event is one JSON object. Publish events with a value."
        )
    if len(value) > MAX_RECORD_BYTES:
        return Reason(
            "too_large",
            f"The record has {len(value):,} bytes; {MAX_RECORD_BYTES:,} are allowed. "
            "Send ratios instead of sample lists, or fewer benchmarks in one event.",
        )
    try:
        return _with_plain_benchmarks(value) or _validate(value)
    except ValidationError as error:
        return _reason(error.errors(include_url=False), value)


def _with_plain_benchmarks(value: bytes) -> AnyEvent | None:
    """The result in `value`, if it has benchmarks and all their values are floats; None: validate it whole.

    A large dictionary of ratios is most of an event's bytes. orjson reads it in half the time, and looking at
    its values needs no model. The other fields are validated as usual.
    """
    if len(value) < LARGE_EVENT_BYTES or b'"benchmarks"' not in value:
        return None
    try:
        fields = orjson.loads(value)
        benchmarks = fields["benchmarks"]
        if fields.get("claimed") is not None or not _is_plain(benchmarks):
            return None
        fields["benchmarks"] = {}
        event = _validate(orjson.dumps(fields))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    if isinstance(event, TrialResult) and not event.model_extra:  # orjson would round a huge integer there
        event.__dict__["benchmarks"] = benchmarks
        return event
    return None


def _is_plain(benchmarks: object) -> bool:
    """Whether these are names with dictionaries of floats, and no value can have been a huge integer."""
    if not isinstance(benchmarks, dict) or len(benchmarks) > MAX_BENCHMARKS_PER_TRIAL:
        return False
    for name, entry in benchmarks.items():
        if len(name) > MAX_BENCHMARK_NAME_CHARACTERS:
            return False
        if entry.__class__ is not dict:
            return False
        for number in entry.values():
            if number.__class__ is not float or not -_HUGE < number < _HUGE:
                return False
    return True


def _reason(errors: list[ErrorDetails], value: bytes) -> Reason:
    first = errors[0]
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    kind = first["type"]
    if kind == "json_invalid":
        return Reason(
            "not_json", f"The record is not JSON: {first['ctx']['error']}. Send one UTF-8 JSON object."
        )
    if not first["loc"] and kind == "dict_type":
        return Reason(
            "not_an_object", f"The record is not a JSON object but {shown(value)}. Send one JSON object."
        )
    where = ".".join(str(part) for part in first["loc"][1:]) or "type"
    if where == "schema_version":
        return Reason(
            "unknown_schema_version",
            f"schema_version is {shown(first['input'])}; this version reads {EVENT_SCHEMA_VERSION}. "
            "Upgrade the worker, then requeue.",
        )
    if kind == "union_tag_not_found":
        return Reason("unknown_type", f"Field type: {first['msg']}. Send one of the published event types.")
    if kind == "union_tag_invalid":
        tag, known = first["ctx"]["tag"], first["ctx"]["expected_tags"]
        return Reason("unknown_type", f"Field type: {shown(tag)} is none of {known}. Send one of those.")
    code = _CODES.get(kind, "invalid_field")
    got = "" if kind == "missing" else f", got {shown(first['input'])}"
    return Reason(code, f"Field {shown(where)}: {first['msg']}{got}{more}. See the JSON Schema of the event.")


def shown(value: object) -> str:
    r"""A short printable form of hostile text: escaped and cut.

    >>> shown("\x1b[31mred")
    "'\\x1b[31mred'"
    """
    text = ascii(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"
