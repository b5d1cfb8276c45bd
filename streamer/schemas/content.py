"""The content of an event: what its fingerprint covers (R17), and what it states but does not have."""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json

from streamer.schemas.base import Message
from streamer.schemas.events import EVENT_TYPES, Event, RunStarted

_TIMES = ("started_at", "finished_at")
_DEFAULTS = {
    kind: [
        (name, field.default)
        for name, field in kind.model_fields.items()
        if not field.is_required() and field.default is not None and name != "revision"
    ]
    for kind in EVENT_TYPES
}
"""Per type of event, the fields whose default is not null, and that default."""


def known_content(event: Event) -> dict[str, Any]:
    """Known fields that differ from their default, revision left out: what the fingerprint covers (R17).

    Times are in UTC and a default that is written out is left out, so equal results have equal content.
    """
    content = {name: value for name, value in event.__dict__.items() if value is not None}
    content.pop("revision", None)
    for name, default in _DEFAULTS[type(event)]:
        if content.get(name) == default:
            del content[name]
    for name in ("tests", "snapshot"):
        if name in content:
            content[name] = _stated(content[name])
    if "artifacts" in content:
        content["artifacts"] = [_stated(artifact) for artifact in content["artifacts"]]
    if "metrics" in content and isinstance(event, RunStarted):
        content["metrics"] = {name: _stated(plan) for name, plan in content["metrics"].items()}
    return content


def _stated(part: Message) -> dict[str, Any]:
    """The fields of a part of an event that are not null."""
    return {name: value for name, value in part if value is not None}


def missing_times(event: Event, raw: bytes) -> int:
    """How many times the record states that the event does not have: they lie outside 2000 to 2200.

    >>> from streamer.schemas.events import EVENT
    >>> raw = b'{"type": "run_finished", "run_id": "r", "finished_at": "1970-01-01T00:00:00Z"}'
    >>> missing_times(EVENT.validate_json(raw), raw)
    1
    """
    known = event.__dict__
    empty = [name for name in _TIMES if name in event.model_fields_set and known.get(name, "") is None]
    if not empty:
        return 0
    stated = from_json(raw)  # as pydantic reads it: orjson refuses NaN, which an unknown field may have
    return sum(stated.get(name) is not None for name in empty)
