"""Taking an event from the thread of a harness, in some microseconds whatever its size.

All of a mapping is copied, by writing it as JSON. The exception is a `benchmarks` dictionary of more than a
few entries: to copy 10,000 of them takes half a millisecond. Such a dictionary is held, and so is a model;
the caller must not change them any more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from streamer.publish.invalid_events import AnEvent, InvalidEvent
from streamer.schemas.canonical import canonical_json
from streamer.schemas.decode import Reason, decode
from streamer.schemas.events import Event, TrialResult
from streamer.schemas.limits import MAX_RECORD_BYTES

COPIED_BENCHMARKS = 64
"""A dictionary of more benchmarks is held instead of copied."""

ENTRY_BYTES = 80
MODEL_BYTES = 1024
"""What an entry of it, and a model, are taken to weigh until they are written."""


class HeldBenchmarks:
    """A dictionary that belongs to the caller and must not change; notices when it was filled again."""

    __slots__ = ("_count", "_ends", "content")

    def __init__(self, content: dict[str, Any]) -> None:
        self.content = content
        self._count = len(content)
        self._ends = _ends(content)

    @property
    def is_changed(self) -> bool:
        """Whether it has other entries than at first; a change inside an entry is not noticed."""
        if len(self.content) != self._count:
            return True
        return any(now is not then for now, then in zip(_ends(self.content), self._ends, strict=True))


def _ends(content: dict[str, Any]) -> tuple[object, object, object, object]:
    """The first entry and the last one, without looking either up: that would fetch more of a cold table."""
    return *next(iter(content.items())), *next(reversed(content.items()))


class CapturedEvent(NamedTuple):
    """An event that is not checked yet.

    Attributes:
        head: the event, as canonical JSON or as a model, without what is in `benchmarks`.
        benchmarks: its benchmarks where they are held.
        size: about how many bytes it will have.
    """

    head: bytes | Event
    benchmarks: HeldBenchmarks | None
    size: int


def capture(event: AnEvent) -> CapturedEvent:
    """Take an event as it is now.

    Raises:
        TypeError: it is neither a mapping nor a model.
        InvalidEvent: it holds what JSON cannot, or too much.

    >>> capture({"type": "run_finished", "run_id": "r"}).head
    b'{"run_id":"r","type":"run_finished"}'
    """
    if event.__class__ is not dict:  # asked first: the other questions take ten times as long
        if isinstance(event, Event):
            held = _held(event.benchmarks) if isinstance(event, TrialResult) else None
            return CapturedEvent(event, held, MODEL_BYTES + _weight(held))
        if not isinstance(event, Mapping):
            kind = type(event).__name__
            raise TypeError(
                f"publish() takes an event, a mapping or a model of streamer.schemas.events, not {kind}"
            )
    held = _held(event.get("benchmarks"))
    if held is not None:
        event = dict(event)
        del event["benchmarks"]
    head = _written(event)
    return CapturedEvent(head, held, len(head) + _weight(held))


def written(content: Mapping[str, Any], where: str = "") -> bytes | Reason:
    """Canonical JSON, or why there is none; `where`: the field that it belongs to.

    >>> written({"b": 1, "a": None})
    b'{"a":null,"b":1}'
    >>> written({"a": [float("nan")]}).message
    "Field 'a.0' is not a finite number; leave it out."
    """
    try:
        value = canonical_json(content if isinstance(content, dict) else dict(content))
    except TypeError as error:  # orjson's JSONEncodeError
        message = f"The event cannot be written as JSON: {error}. Use dicts, lists, texts, numbers, times."
        return Reason("not_json", message)
    if b"null" in value and (place := _not_finite(content, where)):
        return Reason("not_finite", f"Field {place} is not a finite number; leave it out.")
    return value


def named(head: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Run and task of an event that may be none."""
    run_id, task_id = head.get("run_id"), head.get("task_id")
    return run_id if isinstance(run_id, str) else None, task_id if isinstance(task_id, str) else None


def _held(benchmarks: Any) -> HeldBenchmarks | None:
    """A dictionary to hold; None for what is copied with the rest, or is no dictionary at all."""
    if benchmarks is None or not (benchmarks.__class__ is dict or isinstance(benchmarks, Mapping)):
        return None
    if len(benchmarks) <= COPIED_BENCHMARKS:
        return None
    return HeldBenchmarks(benchmarks if isinstance(benchmarks, dict) else dict(benchmarks))


def _weight(held: HeldBenchmarks | None) -> int:
    return ENTRY_BYTES * len(held.content) if held else 0


def _written(event: Mapping[str, Any]) -> bytes:
    head = written(event)
    if isinstance(head, bytes) and len(head) > MAX_RECORD_BYTES:
        reason = decode(head)
        assert isinstance(reason, Reason)
        raise InvalidEvent(reason, *named(event))
    if isinstance(head, Reason):
        raise InvalidEvent(head, *named(event))
    return head


def _not_finite(value: Any, where: str) -> str | None:
    """Path of the first float that JSON would turn into null, None if there is none."""
    if isinstance(value, float):
        return None if math.isfinite(value) else ascii(where)
    items: Any = ()
    if isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, list | tuple):
        items = enumerate(value)
    for name, part in items:
        if found := _not_finite(part, f"{where}.{name}" if where else str(name)):
            return found
    return None
