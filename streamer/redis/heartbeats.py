"""The heartbeats of workers: one field per worker in the hash `streamer:workers`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import orjson
from redis.asyncio import Redis

from streamer.redis.keys import Keys

FORGET_AFTER = timedelta(days=1)
"""Heartbeats older than this are of workers that were killed."""


class Heartbeats:
    """Writes the heartbeats of the workers in this process."""

    def __init__(self, client: Redis, keys: Keys) -> None:
        self._client = client
        self._key = keys.workers
        self._workers: set[str] = set()

    async def beat(self, worker_id: str, status: Mapping[str, Any], at: datetime) -> bool:
        """Write one; True if the last one is gone, so that Redis must have lost its data.

        In that case this one is removed too: its status is from before the loss.
        """
        added = await self._client.hset(self._key, worker_id, orjson.dumps({**status, "at": at}))
        if worker_id in self._workers:
            if added:
                self._workers.remove(worker_id)
                await self._client.hdel(self._key, worker_id)
            return bool(added)
        self._workers.add(worker_id)
        await self._forget(at - FORGET_AFTER)
        return False

    async def stop(self) -> None:
        """Remove the fields of this process."""
        for worker_id in self._workers:
            await self._client.hdel(self._key, worker_id)

    async def _forget(self, before: datetime) -> None:
        for worker_id, value in (await self._client.hgetall(self._key)).items():
            if datetime.fromisoformat(orjson.loads(value)["at"]) < before:
                await self._client.hdel(self._key, worker_id)
