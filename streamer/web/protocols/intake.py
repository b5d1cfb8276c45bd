"""Events from HTTP clients: `POST /api/events`."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from io import BytesIO

import msgspec
from starlette.requests import Request

from streamer.client.publisher import PATIENCE_SECONDS
from streamer.schemas.wire import (
    MAX_KEPT_BYTES,
    Reason,
    missing_times_remark,
    records_of_lines,
    score_refused,
    shown,
)
from streamer.settings import Settings
from streamer.storage.kafka import said_of
from streamer.storage.outbox import EventOutbox, Outgoing, missing
from streamer.web.models import PublishedEvents, Refused, RejectedEvent

# -----------------------------------------------------------------------------
# The body of `POST /api/events` -> records for the event topic, and those that the worker will reject.
#
# An invalid event is published unchanged, as with `streamer publish --raw`. So the worker rejects it, with
# its bytes, and the rejection topic has one writer. The answer uses the worker's own function. A score
# outside 0 to 1 is not published: the worker would count the trial without it (R13).


MAX_BODY_BYTES = 16 * 1024 * 1024
MAX_EVENTS = 100_000
"""The most events in one body, because all of them are held in memory."""

MAX_EVENT_BYTES = MAX_KEPT_BYTES
"""The longest line that can be rejected with its bytes; valid events are shorter."""

SHOWN_REJECTIONS = 100

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[][{},]', re.DOTALL)


class BodyKind(StrEnum):
    LINES = "application/x-ndjson"
    JSON = "application/json"


class UnreadableBody(Refused):
    """The body as a whole does not match its media type."""

    status = 400

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"The body cannot be read: {reason}. Nothing was published. Send a JSON array of events (or one "
            f"event) as {BodyKind.JSON}, or one event per line as {BodyKind.LINES}"
        )


class BodyTooLarge(Refused):
    """The body, or one event in it, is larger than allowed."""

    status = 413

    def __init__(self, size: str, allowed: str) -> None:
        super().__init__(f"{size}; {allowed} are allowed. Nothing was published. Send smaller bodies")


@dataclass(frozen=True, slots=True)
class EventsRead:
    """The events of a body in order, including invalid ones, and the answer once the broker has them.

    Events with a score outside 0 to 1 are left out.
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
    from streamer.folding.fold import event_in  # only this needs the modules for folding

    records: list[Outgoing] = []
    rejections: list[RejectedEvent] = []
    events = rejected = 0
    ignored, missing = Counter[str](), Counter[str]()
    for number, value in _numbered(kind, body):
        if events == MAX_EVENTS:
            raise BodyTooLarge(f"The body has more than {MAX_EVENTS:,} events", f"{MAX_EVENTS:,}")
        if len(value) > MAX_EVENT_BYTES:
            raise BodyTooLarge(f"Event {number:,} has {len(value):,} bytes", f"{MAX_EVENT_BYTES:,} bytes")
        events += 1
        event, times, unknown = event_in(value)
        reason = event if isinstance(event, Reason) else score_refused(event)
        if reason is not None:
            rejected += 1
            if rejected <= SHOWN_REJECTIONS:
                rejections.append(RejectedEvent(number=number, code=reason.code, message=reason.message))
        if reason is None or reason is event:
            records.append(Outgoing.of(event, value))
        if reason is None and not isinstance(event, Reason):
            ignored.update(list(unknown))
            missing[event.run_id] += times
    remarks = [missing_times_remark(run, count) for run, count in missing.items() if count]
    answer = PublishedEvents(
        accepted=events - rejected,
        rejected=rejected,
        rejections=rejections,
        ignored=dict(ignored.most_common(SHOWN_REJECTIONS)),
        remarks=remarks[:SHOWN_REJECTIONS],
    )
    return EventsRead(records, answer)


def _numbered(kind: BodyKind, body: bytes) -> Iterable[tuple[int, bytes]]:
    if kind is BodyKind.LINES:
        return ((record.offset + 1, record.value or b"") for record in records_of_lines(BytesIO(body)))
    try:
        msgspec.json.decode(body, type=msgspec.Raw)  # a check for JSON that creates no objects
    except (msgspec.DecodeError, RecursionError) as error:
        reason = "it nests too deeply" if isinstance(error, RecursionError) else str(error)
        raise UnreadableBody(reason) from None
    body = body.strip()
    if body.startswith(b"{"):
        return [(1, body)]
    if body.startswith(b"["):
        return enumerate(_elements(body), 1)
    raise UnreadableBody(f"it is {shown(body)}")


