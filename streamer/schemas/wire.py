"""Bytes, events, topics: decoding, results in their internal form, rejections, the order of versions."""

from __future__ import annotations

import re
import sys
from base64 import b64encode
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import chain, islice
from traceback import format_exception
from types import GenericAlias
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, Self, TypeAlias, get_args

import msgspec
import orjson
from msgspec import Meta, Struct
from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from streamer.schemas.base import (
    EVENT_SCHEMA_VERSION,
    LARGE_EVENT_BYTES,
    LATEST_MICROSECONDS,
    MAX_BENCHMARK_NAME_CHARACTERS,
    MAX_BENCHMARKS_PER_TRIAL,
    MAX_RECORD_BYTES,
    NO_CONTROL_CHARACTERS,
    PLAIN,
    SEMANTICS_VERSION,
    SHOWN_CHARACTERS,
    UNKNOWN,
    Instant,
    Message,
    canonical_json,
    encode_id,
    encode_plain,
    is_plausible,
    microseconds,
)
from streamer.schemas.events import (
    EVENT,
    EVENT_TYPES,
    AnyEvent,
    Event,
    RunDeleted,
    RunFinished,
    RunStarted,
    TrialResult,
    TrialRetracted,
    TrialScored,
    TrialStarted,
    judges_score,
)

# -----------------------------------------------------------------------------
# Bytes of a record -> an event, or the reason why not.
#
# Bad input is data: :func:`decode` never raises. Every reason says what is wrong, where, what is
# allowed and what to do.


_HUGE = 2.0**63
"""The value from which orjson may give a float for an integer, which must be rejected."""

_CODES = {
    "json_invalid": "not_json",
    "union_tag_invalid": "unknown_type",
    "union_tag_not_found": "unknown_type",
    "missing": "missing_field",
    "finite_number": "not_finite",
}

DAMAGED = frozenset({"empty", "not_json", "not_an_object"})
"""Codes of records that are not events of any version."""

_validate: Callable[[bytes], AnyEvent] = EVENT.validator.validate_json


@dataclass(frozen=True, slots=True)
class Reason:
    code: str
    message: str


