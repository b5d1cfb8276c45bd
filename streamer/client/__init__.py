"""Publishing events and reading current state from Python.

Imports are lazy: a program that only publishes does not load Redis, and a reader loads no publisher.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamer.client.capture import Counts, EventsLost, InvalidEvent, InvalidEvents, NotAccepted
    from streamer.client.feeds import Update, subscribe
    from streamer.client.publisher import AsyncTrialPublisher, TrialPublisher
    from streamer.client.queries import (
        HistoryEntry,
        LeaderboardRow,
        NotReached,
        ReaderError,
        RedisUnavailable,
        UnknownRun,
        finished,
    )
    from streamer.client.readers import AsyncStateReader, StateReader, StateUpdate
    from streamer.operate import frames as frames  # needs extras, so `import *` leaves it out
    from streamer.settings import Settings


__all__ = [
    "AsyncStateReader",
    "AsyncTrialPublisher",
    "Counts",
    "EventsLost",
    "HistoryEntry",
    "InvalidEvent",
    "InvalidEvents",
    "LeaderboardRow",
    "NotAccepted",
    "NotReached",
    "ReaderError",
    "RedisUnavailable",
    "Settings",
    "StateReader",
    "StateUpdate",
    "TrialPublisher",
    "UnknownRun",
    "Update",
    "finished",
    "subscribe",
]

_HOMES = {
    "streamer.client.capture": ["Counts", "EventsLost", "InvalidEvent", "InvalidEvents", "NotAccepted"],
    "streamer.client.readers": ["AsyncStateReader", "StateReader", "StateUpdate"],
    "streamer.client.queries": [
        "HistoryEntry",
        "LeaderboardRow",
        "NotReached",
        "ReaderError",
        "RedisUnavailable",
        "UnknownRun",
        "finished",
    ],
    "streamer.client.feeds": ["Update", "subscribe"],
    "streamer.client.publisher": ["AsyncTrialPublisher", "TrialPublisher"],
    "streamer.settings": ["Settings"],
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "frames":
        return import_module("streamer.operate.frames")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
