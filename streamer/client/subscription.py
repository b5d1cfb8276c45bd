"""Follow a public topic from code."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Literal

from streamer.client.feeds import Update, follow
from streamer.settings import Settings

Feed = Literal["agent-model", "tier", "run", "grades", "rejections", "trials"]


async def subscribe(
    feed: Feed,
    settings: Settings | None = None,
    *,
    run_id: str | None = None,
    from_beginning: bool = False,
) -> AsyncIterator[Update]:
    """The messages of a feed, as they are published, without end; needs the broker, not Redis.

    Break out of it under `contextlib.aclosing`, so that it disconnects at once.

    Args:
        feed: which topic; `streamer.client.feeds.FEEDS` says which is which.
        settings: where the broker is; None: as every command finds it.
        run_id: only what is about this run; None: all.
        from_beginning: start with everything the topic holds; else with what comes from now on.

    Raises:
        TopicMissing: no worker has created the topics.
        aiokafka.errors.KafkaError: the broker cannot be reached, or refuses.
    """
    updates = follow(settings or Settings(), feed, from_beginning=from_beginning)
    async with aclosing(updates) as following:  # type: ignore[type-var]
        async for update in following:
            if run_id is None or update.run_id == run_id:
                yield update