def _elements(array: bytes) -> Iterator[bytes]:
    """The elements of an array that is valid JSON, as they were written.

    A JSON reader would create all objects of the array at once: 16 MiB of `0,` take 700 MB.

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


# -----------------------------------------------------------------------------
# Delivers the events of `POST /api/events` to the broker, and accepts only as many as fit into memory.


MAX_PENDING_BYTES = 4 * MAX_BODY_BYTES
"""The most bytes of bodies that are read or wait for the broker."""

MAX_BODIES = 8
"""The most bodies on their way to the broker: few enough that each record batch arrives in time."""

CONNECT_SECONDS = 10.0


class TooBusy(Refused):
    """Other bodies fill the memory."""

    status = 429
    again = True

    def __init__(self) -> None:
        super().__init__(
            f"{MAX_PENDING_BYTES // 2**20} MiB of events already wait for the broker. Nothing in this body "
            "was published. Send it again later"
        )


class NotPublished(Refused):
    status = 503
    again = True

    def __init__(self, bootstrap: str, error: Exception) -> None:
        said = said_of(error)
        super().__init__(
            f"The broker at {bootstrap} did not acknowledge all events: {said.rstrip('.')}. Send the same "
            "body again: duplicates do not count"
        )


class RefusedForSize(Refused):
    """The broker's size limit is lower than ours."""

    status = 413

    def __init__(self, bootstrap: str) -> None:
        super().__init__(
            f"The broker at {bootstrap} refuses an event as too large; others may be published. "
            "Send smaller events, or raise the event topic's max.message.bytes"
        )


class RefusedForGood(Refused):
    status = 422

    def __init__(self, bootstrap: str, error: Exception) -> None:
        super().__init__(
            f"The broker at {bootstrap} refuses events for good: {said_of(error).rstrip('.')}. Others in "
            "this body may be published. Sending it again does not help until the cause is fixed"
        )


class EventIntake:
    """The intake of a process. It connects at the first body, and again after a failure.

    `pending_bytes` is the size of bodies being read or waiting for the broker.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.pending_bytes = 0
        self._one_at_a_time = asyncio.Lock()
        self._on_the_way = asyncio.Semaphore(MAX_BODIES)
        self._link: EventOutbox | None = None

    @contextmanager
    def room_for(self, size: int) -> Iterator[None]:
        """Reserve memory for a body until its request is answered; raises TooBusy."""
        if self.pending_bytes + size > MAX_PENDING_BYTES:
            raise TooBusy
        self.pending_bytes += size
        try:
            yield
        finally:
            self.pending_bytes -= size

    async def read(self, kind: BodyKind, body: bytes) -> EventsRead:
        """The result of `read_events`, run in a thread for one body at a time, so that viewers do
        not wait.
        """
        async with self._one_at_a_time:
            return await asyncio.to_thread(read_events, kind, body)

    async def publish(self, records: Sequence[Outgoing]) -> None:
        """Publish these in order, and return once the broker has acknowledged all of them.

        Raises:
            NotPublished: some were not acknowledged, but may have arrived.
            RefusedForSize: the broker never accepts a record of this size.
            RefusedForGood: the broker rejects these for another reason.
        """
        try:
            link = await self._connected()
        except Exception as error:
            raise NotPublished(self._settings.bootstrap, error) from error
        async with self._on_the_way:
            results = await link.publish(records, PATIENCE_SECONDS)
        if link.broken:
            await self._forget(link)
        failures = missing(results)
        for failure in [one for one in failures if not one.refused] or failures:  # sending again may help
            if failure.too_large:
                raise RefusedForSize(self._settings.bootstrap)
            refusal = RefusedForGood if failure.refused else NotPublished
            raise refusal(self._settings.bootstrap, failure.error)

    async def close(self) -> None:
        if self._link is not None:
            await self._forget(self._link)

    async def _connected(self) -> EventOutbox:
        link = self._link = self._link or EventOutbox(self._settings)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await link.start()
        except Exception:
            await self._forget(link)
            raise
        return link

    async def _forget(self, link: EventOutbox) -> None:
        """Drop this connection: see `streamer.client.publisher.Delivery`."""
        if self._link is link:
            self._link = None
            await link.stop()


# -----------------------------------------------------------------------------
# `POST /api/events`: events from HTTP clients.


_ALLOWED = f"{MAX_BODY_BYTES:,} bytes"


class OtherMediaType(Refused):
    """A body whose media type is not JSON.

    This also keeps out other sites' pages: without a preflight, browsers send only other types.
    """

    status = 415

    def __init__(self, header: str, given: str) -> None:
        super().__init__(
            f"{header} is {ascii(given)[:200]}. Send {BodyKind.LINES} or {BodyKind.JSON}, in UTF-8, without "
            "Content-Encoding"
        )


async def publish_events(intake: EventIntake, request: Request) -> PublishedEvents:
    """Publish the events of a request's body, and return once the broker has acknowledged them.

    Raises Refused; no event was published, unless the message says otherwise.
    """
    kind = _kind(request)
    declared = request.headers.get("content-length")
    size = MAX_BODY_BYTES if declared is None else int(declared)
    if size > MAX_BODY_BYTES:
        raise BodyTooLarge(f"The body has {size:,} bytes", _ALLOWED)
    with intake.room_for(size):
        read = await intake.read(kind, await _body(request))
        await intake.publish(read.records)
    return read.answer


def _kind(request: Request) -> BodyKind:
    given = request.headers.get("content-type", "")
    media_type, *parameters = (part.strip().lower() for part in given.split(";"))
    utf8 = {"charset=utf-8", 'charset="utf-8"'}
    if media_type not in set(BodyKind) or not utf8.issuperset(filter(None, parameters)):
        raise OtherMediaType("Content-Type", given)
    encoding = request.headers.get("content-encoding", "identity")
    if encoding.strip().lower() != "identity":
        raise OtherMediaType("Content-Encoding", encoding)
    return BodyKind(media_type)


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise BodyTooLarge("The body is larger than allowed", _ALLOWED)
    return bytes(body)
