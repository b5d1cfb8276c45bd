"""Summaries to Redis: guarded, never in the way, converging after any failure of Redis."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, Self

from redis.asyncio import Connection

from streamer.aggregate.changes import RunUpdate
from streamer.redis.cancelling import cancellable
from streamer.redis.connect import address, async_client
from streamer.redis.entry import entries_of
from streamer.redis.errors import UNREACHABLE
from streamer.redis.heartbeats import Heartbeats
from streamer.redis.keys import Keys
from streamer.redis.reconcile import RunOwner, Writes
from streamer.redis.sending import Sending
from streamer.redis.unsent import Unsent
from streamer.settings import Settings

log = logging.getLogger(__name__)

MAX_UNSENT_KEYS = 100_000
"""At about 4 KiB a summary, 400 MiB of memory in the worst outage."""
RUNS_PER_RECONCILE = 50
"""Runs sent whole before others may write in between."""

FIRST_RETRY_SECONDS = 0.05
LAST_RETRY_SECONDS = 5.0


class RedisSink:
    """Keeps Redis at what the workers publish.

    Nothing here raises because of Redis: what it did not take is kept, the latest per key, and sent when it
    is back. Use it from one event loop; calls may overlap.

    Args:
        url: Redis URL.
        keys: of the namespace.
        owner: knows the runs of this worker as they stand; asked where Redis may lack something. None:
            written values are sent at once, and nothing else.
        options: further arguments of the redis-py client.
        expire_seconds: expiry of a run's keys after its last write; None: never.
        timeout_seconds: how long one round trip may take before Redis counts as away.
        max_unsent: most keys remembered while Redis is away; a reconcile restores dropped ones.
        clock: Unix seconds; tells which runs have expired and are not to be sent again.
    """

    def __init__(
        self,
        url: str,
        *,
        keys: Keys,
        owner: RunOwner | None = None,
        options: Mapping[str, Any] | None = None,
        expire_seconds: int | None = None,
        timeout_seconds: float = 5.0,
        max_unsent: int = MAX_UNSENT_KEYS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._url = address(url)
        self._client = async_client(url, options or {}, timeout_seconds, self._connected)
        self._owner = owner
        self._writes = Writes(owner)
        self._expire_seconds = expire_seconds
        self._clock = clock
        self._unsent = Unsent(max_unsent)
        self._sending = Sending(self._client, keys, self._unsent, self._writes, expire_seconds)
        self._lock = asyncio.Lock()
        self._away = False
        self._connections = 0
        self._reconcile_due = False
        self._reconciling = 0
        self._recovery: asyncio.Task[None] | None = None
        self._heartbeats = Heartbeats(self._client, keys)

    @classmethod
    def from_settings(cls, settings: Settings, owner: RunOwner | None = None) -> Self:
        """The sink that the settings describe."""
        return cls(
            settings.redis,
            keys=Keys(settings.namespace),
            owner=owner,
            options=settings.redis_options(),
            expire_seconds=settings.redis_expire_seconds,
        )

    @property
    def unsent(self) -> int:
        """Keys that Redis does not have yet."""
        return len(self._unsent)

    @property
    def away(self) -> bool:
        """True while Redis does not take writes."""
        return self._away

    @property
    def settled(self) -> bool:
        """True if Redis has all that was published, as far as known: nothing waits, no run is sent whole."""
        recovering = self._recovery is not None and not self._recovery.done()
        return not (self._away or self.unsent or self._reconciling or recovering or self._is_due())

    async def write(self, updates: Sequence[RunUpdate]) -> None:
        """Send what changed, with history and news: one script per run, one round trip.

        On return Redis has it, or its keys are unsent and a background task sees to them.
        """
        for update in updates:
            for entry in entries_of(update, news=True):
                self._unsent.put(entry)
        runs = [
            run_id
            for run_id in dict.fromkeys(update.run_id for update in updates)
            if run_id not in self._sending.refused
        ]
        if runs and not self._away:
            await self._attempt(self._flush(runs))

    async def reconcile(self, run_ids: Iterable[str]) -> None:
        """Send these runs silently, each as a whole: what Redis lacks of them, has lower or has too much.

        If Redis is away, all runs of the owner are sent when it is back.
        """
        self._reconciling += 1
        try:
            if self._away or not await self._attempt(self._reconcile(run_ids)):
                self._reconcile_due = True
        finally:
            self._reconciling -= 1

    async def heartbeat(self, worker_id: str, status: Mapping[str, Any], *, at: datetime) -> None:
        """Say that a worker is alive: field `worker_id` of `streamer:workers`, JSON of `status` and `at`.

        The field of a worker that was killed stays; its old `at` tells. A field that vanished tells that
        Redis lost its data: everything is reconciled.
        """
        if not self._away:
            await self._attempt(self._beat(worker_id, status, at))

    async def close(self) -> None:
        """One last attempt to send, the heartbeats removed, connections closed."""
        if self._recovery:
            self._recovery.cancel()
            await asyncio.gather(self._recovery, return_exceptions=True)
        try:
            await self._flush(None)
            await self._heartbeats.stop()
        except UNREACHABLE as error:
            log.warning(
                "Redis: %d keys are not there yet (%s); the next worker sends them", self.unsent, error
            )
        await self._client.aclose()

    async def _attempt(self, work: Awaitable[None]) -> bool:
        """Do it; where Redis fails, note that and let the background task go on. True if it worked."""
        try:
            await cancellable(work)
        except UNREACHABLE as error:
            self._recover_from(error)
            return False
        if self._is_due():
            self._start_recovery()
        return True

    async def _flush(self, runs: Collection[str] | None) -> None:
        """Send the unsent values of some runs, or of all."""
        async with self._lock:
            await self._sending.send_unsent(runs)

    async def _reconcile(self, run_ids: Iterable[str]) -> None:
        """The lock is held while runs are asked for and sent: nothing newer is sent in between."""
        lifetime = self._expire_seconds
        writes = self._writes.alive(run_ids, self._clock() - lifetime if lifetime else None)
        while True:
            async with self._lock:
                batch = list(islice(writes, RUNS_PER_RECONCILE))
                await self._sending.send_whole(batch)
            if not batch:
                return

    def _is_due(self) -> bool:
        """Whether something remains that no write sees to."""
        return bool(
            self._reconcile_due or self._unsent.dropped or self._sending.rewrite_due or self._sending.refused
        )

    async def _beat(self, worker_id: str, status: Mapping[str, Any], at: datetime) -> None:
        async with self._lock:
            lost = await self._heartbeats.beat(worker_id, status, at)
        if lost:
            log.warning("Redis at %s lost its data; sending everything again", self._url)
            self._reconcile_due = True

    async def _connected(self, connection: Connection) -> None:
        """Redis may have restarted, empty or older: every connection but the first asks for a reconcile."""
        await connection.on_connect()
        self._connections += 1
        if self._connections > 1:
            self._reconcile_due = True

    def _recover_from(self, error: Exception) -> None:
        if not self._away:
            log.warning(
                "Redis does not take writes (%s); the latest of each key is kept until it does", error
            )
        self._away = self._reconcile_due = True
        self._start_recovery()

    def _start_recovery(self) -> None:
        if self._recovery is None or self._recovery.done():
            self._recovery = asyncio.create_task(self._recover())

    async def _recover(self) -> None:
        """Until Redis has everything: the unsent values with their news, then the rest that it lacks."""
        delay = FIRST_RETRY_SECONDS
        while True:
            try:
                await cancellable(self._catch_up())
            except UNREACHABLE as error:
                self._away = self._reconcile_due = True
                log.debug("Redis is still away: %s", error)
            except Exception:
                log.exception("Could not reconcile Redis; trying again")
            if not (self._away or self._is_due()):
                return
            await asyncio.sleep(delay)
            delay = min(2 * delay, LAST_RETRY_SECONDS)

    async def _catch_up(self) -> None:
        await self._flush(None)
        if self._away:
            log.warning("Redis at %s takes writes again", self._url)
            self._away = False
            await self._flush(None)  # what came during the first one
        if self._reconcile_due or self._unsent.dropped:
            self._reconcile_due, self._unsent.dropped = False, 0
            self._unsent.incomplete.clear()
            try:
                await self._reconcile(self._owner.run_ids() if self._owner else ())
            except BaseException:
                self._reconcile_due = True
                raise
