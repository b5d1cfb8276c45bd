"""Following Redis as long as there is a viewer; an outage is shown and waited out."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from contextlib import aclosing
from datetime import datetime
from typing import TYPE_CHECKING

from streamer.client.async_reader import AsyncStateReader
from streamer.client.change_feed import StateUpdate
from streamer.client.results import ReaderError, RedisUnavailable, RunSnapshot, WorkerStatus
from streamer.views.outlook import Outlook, outlook_of

if TYPE_CHECKING:
    from streamer.ops.rejections import StoredRejection

RETRY_SECONDS = 2.0
PULSE_SECONDS = 2.0
"""How often Redis is asked for a sign of life."""

OUTLOOK_SECONDS = 2.0
"""How often running trials and places are looked at."""

REJECTIONS_KEPT = 500

Tell = Callable[[str | None], None]
"""Called with what is wrong, in a sentence; None: nothing (any more)."""


def noting(problems: dict[str, str], where: str, changed: Callable[[], None]) -> Tell:
    """A `Tell` that keeps what is wrong there among the problems, and says that they changed."""

    def tell(problem: str | None) -> None:
        if problem is None:
            problems.pop(where, None)
        else:
            problems[where] = problem
        changed()

    return tell


async def follow_state(
    reader: AsyncStateReader, run_id: str | None, take: Callable[[StateUpdate], None], tell: Tell
) -> None:
    """Everything about a run (None: all runs) as it stands, then each change, until cancelled."""
    while True:
        try:
            async with aclosing(reader.updates(run_id)) as updates:  # type: ignore[type-var]
                async for update in updates:
                    tell(None)
                    take(update)
        except RedisUnavailable:
            pass  # told by `feel_pulse`
        except ReaderError as error:
            tell(str(error))
        await asyncio.sleep(RETRY_SECONDS)


async def follow_outlook(
    reader: AsyncStateReader,
    run_id: str,
    now: Callable[[], datetime],
    take: Callable[[RunSnapshot, Outlook], None],
) -> None:
    """The running trials, the places and the forecasts of a run, whenever it has changed, until cancelled."""
    digest = ""
    while True:
        try:
            found = await reader.snapshot(run_id)
            if found.run.digest != digest:
                compared = await reader.comparison(run_id)
                digest = found.run.digest
                take(found, outlook_of(found.run, found.agents, found.in_flight, compared, now()))
        except ReaderError:
            pass  # told by those who follow the run itself
        await asyncio.sleep(OUTLOOK_SECONDS)


async def feel_pulse(
    reader: AsyncStateReader, take: Callable[[list[WorkerStatus]], None], tell: Tell
) -> None:
    """Whether Redis answers, and the workers' heartbeats, until cancelled."""
    while True:
        try:
            workers = await reader.workers()
        except ReaderError as error:
            tell(f"Trying again; what stands below may be old. {error}")
        else:
            tell(None)
            take(workers)
        await asyncio.sleep(PULSE_SECONDS)


class Rejections:
    """The rejections: how many of each run, and the newest.

    Attributes:
        counts: run id to how many; None for those that name no run.
        problem: why they are not known.
    """

    def __init__(self) -> None:
        self.counts: Counter[str | None] = Counter()
        self.problem: str | None = None
        self._newest: deque[StoredRejection] = deque(maxlen=REJECTIONS_KEPT)

    def restart(self) -> None:
        """The rejections will be sent from the beginning."""
        self.counts.clear()
        self._newest.clear()

    def take(self, rejected: StoredRejection) -> None:
        """One more."""
        self.counts[rejected.run_id] += 1
        self._newest.append(rejected)

    def newest(self, run_id: str) -> list[StoredRejection]:
        """The newest of a run, newest first."""
        return [rejected for rejected in reversed(self._newest) if rejected.run_id == run_id]
