"""One Redis subscription for all viewers of this process."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import orjson
from sse_starlette import ServerSentEvent

from streamer.client.queries import RUNS_PER_PAGE, AnyState, ReaderError
from streamer.client.readers import AsyncStateReader, StateUpdate
from streamer.schemas.base import canonical_json
from streamer.schemas.summaries import Leader, RunSummary, TierSummary, state_of
from streamer.schemas.wire import Version, is_older
from streamer.views.decide.leaderboard import group_of
from streamer.views.models import ListedRun
from streamer.web.models import Health, Refused

# -----------------------------------------------------------------------------
# The state that all viewers of one run share: its current summaries, each written as an event.
#
# A viewer gets, at its own pace, the changes since its last update: the latest version of each summary, not
# every one in between. So a slow viewer only costs its position, and ends with the same state as a fast one.


GroupKey = tuple[str, str, str, str]
"""Run id, type, tier or "", agent:model or ""."""


@dataclass(frozen=True, slots=True)
class _Latest:
    revision: int
    version: Version
    digest: str | None
    frame: bytes
    state: Json | None


Json = dict[str, Any]


def _wall_clock() -> datetime:
    return datetime.now(UTC)


class Room:
    """Summaries by key, in order of change; a deleted one stays, to announce the deletion.

    The `most_runs` most recently changed runs are kept (None: all). `kept` holds viewers' drawings by query.
    """

    def __init__(self, clock: Callable[[], datetime] = _wall_clock, most_runs: int | None = None) -> None:
        self._clock, self._most_runs = clock, most_runs
        self._runs: dict[GroupKey, ListedRun] = {}
        self._incarnation = secrets.token_hex(6)
        self._entries: dict[GroupKey, _Latest] = {}
        self._revision = self._dropped = 0
        self._changed = asyncio.Event()
        self._from_stream: set[GroupKey] | None = set()
        self.viewers = 0
        self.kept: dict[object, Any] = {}

    @property
    def revision(self) -> int:
        """A counter that grows with each change."""
        return self._revision

    @property
    def states(self) -> list[Json]:
        return [entry.state for entry in self._entries.values() if entry.state is not None]

    def touch(self) -> None:
        """Count a change outside the summaries that affects drawings."""
        self._revision += 1
        self.wake()

    @property
    def filled(self) -> bool:
        return self._from_stream is None

    def begin_fill(self) -> None:
        self._from_stream = self._from_stream or set()

    def fill(self, summaries: Iterable[AnyState], leaders: Mapping[str, Leader] | None = None) -> None:
        """Take the content of Redis from a moment ago; later updates and deletions take precedence."""
        told, self._from_stream = self._from_stream or set(), None
        for summary in summaries:
            if (key := key_of(summary)) in self._runs:
                self._runs[key] = self._runs.pop(key)  # one of the last that came
            if key not in told:
                self.put(summary, (leaders or {}).get(summary.run_id))

    def put(self, summary: AnyState, leader: Leader | None = None) -> None:
        """Take a summary; an older or equal one changes nothing."""
        key = key_of(summary)
        version = (summary.epoch, summary.state_version)
        before = self._entries.get(key)
        is_stored = before is not None and before.digest is not None
        if before is not None and is_stored and is_older(version, before.version):
            return
        if before is not None and (version, summary.digest) == (before.version, before.digest):
            return
        if isinstance(summary, RunSummary):
            self._runs.pop(key, None)
            summary = self._runs[key] = ListedRun.of(summary, self._clock()).led_by(leader)
        self._tell(key, summary.type, version, summary.digest, summary.model_dump(mode="json"))

    def tell_states(self) -> None:
        """Announce runs whose state has changed only because time has passed."""
        now = self._clock()
        for key, run in self._runs.items():
            if (state := state_of(run, now)) != run.state:
                self._runs[key] = run = run.model_copy(update={"state": state})
                version = (run.epoch, run.state_version)
                self._tell(key, run.type, version, run.digest, run.model_dump(mode="json"))

    def remove(self, key: GroupKey) -> None:
        run_id, kind, tier, agent_model = key
        self._runs.pop(key, None)
        deleted = {"run_id": run_id, "type": kind, "tier": tier or None, "agent_model": agent_model or None}
        self._tell(key, "deleted", (0, -1), None, deleted)

    def position(self, event_id: str | None) -> int | None:
        """The position of a viewer by its last event; None if it must start again."""
        incarnation, _, revision = (event_id or "").partition("-")
        is_number = revision.isascii() and revision.isdigit() and len(revision) <= len(str(self._revision))
        if incarnation != self._incarnation or not is_number:  # int() fails with thousands of digits
            return None
        return int(revision) if int(revision) <= self._revision else None

    def since(self, position: int, *, summaries: bool = True) -> tuple[list[bytes], int]:
        """All changes after a position, oldest first, and the new position; or only deletions."""
        frames = []
        for entry in reversed(self._entries.values()):
            if entry.revision <= position:
                break
            if summaries or entry.state is None:
                frames.append(entry.frame)
        return frames[::-1], self._revision

    def has_dropped(self, position: int) -> bool:
        """Whether a change after this position has been dropped."""
        return position < self._dropped

    async def wait(self, position: int) -> None:
        """Wait for a change after the position; it may also return early."""
        if self._revision <= position:
            await self._changed.wait()

    def wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _tell(self, key: GroupKey, event: str, version: Version, digest: str | None, data: Json) -> None:
        if self._from_stream is not None:
            self._from_stream.add(key)
        self._revision += 1
        self._entries.pop(key, None)
        frame = event_bytes(event, data, f"{self._incarnation}-{self._revision}")
        state = None if digest is None else data
        self._entries[key] = _Latest(self._revision, version, digest, frame, state)
        if self._most_runs is not None:
            deleted = [key for key in self._entries if key not in self._runs]
            for dropped in [*list(self._runs)[: -self._most_runs], *deleted[: -self._most_runs]]:
                self._runs.pop(dropped, None)
                self._dropped = max(self._dropped, self._entries.pop(dropped).revision)
        self.wake()


def key_of(summary: AnyState) -> GroupKey:
    tier = summary.tier if isinstance(summary, TierSummary) else None
    agent_model = None if isinstance(summary, RunSummary) else summary.agent_model
    return summary.run_id, summary.type, tier or "", agent_model or ""


def event_bytes(event: str, data: object, event_id: str | None = None) -> bytes:
    r"""One server-sent event.

    >>> event_bytes("deleted", {"a": 1}, "x-1")
    b'id: x-1\nevent: deleted\ndata: {"a":1}\n\n'
    """
    return ServerSentEvent(canonical_json(data).decode(), event=event, id=event_id, sep="\n").encode()


# -----------------------------------------------------------------------------
# The view of a room, drawn once for all viewers with the same options.


PACE_SECONDS = 0.25
"""Seconds between two updates to a viewer."""


class Part(NamedTuple):
    """A part of a view: of a table, or a value.

    An empty `row` means the content of the table or value besides its rows.
    """

    table: str
    row: str
    content: object


class View:
    """The parts of a room as viewers see them, each with the revision of its last change.

    A view is drawn at most once per :data:`PACE_SECONDS`.
    """

    def __init__(
        self, room: Room, draw: Callable[[], Iterable[Part]], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._room, self._draw, self._clock = room, draw, clock
        self._parts: dict[tuple[str, str], tuple[int, bytes]] = {}
        self._revision, self._at = 0, -PACE_SECONDS
        self._fragments: dict[int, bytes] = {}
        self._failed = False

    def since(self, position: int) -> tuple[bytes, int]:
        """One event with the changes after a position (0: everything), and the new position."""
        if self._revision < self._room.revision and self._clock() - self._at >= PACE_SECONDS:
            self._redraw()
        if position not in self._fragments:
            self._fragments[position] = self._fragment(position)
        return self._fragments[position], self._revision

    def _redraw(self) -> None:
        """Draw again. A part that fails stays as it was, because our mistakes must not end the stream."""
        revision, before, parts = self._room.revision, self._parts, {}
        try:
            for table, row, content in self._draw():
                written = orjson.dumps(content)
                known = before.get((table, row))
                parts[table, row] = known if known and known[1] == written else (revision, written)
            self._failed = False
        except Exception:
            if not self._failed:  # once, not at each update
                log.exception("Drawing failed; viewers keep what was drawn before")
            self._failed, parts = True, before | parts
        self._parts = parts
        self._revision, self._at, self._fragments = revision, self._clock(), {}

    def _fragment(self, position: int) -> bytes:
        changed: dict[str, dict[str, orjson.Fragment]] = {}
        for (table, row), (revision, written) in self._parts.items():
            if revision > position:
                changed.setdefault(table, {})[row] = orjson.Fragment(written)
        return b"event: drawn\ndata: %b\n\n" % orjson.dumps(changed) if changed else b""


# -----------------------------------------------------------------------------
# One Redis subscription for all viewers of this process.


log = logging.getLogger("streamer.web")

MAX_IDLE_ROOMS = 32
"""Runs kept without viewers, so that returning viewers need only the changes."""

RETRY_SECONDS = 2.0

STATES_SECONDS = 5.0
"""Seconds between two checks for runs that have fallen silent; no request is needed."""

RETRY = ServerSentEvent(retry=1000, sep="\n").encode()
"""The delay after which a browser reconnects: a second."""

TOLD = event_bytes("told", {})


class TooManyViewers(Refused):
    """The process has no room for another viewer."""

    status = 503

    def __init__(self, viewers: int, address: str | None = None) -> None:
        todo = "start a second server"
        if address is not None:
            todo = "raise --connections-per-address. Name a proxy before this server in trusted_proxies"
        whose = "" if address is None else f" from {ascii(address)[:100]}"
        super().__init__(f"{viewers:,} streams{whose} are open already. Close some pages, or {todo}")


class Hub:
    """A hub that follows Redis once and informs any number of viewers.

    `most` limits all viewers, `most_per_address` those from one address.
    """

    def __init__(self, reader: AsyncStateReader, most: int, most_per_address: int) -> None:
        self._reader = reader
        self._most, self._most_per_address = most, most_per_address
        self._rooms: dict[str | None, Room] = {}
        self._filling: dict[str | None, asyncio.Task[None]] = {}
        self._closing = False
        self._problem: str | None = None
        self._subscriptions = 0
        self._viewers = Counter[str]()

    async def health(self) -> Health:
        """Whether the hub follows Redis, after a ping."""
        problem = self._problem
        try:
            await self._reader.workers()
        except ReaderError as error:
            problem = str(error)
        return Health(
            following=problem is None,
            viewers=self._viewers.total(),
            rooms=len(self._rooms),
            subscriptions=self._subscriptions,
            problem=problem,
        )

    async def follow(self) -> None:
        """Follow Redis until cancelled, through outages; each outage is logged once."""
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
            except Exception as error:  # our mistakes must not end the boards permanently
                log.exception("Following Redis failed")
                self._problem = f"{type(error).__name__} in the server; its log says more"
            finally:
                self._subscriptions = 0
            await asyncio.sleep(RETRY_SECONDS)

    @property
    def viewed(self) -> set[str | None]:
        """The runs with viewers; None is the list of runs."""
        return {name for name, room in self._rooms.items() if room.viewers}

    async def watch_states(self) -> None:
        """Notify viewers of runs that have stalled or are unfinished, until cancelled."""
        while True:
            await asyncio.sleep(STATES_SECONDS)
            for room in self._rooms.values():
                room.tell_states()

    def close(self) -> None:
        self._closing = True
        for room in self._rooms.values():
            room.wake()

    async def enter(self, run_id: str | None, address: str) -> Room:
        """The filled room of a run (None: the list of runs) for a viewer; call `leave` later.

        Raises:
            TooManyViewers: there is no room; try again later.
        """
        if self._viewers.total() >= self._most:
            raise TooManyViewers(self._most)
        if self._viewers[address] >= self._most_per_address:
            raise TooManyViewers(self._most_per_address, address)
        room = self._rooms.get(run_id) or Room(most_runs=RUNS_PER_PAGE if run_id is None else None)
        self._rooms.pop(run_id, None)
        self._rooms[run_id] = room  # the last one in the order of eviction
        room.viewers += 1
        self._viewers[address] += 1
        try:
            if (run_id is None or not room.filled) and run_id not in self._filling:
                self._filling[run_id] = asyncio.create_task(self._fill(run_id, room))
            if filling := self._filling.get(run_id):
                await asyncio.shield(filling)
        except BaseException:
            self.leave(run_id, room, address)
            if not room.filled and self._rooms.get(run_id) is room and not room.viewers:
                del self._rooms[run_id]
            raise
        return room

    def leave(self, run_id: str | None, room: Room, address: str) -> None:
        """Remove a viewer; rooms without viewers are kept for a while."""
        room.viewers -= 1
        self._viewers[address] -= 1
        if not self._viewers[address]:
            del self._viewers[address]
        idle = [name for name, other in self._rooms.items() if not other.viewers and name is not None]
        for name in idle[: max(0, len(idle) - MAX_IDLE_ROOMS)]:
            del self._rooms[name]

    async def stream(
        self, room: Room, last_event_id: str | None, view: View | None = None
    ) -> AsyncIterator[bytes]:
        """Server-sent events for one viewer: missed changes or everything, then changes.

        A view is drawn once for all its viewers; each first gets the whole, then changed rows.
        """
        yield RETRY
        position, drawn = room.position(last_event_id), 0
        while not self._closing:
            begin = []
            if position is None or room.has_dropped(position):
                begin, position = [event_bytes("snapshot", {})], 0
            frames, position = room.since(position, summaries=view is None)
            if view is not None:
                fragment, drawn = view.since(drawn)
                frames.append(fragment)
            yield b"".join([*begin, *frames, TOLD])
            if view is None or drawn == room.revision:
                await room.wait(position)
            await asyncio.sleep(PACE_SECONDS)

    async def _fill(self, run_id: str | None, room: Room) -> None:
        try:
            room.begin_fill()
            if run_id is None:
                runs = (await self._reader.page_of_runs()).runs
                room.fill(reversed(runs), await self._reader.leaders(runs))
            else:
                snapshot = await self._reader.snapshot(run_id)
                room.fill([snapshot.run, *snapshot.agents, *snapshot.tiers])
        finally:
            del self._filling[run_id]

    def _apply(self, update: StateUpdate) -> None:
        names = (update.run_id, None) if update.kind == "run" else (update.run_id,)
        for name in names:
            if room := self._rooms.get(name):
                if update.summary is None:
                    room.remove(_key(update))
                else:
                    room.put(update.summary, update.leader if name is None else None)


def _key(update: StateUpdate) -> GroupKey:
    tier, agent_model = group_of(update.kind, update.group)
    return update.run_id, f"{update.kind}_summary", tier or "", agent_model or ""
