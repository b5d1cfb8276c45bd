"""Records of the event topic, and what becomes of those that are not folded."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain, islice
from traceback import format_exception
from typing import Protocol, Self

from msgspec import Struct
from pydantic import TypeAdapter, ValidationError

from streamer.schemas.base import SEMANTICS_VERSION, Instant
from streamer.schemas.canonical import canonical_json
from streamer.schemas.decode import Reason, Unread
from streamer.schemas.identity import encode_id
from streamer.schemas.limits import LATEST_MICROSECONDS

NO_TIMESTAMP = -1
"""Timestamp of a record that has none."""

LATEST_TIMESTAMP = LATEST_MICROSECONDS // 1000
"""Later ones are microseconds, say, and no time of an event."""

MAX_REASON_CHARACTERS = 300
"""The reason of a failure stands in every summary of its run."""

MAX_KEPT_BYTES = 2 * 1024 * 1024
"""A rejected record larger than this is reported without its bytes: they would not fit a message."""

_BOM = b"\xef\xbb\xbf"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIME: TypeAdapter[datetime] = TypeAdapter(Instant)


class LogRecord(Protocol):
    """One record of the event topic, aiokafka's or ours; `timestamp` in Unix milliseconds, negative: none."""

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
    """A :class:`LogRecord` from elsewhere than Kafka."""

    value: bytes | None
    offset: int
    partition: int = 0
    timestamp: int = NO_TIMESTAMP
    key: bytes | None = None
    topic: str = "trial-events"
    headers: Sequence[tuple[str, bytes]] = ()


def records_of_lines(lines: Iterable[bytes], source: str = "-") -> Iterator[Record]:
    """Records of NDJSON lines: the offset is the line's number from 0, the topic the name of the source.

    Blank lines are ignored; a byte order mark and CRLF are tolerated.
    """
    left = iter(lines)
    first = (line.removeprefix(_BOM) for line in islice(left, 1))
    for number, line in enumerate(chain(first, left)):
        value = line.strip()
        if value:
            yield Record(value, number, 0, NO_TIMESTAMP, None, source)


def time_of(record: LogRecord) -> datetime | None:
    """The record's timestamp in UTC; None where it has none, or one after the year 2199.

    >>> str(time_of(Record(b"", 0, timestamp=1_700_000_000_000)))
    '2023-11-14 22:13:20+00:00'
    >>> time_of(Record(b"", 0, timestamp=1_700_000_000_000_000))
    """
    if not 0 <= record.timestamp <= LATEST_TIMESTAMP:
        return None
    return _EPOCH + timedelta(milliseconds=record.timestamp)


def may_name(run_id: str, value: bytes | None) -> bool:
    """Whether a record is worth decoding for a run: in JSON, a name stands as it is, or with escapes."""
    return value is not None and (run_id.encode() in value or b"\\" in value)


class BadPosition(ValueError):
    """A position that the log cannot be folded up to."""


@dataclass(frozen=True, slots=True)
class Position:
    """A place in one partition of the log, or in a file: an offset, or a time.

    Attributes:
        offset: of a record, as `state_version` says it; of a file the line's number from 0. None: a time.
        at: in UTC; compared with the timestamps of records. None: an offset.
    """

    offset: int | None = None
    at: datetime | None = None

    @classmethod
    def of(cls, text: str) -> Self:
        """The position that a user writes.

        Raises:
            BadPosition: it is neither an offset nor a time with a zone.

        >>> Position.of("41").offset, str(Position.of("2026-01-31T10:30:00+01:00"))
        (41, '2026-01-31T09:30:00Z')
        """
        if text.isascii() and text.isdigit() and len(text) < 20:
            return cls(offset=int(text))
        try:
            return cls(at=_TIME.validate_python(text))
        except ValidationError:
            raise BadPosition(
                f"{text[:80]!r} is neither an offset, as 41, nor a time with a zone, as 2026-01-31T09:30:00Z"
            ) from None

    def includes(self, record: LogRecord) -> bool:
        """Whether a record lies at or before the position.

        Raises:
            BadPosition: the position is a time, and the record has none.
        """
        if self.at is None:
            return self.offset is None or record.offset <= self.offset
        if record.timestamp < 0:
            raise BadPosition(
                f"the record at offset {record.offset} of {record.topic} has no timestamp, as the lines of a "
                "file have none: give an offset, which of a file is the line's number from 0"
            )
        return record.timestamp <= self.at.timestamp() * 1000

    def __str__(self) -> str:
        """As :meth:`of` reads it."""
        if self.at is None:
            return str(self.offset)
        return self.at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def up_to(records: Iterable[LogRecord], position: Position) -> Iterator[LogRecord]:
    """The records of one partition, or of a file, at or before a position; all with lower offsets come first.

    Raises:
        BadPosition: the log ends before that offset, or the position is a time and a record has none.
    """
    last: LogRecord | None = None
    for record in records:
        if position.offset is not None and record.offset > position.offset:
            return
        last = record
        if position.includes(record):
            yield record
    if position.offset is not None and last is not None and last.offset < position.offset:
        raise BadPosition(
            f"nothing is at offset {position.offset} yet: the last record is at offset {last.offset}"
        )


@dataclass(frozen=True, slots=True)
class Rejected:
    """A record for the rejection topic: `value` is a `Rejection` as JSON."""

    key: bytes | None
    value: bytes


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a run cannot be folded, saved or published.

    Attributes:
        run_id: the run.
        reason: what was raised, one line.
        record: the event at which it was raised; None if no event can be named.
        at: offset of the last event that the run had seen, -1 for none.
        trace: where it was raised, for our own eyes.
    """

    run_id: str
    reason: str
    record: LogRecord | None = None
    at: int = -1
    trace: str = ""

    @classmethod
    def of(cls, run_id: str, error: Exception, record: LogRecord | None = None, at: int = -1) -> Failure:
        """Of an exception that was just caught."""
        at = at if record is None else max(at, record.offset)
        return cls(run_id, reason_of(error), record, at, "".join(format_exception(error)))


def reason_of(error: Exception) -> str:
    """One line about an exception, of limited length.

    >>> reason_of(OverflowError("too large"))
    'OverflowError: too large'
    """
    text = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return text if len(text) <= MAX_REASON_CHARACTERS else f"{text[: MAX_REASON_CHARACTERS - 3]}..."


def reject(record: LogRecord, reason: Reason, run_id: str | None = None) -> Rejected:
    """The rejection of a record, with its bytes."""
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
    """Reading a record failed in a way that nobody thought of."""
    return Reason("cannot_be_read", f"Reading the event failed ({reason_of(error)}). Please report it.")


def set_apart(failure: Failure) -> Reason:
    """Folding an event failed; its run is in quarantine."""
    return Reason(
        "quarantined",
        f"Folding the run failed at this event ({failure.reason}). The run is in quarantine: its events stay "
        "in the log and are not counted. After an upgrade, or a repair of the log, fold it again with "
        "`streamer runs repair RUN`; or delete it with `streamer delete RUN`.",
    )
