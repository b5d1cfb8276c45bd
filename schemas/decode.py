"""Bytes of a record -> an event, or the reason why not.

Bad input is data: :func:`decode` never raises. Every reason says what is wrong, where, what is
allowed and what to do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from schemas.base import MAX_RECORD_BYTES
from schemas.events import EVENT, AnyEvent

_SHOWN_CHARACTERS = 80
_CODES = {
    "json_invalid": "not_json",
    "union_tag_invalid": "unknown_type",
    "union_tag_not_found": "unknown_type",
    "missing": "missing_field",
    "finite_number": "not_finite",
}

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


def decode(value: bytes | None) -> AnyEvent | Reason:
    """The event in `value`, or the reason for its rejection.

    >>> decode(b'{"type": "run_finished", "run_id": "r"}').run_id
    'r'
    >>> decode(b'[]').code
    'not_an_object'
    """
    if value is None or not value:
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
        return _validate(value)
    except ValidationError as error:
        return _reason(error.errors(include_url=False), value)


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
            f"schema_version is {shown(first['input'])}; this version reads 1. "
            "Upgrade the worker, then requeue.",
        )
    if kind in {"union_tag_invalid", "union_tag_not_found"}:
        return Reason("unknown_type", f"Field type: {first['msg']}. Send one of the published event types.")
    code = _CODES.get(kind, "invalid_field")
    got = "" if kind == "missing" else f", got {shown(first['input'])}"
    return Reason(code, f"Field {shown(where)}: {first['msg']}{got}{more}. See the JSON Schema of the event.")


def shown(value: object) -> str:
    r"""A short printable form of hostile text: escaped and cut.

    >>> shown("\x1b[31mred")
    "'\\x1b[31mred'"
    """
    text = ascii(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"
