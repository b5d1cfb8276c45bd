"""Hearing what is published on the channel of updates."""

from __future__ import annotations

from typing import Any

import orjson
from redis.asyncio.client import PubSub

from streamer.redis.cancelling import cancellable
from streamer.redis.errors import ConnectionError

MESSAGES_AT_ONCE = 1_000


class Listener:
    """Hears what is published on the channel of updates, and notices when the line is dead."""

    def __init__(self, pubsub: PubSub, timeout_seconds: float) -> None:
        self._pubsub = pubsub
        self._timeout = timeout_seconds

    async def next_messages(self, seconds: float) -> list[dict[str, Any]]:
        """All messages that have come, as soon as there is one; [] if there was no message for so long.

        Raises:
            RedisError, OSError: the connection is lost, or Redis does not answer a ping.
        """
        message = await self._pubsub.get_message(timeout=seconds)
        if message is None:
            await cancellable(self._pubsub.ping())
            message = await self._pubsub.get_message(timeout=self._timeout)
            if message is None:
                raise ConnectionError("no answer to a ping")
        messages = []
        while message is not None:
            if message["type"] == "message":
                messages.append(orjson.loads(message["data"]))
            full = len(messages) >= MESSAGES_AT_ONCE
            message = None if full else await self._pubsub.get_message(timeout=0.0)
        return messages
