"""What the screens use of the application that shows them, so that no screen imports the application."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from streamer.client.async_reader import AsyncStateReader
from streamer.settings import Settings
from streamer.watch.following import Rejections, Tell


@dataclass(frozen=True, slots=True)
class Session:
    """A command that shows the screens while it works.

    Attributes:
        is_over: True once the work is over; the screens end then.
        messages: the lines for the user since the last call.
        shows: whether a run, by its id, belongs to the work.
        opens: the run whose screen is opened as soon as this names one.
    """

    is_over: Callable[[], bool]
    messages: Callable[[], Sequence[str]]
    shows: Callable[[str], bool]
    opens: Callable[[], str | None]


class WatchContext(Protocol):
    """One `watch`: where it reads, what time it is, and what all its screens show.

    Attributes:
        settings: where Redis and the broker are.
        reader: reads Redis.
        now: gives the time of the person who watches.
        rejections: rejected events of all runs.
        problems: what is wrong for all screens at the moment, by where.
        budget_usd: what a run should not cost more than, USD; None: no budget.
    """

    settings: Settings
    reader: AsyncStateReader
    now: Callable[[], datetime]
    rejections: Rejections
    problems: dict[str, str]
    budget_usd: float | None

    @property
    def where(self) -> str:
        """Address and namespace of the runs, without any password."""

    def shows(self, run_id: str) -> bool:
        """True if the list of runs shows this one."""

    def crew(self) -> list[str]:
        """How many workers run, as a list of no or one text."""

    def spawn(self, work: Coroutine[Any, Any, None], tell: Tell) -> asyncio.Task[None]:
        """Run it until it is cancelled; a mistake of ours in it is passed to `tell`."""
