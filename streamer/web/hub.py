"""One Redis subscription for all viewers of this process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing

from sse_starlette import ServerSentEvent

from streamer.client.async_reader import AsyncStateReader, StateUpdate
from streamer.client.change_feed import AnyState
from streamer.client.results import ReaderError
from streamer.views.history import group_of
from streamer.web.models import Health
from streamer.web.problems import Refused
from streamer.web.rooms import GroupKey, Room, event_bytes

log = logging.getLogger("streamer.web")

MAX_VIEWERS = 1000
MAX_IDLE_ROOMS = 32
"""So many runs without viewers are kept, so that those who come back get only what changed."""

RETRY_SECONDS = 2.0
PACE_SECONDS = 0.25
"""A viewer gets at most four updates a second."""

STATES_SECONDS = 5.0
"""How often runs are looked through for those that have fallen silent. It needs no request."""

RETRY = ServerSentEvent(retry=1000, sep="\n").encode()
"""A browser that loses its stream comes back after a second."""

TOLD = event_bytes("told", {})
"""Now the viewer knows everything: time to draw."""


class TooManyViewers(Refused):
    """The process has no room for one more."""

    status = 503

    def __init__(self) -> None:
        super().__init__(f"{MAX_VIEWERS} viewers follow already: close some pages, or start a second server")


class Hub:
    """Follows Redis once, and lets any number of viewers know.

    Args:
        reader: answers questions about runs and follows their updates.
    """

    def __init__(self, reader: AsyncStateReader) -> None:
        self._reader = reader
        self._rooms: dict[str | None, Room] = {}
        self._filling: dict[str | None, asyncio.Task[None]] = {}
        self._closing = False
        self._problem: str | None = None
        self._subscriptions = 0
        self._viewers = 0

    async def health(self) -> Health:
        """How it stands; asks Redis for a sign of life."""
        problem = self._problem
        try:
            await self._reader.workers()
        except ReaderError as error:
            problem = str(error)
        return Health(
            following=problem is None,
            viewers=self._viewers,
            rooms=len(self._rooms),
            subscriptions=self._subscriptions,
            problem=problem,
        )

    async def follow(self) -> None:
        """Follow Redis until cancelled; an outage is sat out. Each one is logged once, not at each try."""
        logged: str | None = None
        while True:
            self._subscriptions = 1
            try:
                self._problem = None
                async with aclosing(self._reader.updates()) as updates:  # type: ignore[type-var]
                    async for update in updates:
                        logged = None
                        self._apply(update)
            except ReaderError as error:
                self._problem = str(error)
                if logged != self._problem:
                    log.warning("%s", error)
                logged = self._problem
            except Exception as error:  # a mistake of ours must not end the boards for good
                log.exception("Following Redis failed")
                self._problem = f"{type(error).__name__} in the server; its log says more"
            finally:
                self._subscriptions = 0
            await asyncio.sleep(RETRY_SECONDS)

    async def watch_states(self) -> None:
        """Tell the viewers of runs that have stalled or are left unfinished, until cancelled."""
        while True:
            await asyncio.sleep(STATES_SECONDS)
            for room in self._rooms.values():
                room.tell_states()

    def close(self) -> None:
        """End all streams."""
        self._closing = True
        for room in self._rooms.values():
            room.wake()

    async def enter(self, run_id: str | None) -> Room:
        """The room of a run (None: of the list of runs), filled. Must be left again with :meth:`leave`.

        Raises:
            TooManyViewers: come back later.
            UnknownRun, RedisUnavailable: from reading what stands in Redis.
        """
        if self._viewers >= MAX_VIEWERS:
            raise TooManyViewers
        room = self._rooms.get(run_id) or Room()
        self._rooms.pop(run_id, None)
        self._rooms[run_id] = room  # the last one in the order of eviction
        room.viewers += 1
        self._viewers += 1
        try:
            if not room.filled and run_id not in self._filling:
                self._filling[run_id] = asyncio.create_task(self._fill(run_id, room))
            if filling := self._filling.get(run_id):
                await asyncio.shield(filling)
        except BaseException:
            self.leave(run_id, room)
            if not room.filled and self._rooms.get(run_id) is room and not room.viewers:
                del self._rooms[run_id]
            raise
        return room

    def leave(self, run_id: str | None, room: Room) -> None:
        """A viewer goes; rooms without viewers are kept for a while."""
        room.viewers -= 1
        self._viewers -= 1
        idle = [name for name, other in self._rooms.items() if not other.viewers and name is not None]
        for name in idle[: max(0, len(idle) - MAX_IDLE_ROOMS)]:
            del self._rooms[name]

    async def stream(self, room: Room, last_event_id: str | None) -> AsyncIterator[bytes]:
        """Server-sent events for one viewer: what it missed, or everything, then what changes."""
        yield RETRY
        position = room.position(last_event_id)
        if position is None:
            yield event_bytes("snapshot", {})
            position = 0
        while not self._closing:
            frames, position = room.since(position)
            for frame in frames:
                yield frame
            yield TOLD
            await room.wait(position)
            await asyncio.sleep(PACE_SECONDS)

    async def _fill(self, run_id: str | None, room: Room) -> None:
        try:
            found: list[AnyState] = []
            if run_id is None:
                found += await self._reader.runs()
            else:
                snapshot = await self._reader.snapshot(run_id)
                found += [snapshot.run, *snapshot.agents, *snapshot.tiers]
            room.fill(found)
        finally:
            del self._filling[run_id]

    def _apply(self, update: StateUpdate) -> None:
        names = (update.run_id, None) if update.kind == "run" else (update.run_id,)
        for name in names:
            if room := self._rooms.get(name):
                if update.summary is None:
                    room.remove(_key(update))
                else:
                    room.put(update.summary)


def _key(update: StateUpdate) -> GroupKey:
    """The run or group of an update, from the suffix of its key."""
    tier, agent_model = group_of(update.kind, update.group)
    return update.run_id, f"{update.kind}_summary", tier or "", agent_model or ""
