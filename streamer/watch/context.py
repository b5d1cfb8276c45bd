"""What the screens use of the application that shows them, so that no screen imports the application."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any, Protocol

from streamer.client.async_reader import AsyncStateReader
from streamer.settings import Settings
from streamer.watch.following import Rejections, Tell


class WatchContext(Protocol):
    """One `watch`: where it reads, what time it is, and what all its screens show.

    Attributes:
        settings: where Redis and the broker are.
        reader: reads Redis.
        now: gives the time of the person who watches.
        rejections: rejected events of all runs.
        problems: what is wrong for all screens at the moment, by where.
    """

    settings: Settings
    reader: AsyncStateReader
    now: Callable[[], datetime]
    rejections: Rejections
    problems: dict[str, str]

    @property
    def where(self) -> str:
        """Address and namespace of the runs, without any password."""

    def crew(self) -> list[str]:
        """How many workers run, as a list of no or one text."""

    def spawn(self, work: Coroutine[Any, Any, None], tell: Tell) -> asyncio.Task[None]:
        """Run it until it is cancelled; `tell` is told of a mistake of ours in it."""
