"""Publish events and read current state, from code.

Everything is imported when it is first asked for: who publishes does not load Redis, and the other way round.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamer.client.async_reader import AsyncStateReader, StateUpdate
    from streamer.client.feeds import Update, subscribe
    from streamer.client.reader import StateReader
    from streamer.client.results import (
        HistoryEntry,
        LeaderboardRow,
        ReaderError,
        RedisUnavailable,
        UnknownRun,
    )
    from streamer.client.wait import NotReached, finished
    from streamer.publish.invalid_events import InvalidEvent, InvalidEvents
    from streamer.publish.results import Counts, EventsLost, NotAccepted
    from streamer.publish.trial_publisher import AsyncTrialPublisher, TrialPublisher
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
    "streamer.client.async_reader": ["AsyncStateReader", "StateUpdate"],
    "streamer.publish.results": ["Counts", "EventsLost", "NotAccepted"],
    "streamer.publish.invalid_events": ["InvalidEvent", "InvalidEvents"],
    "streamer.client.reader": ["StateReader"],
    "streamer.client.results": [
        "HistoryEntry",
        "LeaderboardRow",
        "ReaderError",
        "RedisUnavailable",
        "UnknownRun",
    ],
    "streamer.client.feeds": ["Update", "subscribe"],
    "streamer.publish.trial_publisher": ["AsyncTrialPublisher", "TrialPublisher"],
    "streamer.client.wait": ["NotReached", "finished"],
    "streamer.settings": ["Settings"],
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
