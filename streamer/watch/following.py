"""Following Redis as long as there is a viewer; an outage is shown and waited out."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING

from streamer.client.async_reader import AsyncStateReader
from streamer.client.change_feed import StateUpdate
from streamer.client.results import ReaderError, RedisUnavailable, WorkerStatus

if TYPE_CHECKING:
    from streamer.ops.rejections import StoredRejection

RETRY_SECONDS = 2.0
PULSE_SECONDS = 2.0
"""How often Redis is asked for a sign of life."""

REJECTIONS_KEPT = 500

Tell = Callable[[str | None], None]
"""Called with what is wrong, in a sentence; None: nothing (any more)."""


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
