"""A reader's updates, collected while a worker in small writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from streamer.client import AsyncStateReader, StateUpdate
from streamer.folding.slots import SummaryChange
from streamer.settings import Settings
from streamer.storage.entries import Keys
from streamer.storage.redis import RedisSink
from tests.support.builders import an_update
from tests.support.owning import Owning

KEYS = Keys("team")
DEADLINE_SECONDS = 20


async def write(sink: RedisSink, *changes: SummaryChange) -> None:
    await sink.write([an_update(change) for change in changes])


class Worker:
    """Writes what it is told, and all of it again to a Redis that lost it, as workers do."""

    def __init__(self, settings: Settings) -> None:
        self.owned = Owning()
        self.sink = RedisSink.from_settings(settings, self.owned)

    async def write(self, *changes: SummaryChange) -> None:
        self.owned.put(*changes)
        await write(self.sink, *changes)


class Follower:
    """Collects updates in the background; the latest of each key, and how often each was told."""

    def __init__(self) -> None:
        self.told: list[StateUpdate] = []

    async def collect(self, updates: AsyncIterator[StateUpdate]) -> None:
        async for update in updates:
            self.told.append(update)

    @property
    def state(self) -> dict[str, tuple[int, int] | None]:
        """Version of each suffix as told last, None: deleted."""
        return {
            update.key.removeprefix("team:streamer:"): update.summary
            and (update.summary.epoch, update.summary.state_version)
            for update in self.told
        }

    async def until(self, **expected: Any) -> None:
        """Until `RUN_KIND=state_version` holds of the latest; None: deleted."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while any(self.version(name) != version for name, version in expected.items()):
                await asyncio.sleep(0.01)

    def version(self, name: str) -> int | str | None:
        run, _, kind = name.partition("_")
        told = [update for update in self.told if update.run_id == run and update.kind == kind]
        if not told:
            return "never told"
        return told[-1].summary.state_version if told[-1].summary else None


@asynccontextmanager
async def following(
    reader: AsyncStateReader, run_id: str | None = None, **more: bool
) -> AsyncIterator[Follower]:
    follower = Follower()
    task = asyncio.create_task(follower.collect(reader.updates(run_id, **more)))
    try:
        yield follower
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
