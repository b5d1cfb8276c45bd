"""The notices that were sent, in Redis, so that a restart does not send them again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from streamer.client.reader import TIMEOUT_SECONDS
from streamer.redis.connect import async_client
from streamer.redis.errors import UNREACHABLE
from streamer.redis.keys import Keys
from streamer.settings import Settings


class Memory:
    """The hash `streamer:{RUN}:notices`, of which a watch has the fields that begin with its name.

    If Redis does not take it, that is reported once, and this process alone remembers the notices it sent.

    Args:
        settings: where Redis is.
        name: of the watch.
        say: called once when nothing can be written down.
    """

    def __init__(self, settings: Settings, name: str, say: Callable[[str], None]) -> None:
        self._keys = Keys(settings.namespace)
        self._client = async_client(settings.redis, settings.redis_options(), TIMEOUT_SECONDS, retries=1)
        self._prefix = f"{name}:"
        self._say = say
        self._failing = False
        self._expire_seconds = settings.redis_expire_seconds

    async def load(self, run_id: str) -> dict[str, str]:
        """Notices sent for a run ("": notices without a run)."""
        try:
            held = await cast(Any, self._client.hgetall(self._key(run_id)))
        except UNREACHABLE as error:
            self._fail(error)
            return {}
        fields = {bytes(name).decode(): bytes(value).decode() for name, value in held.items()}
        return {
            name.removeprefix(self._prefix): value
            for name, value in fields.items()
            if name.startswith(self._prefix)
        }

    async def save(self, run_id: str, fields: Mapping[str, str]) -> None:
        """Write fields down."""
        if not fields:
            return
        named = {f"{self._prefix}{name}": value for name, value in fields.items()}
        try:
            await cast(Any, self._client.hset(self._key(run_id), mapping=cast(Any, named)))
            if self._expire_seconds:
                await self._client.expire(self._key(run_id), self._expire_seconds)
            self._failing = False
        except UNREACHABLE as error:
            self._fail(error)

    async def claim(self, run_id: str, key: str) -> bool:
        """True for the first watch of this name that claims it, and only for that one.

        A notice that a process left pending when it ended may be sent again by the next.
        """
        try:
            field = f"{self._prefix}{key}"
            return bool(await cast(Any, self._client.hsetnx(self._key(run_id), field, "pending")))
        except UNREACHABLE as error:
            self._fail(error)
            return True

    async def close(self) -> None:
        """Let go of the connections."""
        await self._client.aclose()

    def _key(self, run_id: str) -> str:
        return self._keys.notices(run_id) if run_id else self._keys.all_notices

    def _fail(self, error: Exception) -> None:
        if not self._failing:
            self._failing = True
            reason = str(error) or type(error).__name__
            self._say(f"Redis does not keep what was told ({reason}): after a restart it may be told again")