class Unread(bytes):
    """Empty bytes in place of an unreadable value, with the reason."""

    reason: Reason

    def __new__(cls, reason: Reason) -> Unread:
        """Take the reason of the record's rejection."""
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
    """The result in `value` if its benchmarks have only floats; else None: validate it as a whole.

    orjson reads a large dictionary of ratios in half the time. The other fields are validated as usual.
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
    """Whether these are dictionaries of floats by name, without a float that may have been a huge integer."""
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
        tag, expected = first["ctx"]["tag"], first["ctx"]["expected_tags"]
        return Reason(
            "unknown_type", f"Field type: {shown(tag)} is not one of {expected}. Send one of those."
        )
    code = _CODES.get(kind, "invalid_field")
    got = "" if kind == "missing" else f", got {shown(first['input'])}"
    return Reason(code, f"Field {shown(where)}: {first['msg']}{got}{more}. See the JSON Schema of the event.")


def score_refused(event: object) -> Reason | None:
    """The reason why a publisher rejects a score, if it does. In a log such a score is missing (R13)."""
    score = event.score if isinstance(event, TrialResult | Result | TrialScored) else None
    if score is None or judges_score(score) is not None:
        return None
    return Reason(
        "score_out_of_range",
        f"Field 'score': {score:g} lies outside 0 to 1, the scale of a judge's score. Divide it by its "
        "maximum (85 of 100 becomes 0.85), or send it under metrics.",
    )


def missing_times_remark(run_id: str, count: int) -> str:
    """A sentence about times in a run's events that count as missing.

    >>> missing_times_remark("nightly", 2)[:60]
    "Run 'nightly': 2 times without a zone, or outside 2000 to 21"
    """
    times, counts = ("1 time", "counts") if count == 1 else (f"{count:,} times", "count")
    said = f"without a zone, or outside 2000 to 2199, {counts} as missing. Send RFC 3339 with a zone."
    return f"Run {shown(run_id)}: {times} {said}"


def shown(value: object) -> str:
    r"""A short printable form of hostile text: escaped and shortened.

    >>> shown("\x1b[31mred")
    "'\\x1b[31mred'"
    """
    text = ascii(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"


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


# -----------------------------------------------------------------------------
# Records of the event topic, and the outcome of records that are not folded.


NO_TIMESTAMP = -1

LATEST_TIMESTAMP = LATEST_MICROSECONDS // 1000
"""The last plausible timestamp in Unix milliseconds; later ones are microseconds, for example."""

MAX_REASON_CHARACTERS = 300
"""Limit for the reason of a failure, which every summary of the run repeats."""

MAX_KEPT_BYTES = 2 * 1024 * 1024
"""Size above which a rejected record is reported without its bytes, which would not fit a message."""

_BOM = b"\xef\xbb\xbf"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIME: TypeAdapter[datetime] = TypeAdapter(Instant)


class LogRecord(Protocol):
    @property
    def value(self) -> bytes | None: ...
    @property
    def offset(self) -> int: ...
    @property
    def partition(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def topic(self) -> str: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes]]: ...


class Record(Struct, frozen=True, gc=False):
    """A :class:`LogRecord` that does not come from Kafka."""

    value: bytes | None
    offset: int
    partition: int = 0
    timestamp: int = NO_TIMESTAMP
    key: bytes | None = None
    topic: str = "trial-events"
    headers: Sequence[tuple[str, bytes]] = ()


def records_of_lines(lines: Iterable[bytes], source: str = "-") -> Iterator[Record]:
    """Records of NDJSON lines; the offset is the line's number from 0, and the topic the source's name.

    Blank lines, a byte order mark and CRLF are accepted.
    """
    left = iter(lines)
    first = (line.removeprefix(_BOM) for line in islice(left, 1))
    for number, line in enumerate(chain(first, left)):
        value = line.strip()
        if value:
            yield Record(value, number, 0, NO_TIMESTAMP, None, source)


def time_of(record: LogRecord) -> datetime | None:
    """The record's timestamp in UTC; None if missing, or after the year 2199.

    >>> str(time_of(Record(b"", 0, timestamp=1_700_000_000_000)))
    '2023-11-14 22:13:20+00:00'
    >>> time_of(Record(b"", 0, timestamp=1_700_000_000_000_000))
    """
    if not 0 <= record.timestamp <= LATEST_TIMESTAMP:
        return None
    return _EPOCH + timedelta(milliseconds=record.timestamp)


def may_name(run_id: str, value: bytes | None) -> bool:
    """Whether a record may belong to a run: in JSON, its name appears literally or with escapes."""
    return value is not None and (run_id.encode() in value or b"\\" in value)


class BadPosition(ValueError):
    """A position up to which the log cannot be folded."""


@dataclass(frozen=True, slots=True)
class Position:
    """A position in one partition or file: an offset (in a file the line's number from 0), or a UTC time."""

    offset: int | None = None
    at: datetime | None = None

    @classmethod
    def of(cls, text: str) -> Self:
        """The position in a user's text: an offset, or a time with a zone. Raises BadPosition.

        >>> Position.of("41").offset, str(Position.of("2026-01-31T10:30:00+01:00"))
        (41, '2026-01-31T09:30:00Z')
        """
        if text.isascii() and text.isdigit() and len(text) < 20:
            return cls(offset=int(text))
        try:
            return cls(at=_TIME.validate_python(text))
        except ValidationError:
            raise BadPosition(
                f"{text[:80]!r} is neither an offset (41) nor a time with a zone (2026-01-31T09:30:00Z)"
            ) from None

    def includes(self, record: LogRecord) -> bool:
        """Whether a record is at or before the position; raises BadPosition if it needs a time and
        has none.
        """
        if self.at is None:
            return self.offset is None or record.offset <= self.offset
        if record.timestamp < 0:
            raise BadPosition(
                f"the record at offset {record.offset} of {record.topic} has no timestamp, because lines "
                "in a file have none: give an offset, which in a file is the line number from 0"
            )
        return record.timestamp * 1000 <= microseconds(self.at)

    def __str__(self) -> str:
        if self.at is None:
            return str(self.offset)
        return self.at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def up_to(records: Iterable[LogRecord], position: Position | None) -> Iterator[LogRecord]:
    """The records of one partition or file at or before a position, and all with lower offsets.

    Raises:
        BadPosition: the log ends before that offset, or the position is a time and a record has no time.
    """
    if position is None:
        yield from records
        return
    last: LogRecord | None = None
    for record in records:
        if position.offset is not None and record.offset > position.offset:
            return
        last = record
        if position.includes(record):
            yield record
    if position.offset is not None and last is not None and last.offset < position.offset:
        raise BadPosition(
            f"there is nothing at offset {position.offset} yet: the last record is at {last.offset}"
        )


@dataclass(frozen=True, slots=True)
class Rejected:
    """A record for the rejection topic: `value` is a `Rejection` as JSON."""

    key: bytes | None
    value: bytes


@dataclass(frozen=True, slots=True)
class Failure:
    """The exception that keeps a run from being folded, saved or published.

    `record` is the event that raised it, if known. `at` is the offset of the run's last event, or -1.
    """

    run_id: str
    reason: str
    record: LogRecord | None = None
    at: int = -1
    trace: str = ""

    @classmethod
    def of(cls, run_id: str, error: Exception, record: LogRecord | None = None, at: int = -1) -> Failure:
        at = at if record is None else max(at, record.offset)
        return cls(run_id, reason_of(error), record, at, "".join(format_exception(error)))


@dataclass(frozen=True, slots=True)
class Quarantine:
    """The reason for a quarantine, at the offset of the run's last event.

    `deleted_to` is the greatest revision of a later deletion, if any.

    >>> quarantine = Quarantine("OverflowError: too large", at=7)
    >>> Quarantine.read(quarantine.deleted(5).deleted(3).value()).deleted_to
    5
    """

    reason: str
    at: int
    deleted_to: int | None = None

    @classmethod
    def read(cls, value: bytes) -> Quarantine:
        told = orjson.loads(value)
        return cls(told["reason"], told["at"], told["deleted_to"])

    def value(self) -> bytes:
        return orjson.dumps({"reason": self.reason, "at": self.at, "deleted_to": self.deleted_to})

    def deleted(self, revision: int) -> Quarantine:
        """The quarantine after a deletion: the run must be folded again without the deleted events."""
        deleted_to = revision if self.deleted_to is None else max(revision, self.deleted_to)
        return replace(self, deleted_to=deleted_to)


def reason_of(error: Exception) -> str:
    """An exception as one line of limited length.

    >>> reason_of(OverflowError("too large"))
    'OverflowError: too large'
    """
    text = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return text if len(text) <= MAX_REASON_CHARACTERS else f"{text[: MAX_REASON_CHARACTERS - 3]}..."


def reject(record: LogRecord, reason: Reason, run_id: str | None = None) -> Rejected:
    value = record.value or b""
    kept = value if len(value) <= MAX_KEPT_BYTES and not isinstance(record.value, Unread) else None
    rejection = {
        "type": "rejection",
        "code": reason.code,
        "message": reason.message,
        "run_id": run_id,
        "semantics_version": SEMANTICS_VERSION,
        "source_topic": record.topic,
        "source_partition": record.partition,
        "source_offset": record.offset,
        "source_timestamp_ms": record.timestamp if record.timestamp >= 0 else None,
        "source_key_base64": None if record.key is None else b64encode(record.key).decode(),
        "source_value_base64": None if record.value is None or kept is None else b64encode(kept).decode(),
        "source_value_bytes": len(value),
    }
    key = record.key if run_id is None else encode_id(run_id).encode()
    return Rejected(key, canonical_json(rejection))


def unreadable(error: Exception) -> Reason:
    """The rejection of a record that could not be read for an unforeseen reason."""
    return Reason("cannot_be_read", f"Reading the event failed ({reason_of(error)}). Please report it.")


def quarantine_reason(failure: Failure) -> Reason:
    """The rejection of an event that failed, which put its run in quarantine."""
    return Reason(
        "quarantined",
        f"Folding the run failed at this event ({failure.reason}). The run is in quarantine: its events stay "
        "in the log and are not counted. After an upgrade, or a repair of the log, fold it again with "
        "`streamer runs repair RUN`; or delete it with `streamer delete RUN`.",
    )


# -----------------------------------------------------------------------------
# The order of two versions of one state, and the guard against late writers.
#
# Around a failure several workers write. A summary or a scored trial of a lower version, which one of them
# publishes late, must not replace a newer one.


Version: TypeAlias = tuple[int, int]
"""(epoch, state_version); the greater one is newer."""


def version_of(message: Mapping[str, Any]) -> Version:
    """The version in a published message.

    >>> version_of({"epoch": 2, "state_version": 7})
    (2, 7)
    """
    return message["epoch"], message["state_version"]


def is_older(version: Version, seen: Version | None) -> bool:
    """Whether a newer version was seen, so that this one is dropped; an equal version is not older.

    >>> is_older((1, 4), (1, 5)), is_older((1, 5), (1, 5)), is_older((2, 0), (1, 5)), is_older((1, 4), None)
    (True, False, False, False)
    """
    return seen is not None and version < seen


class Guard:
    """Remembers the newest version of each key, even after its deletion.

    >>> guard = Guard()
    >>> [guard.is_news("k", version) for version in ((1, 5), (1, 4), (1, 5), (2, 0), None)]
    [True, False, True, True, True]
    >>> guard.is_news("k", (1, 9))
    False
    """

    def __init__(self) -> None:
        self._newest: dict[Hashable, Version] = {}

    def is_news(self, key: Hashable, version: Version | None) -> bool:
        """False if a newer version of the key was seen; equal versions and deletions are accepted."""
        if version is None:
            return True
        if is_older(version, self._newest.get(key)):
            return False
        self._newest[key] = version
        return True


# -----------------------------------------------------------------------------
# The topics: their messages, keys and retention.


DEFAULT_PARTITIONS = 8
"""Default number of a topic's partitions, which never changes afterwards."""


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic, without its namespace prefix.

    Attributes:
        messages: the `type` of its values; empty if the format is private to the worker.
        compacted: Kafka keeps the latest value of each key; a record without a value is a tombstone.
        retention_ms: -1: without a limit; None: the broker's default.
        partitions: the number unless the deployment sets another.
    """

    name: str
    title: str
    description: str
    key: str
    action: Literal["receive", "send"] = "send"
    messages: tuple[str, ...] = ()
    compacted: bool = True
    retention_ms: int | None = None
    partitions: int = DEFAULT_PARTITIONS


def type_of(model: type[Message]) -> str:
    """The `type` in messages of this model.

    >>> type_of(EVENT_TYPES[0])
    'trial_result'
    """
    name: str = get_args(model.model_fields["type"].annotation)[0]
    return name


TOPICS: tuple[Topic, ...] = (
    Topic(
        "trial-events",
        "Events of harnesses",
        "What harnesses publish, one JSON object a record of at most 1 MiB. Everything is rebuilt from it. "
        "A record with the header `streamer-forwarded` has been sent on to its partition once.",
        "run_id in UTF-8, not encoded",
        "receive",
        tuple(map(type_of, EVENT_TYPES)),
        compacted=False,
        retention_ms=-1,
    ),
    Topic(
        "trial-rejections",
        "Rejected records",
        "Records of trial-events that were not folded, with their bytes and the way to mend them.",
        "the key of the rejected record, or the percent-encoded run_id where the partition was wrong",
        messages=("rejection",),
        compacted=False,
    ),
    Topic(
        "scored-trials",
        "Scored trials",
        "The winner of each slot with its numbers.",
        "run|shard|task|attempt|agent|model|tier|subtest, each percent-encoded, empty where null",
        messages=("scored_trial",),
    ),
    Topic(
        "grade-changes",
        "News",
        "Grades that moved and trials that were scored again. Which ones appear depends on batching.",
        "run_id, percent-encoded",
        messages=("grade_change", "rescored"),
        compacted=False,
    ),
    Topic(
        "agent-model-summaries",
        "Summaries of agent:models",
        "The running summary of each agent:model of a run.",
        "run|agent:model, ids percent-encoded",
        messages=("agent_model_summary",),
    ),
    Topic(
        "tier-summaries",
        "Summaries of tiers",
        "The running summary of each tier of a run, pooled and per agent:model within it.",
        "run|tier, or run|tier|agent:model within it, ids percent-encoded",
        messages=("tier_summary",),
    ),
    Topic(
        "run-summaries",
        "Summaries of runs",
        "The running summary of each run.",
        "run_id, percent-encoded",
        messages=("run_summary",),
    ),
    Topic(
        "run-comparisons",
        "Comparisons of agents",
        "Counts of every two agents of a run and the rank of each, published at most twice a second.",
        "run_id, percent-encoded",
        messages=("run_comparison",),
    ),
    Topic(
        "trials-changelog",
        "State pages",
        "State of the workers. Private: its format changes without notice.",
        "run/writer/page, run percent-encoded",
    ),
    Topic(
        "streamer-meta",
        "Epoch",
        "The epoch that summaries are published under. Private: its format changes without notice.",
        "name of the entry",
        partitions=1,
    ),
)
