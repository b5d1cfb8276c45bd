"""The body of `POST /api/events` -> records for the event topic, and what the worker will reject of them.

An invalid event is published as it came, as `streamer publish --raw` does it. So the worker rejects it, with
its bytes, and the rejection topic has one writer. The answer is found by the function that the worker uses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from io import BytesIO

import msgspec

from streamer.publish.publisher import Outgoing
from streamer.records import MAX_KEPT_BYTES, records_of_lines
from streamer.schemas.decode import Reason, shown
from streamer.web.models import PublishedEvents, RejectedEvent
from streamer.web.problems import Refused

MAX_BODY_BYTES = 16 * 1024 * 1024
MAX_EVENTS = 100_000
"""Events in one body: so many objects stand in memory at once."""

MAX_EVENT_BYTES = MAX_KEPT_BYTES
"""A longer line could not be rejected with its bytes. The limit of a valid event is lower."""

SHOWN_REJECTIONS = 100

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[][{},]', re.DOTALL)
"""A text, or a mark that nests or separates, in valid JSON."""


class BodyKind(StrEnum):
    """The media types of a body."""

    LINES = "application/x-ndjson"
    JSON = "application/json"


class UnreadableBody(Refused):
    """The body as a whole is not what its media type says."""

    status = 400

    def __init__(self, found: str) -> None:
        super().__init__(
            f"The body cannot be read: {found}. Nothing was published. Send a JSON array of events (or one "
            f"event) as {BodyKind.JSON}, or one event per line as {BodyKind.LINES}"
        )


class BodyTooLarge(Refused):
    """The body, or one event in it, is larger than allowed."""

    status = 413

    def __init__(self, found: str, allowed: str) -> None:
        super().__init__(f"{found}; {allowed} are allowed. Nothing was published. Send smaller bodies")


@dataclass(frozen=True, slots=True)
class EventsRead:
    """What a body holds.

    Attributes:
        records: all its events in their order, invalid ones too.
        answer: what the client learns once the broker has them.
    """

    records: list[Outgoing]
    answer: PublishedEvents


def read_events(kind: BodyKind, body: bytes) -> EventsRead:
    r"""The events in a body.

    Raises:
        UnreadableBody: it is not JSON, or neither an array nor an object.
        BodyTooLarge: it has too many events, or an event is too large to be rejected with its bytes.

    >>> read = read_events(BodyKind.LINES, b'{"type": "run_finished", "run_id": "r"}\n{"type": "x"}\n')
    >>> [record.key for record in read.records], read.answer.accepted, read.answer.rejections[0].number
    ([b'r', None], 1, 2)
    """
    from streamer.decoding import event_in  # only this needs what folding needs

    records: list[Outgoing] = []
    rejections: list[RejectedEvent] = []
    rejected = 0
    for number, value in _numbered(kind, body):
        if len(records) == MAX_EVENTS:
            raise BodyTooLarge(f"The body has more than {MAX_EVENTS:,} events", f"{MAX_EVENTS:,}")
        if len(value) > MAX_EVENT_BYTES:
            raise BodyTooLarge(f"Event {number:,} has {len(value):,} bytes", f"{MAX_EVENT_BYTES:,} bytes")
        event, _ = event_in(value)
        if isinstance(event, Reason):
            rejected += 1
            if rejected <= SHOWN_REJECTIONS:
                rejections.append(RejectedEvent(number=number, code=event.code, message=event.message))
        records.append(Outgoing(None if isinstance(event, Reason) else event.run_id.encode(), value))
    return EventsRead(
        records,
        PublishedEvents(accepted=len(records) - rejected, rejected=rejected, rejections=rejections),
    )


def _numbered(kind: BodyKind, body: bytes) -> Iterable[tuple[int, bytes]]:
    """Each event as it was written, with its number from 1: of the line, or of the element."""
    if kind is BodyKind.LINES:
        return ((record.offset + 1, record.value or b"") for record in records_of_lines(BytesIO(body)))
    try:
        msgspec.json.decode(body, type=msgspec.Raw)  # is it JSON? This makes no objects
    except (msgspec.DecodeError, RecursionError) as error:
        found = "it nests too deeply" if isinstance(error, RecursionError) else str(error)
        raise UnreadableBody(found) from None
    body = body.strip()
    if body.startswith(b"{"):
        return [(1, body)]
    if body.startswith(b"["):
        return enumerate(_elements(body), 1)
    raise UnreadableBody(f"it is {shown(body)}")


def _elements(array: bytes) -> Iterator[bytes]:
    """The elements of an array that is valid JSON, as they were written.

    A JSON reader would make all objects of the array at once: 16 MiB of `0,` take 700 MB.

    >>> list(_elements(b'[ {"a": [1, "]"]}, 2 ]')), list(_elements(b"[ ]"))
    ([b'{"a": [1, "]"]}', b'2'], [])
    """
    depth, start = 0, 1
    for token in _TOKEN.finditer(array):
        mark = token[0]
        if mark in (b"[", b"{"):
            depth += 1
        elif mark in (b"]", b"}"):
            depth -= 1
        if depth == 0 or (depth == 1 and mark == b","):
            if value := array[start : token.start()].strip():
                yield value
            start = token.end()
