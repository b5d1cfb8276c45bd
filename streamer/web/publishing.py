"""`POST /api/events`: events from programs that speak HTTP."""

from __future__ import annotations

from starlette.requests import Request

from streamer.web.event_bodies import MAX_BODY_BYTES, BodyKind, BodyTooLarge
from streamer.web.event_intake import EventIntake
from streamer.web.models import PublishedEvents
from streamer.web.problems import Refused

_ALLOWED = f"{MAX_BODY_BYTES:,} bytes"


class OtherMediaType(Refused):
    """A body that is not JSON by its own account.

    The rule also protects from pages of other sites: without asking first, a browser sends only other types.
    """

    status = 415

    def __init__(self, header: str, given: str) -> None:
        super().__init__(
            f"{header} is {ascii(given)[:200]}. Send {BodyKind.LINES} or {BodyKind.JSON}, in UTF-8, without "
            "Content-Encoding"
        )


async def publish_events(intake: EventIntake, request: Request) -> PublishedEvents:
    """Publish the events in the body of a request; returns once the broker has acknowledged them.

    Raises:
        Refused: no event was published, unless the message says otherwise.
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
    """All of it; BodyTooLarge as soon as it is."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise BodyTooLarge("The body is larger than allowed", _ALLOWED)
    return bytes(body)
