"""A taken event -> the record for the topic, or why it is invalid; in slices, so that no thread waits.
A thread that holds Python's lock keeps all others from running. To check 10,000 benchmarks in one go takes
ten milliseconds of that; so they are written and checked a few at a time, and others may run in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import orjson

from streamer.publish.capture import CapturedEvent, HeldBenchmarks, written
from streamer.publish.publisher import Outgoing
from streamer.schemas.canonical import canonical_json
from streamer.schemas.decode import Reason, decode
from streamer.schemas.limits import MAX_BENCHMARKS_PER_TRIAL, MAX_RECORD_BYTES

SLICE_ENTRIES = 64
"""Benchmarks written and checked at once: some 50 microseconds."""

_BEFORE, _AFTER = b'{"benchmarks":', b',"run_id":"r","task_id":"t","type":"trial_result"}'
"""An event around a slice of benchmarks, so that it can be checked alone: entries know nothing of others."""

CHANGED = Reason(
    "changed",
    "Field 'benchmarks' was changed after publish() had taken the event. Hand over a dictionary of its own "
    "for each event, and leave it alone.",
)


class NotWritten(Exception):
    """The benchmarks cannot be part of an event."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.message)
        self.reason = reason


def validate(taken: CapturedEvent, pause: Callable[[], object] = lambda: None) -> Outgoing | Reason:
    """The record of an event, or the reason why the worker would reject it.

    Args:
        taken: what `capture` gave.
        pause: called between slices of the work.

    >>> from streamer.publish.capture import capture
    >>> validate(capture({"type": "run_finished", "run_id": "r"})).value
    b'{"run_id":"r","type":"run_finished"}'
    >>> validate(capture({"type": "run_finished"})).message
    "Field 'run_id': Field required. See the JSON Schema of the event."
    """
    head = _head_of(taken)
    if taken.benchmarks is None:
        return reread(head)
    decoded = decode(_with_benchmarks(head, b"{}"))
    if isinstance(decoded, Reason):
        return decoded
    try:
        value = _with_benchmarks(head, _joined(taken.benchmarks, pause))
    except NotWritten as error:
        return error.reason
    too_large = len(value) > MAX_RECORD_BYTES
    if too_large or len(taken.benchmarks.content) > MAX_BENCHMARKS_PER_TRIAL:
        return reread(value)  # which says so
    return Outgoing(decoded.run_id.encode(), value)


def whole(taken: CapturedEvent) -> bytes:
    """JSON of an invalid event, to put it aside; without benchmarks that cannot be written."""
    head = _head_of(taken)
    if taken.benchmarks is None:
        return head
    try:
        return _with_benchmarks(head, canonical_json(taken.benchmarks.content))
    except (TypeError, RuntimeError):
        return head


def _head_of(taken: CapturedEvent) -> bytes:
    """Canonical JSON of an event except the benchmarks that are held."""
    if isinstance(taken.head, bytes):
        return taken.head
    apart = {"benchmarks"} if taken.benchmarks else None
    return canonical_json(taken.head.model_dump(mode="json", exclude_unset=True, exclude=apart))


def reread(value: bytes) -> Outgoing | Reason:
    """The record of an event that is written already."""
    decoded = decode(value)
    return decoded if isinstance(decoded, Reason) else Outgoing(decoded.run_id.encode(), value)


def _joined(held: HeldBenchmarks, pause: Callable[[], object]) -> bytes:
    """Benchmarks as JSON, in the order that they have.

    Raises:
        NotWritten: they hold what is not allowed, or were changed.
    """
    pieces = []
    try:
        for entries in _slices(held.content):
            pause()
            piece = written(entries, "benchmarks")
            if isinstance(piece, bytes) and isinstance(reason := decode(_BEFORE + piece + _AFTER), Reason):
                raise NotWritten(reason)
            if isinstance(piece, Reason):
                raise NotWritten(piece)
            pieces.append(piece[1:-1])
    except RuntimeError:  # changed its size meanwhile
        raise NotWritten(CHANGED) from None
    if held.is_changed:
        raise NotWritten(CHANGED)
    return b"{" + b",".join(pieces) + b"}"


def _slices(content: dict[str, Any]) -> Iterator[dict[str, Any]]:
    items = iter(content.items())
    while entries := dict(islice(items, SLICE_ENTRIES)):
        yield entries


def _with_benchmarks(head: bytes, benchmarks: bytes) -> bytes:
    """Canonical JSON of an object with one more field, put where it belongs.

    >>> _with_benchmarks(b'{"agent":"a","run_id":"r"}', b"{}")
    b'{"agent":"a","benchmarks":{},"run_id":"r"}'
    """
    fields: dict[str, Any] = orjson.loads(head)
    before = canonical_json({name: value for name, value in fields.items() if name < "benchmarks"})[1:-1]
    after = canonical_json({name: value for name, value in fields.items() if name > "benchmarks"})[1:-1]
    return b"{" + b",".join(filter(None, (before, b'"benchmarks":' + benchmarks, after))) + b"}"
