"""What answers draw on: a history is read once for all who ask at about the same time."""

from __future__ import annotations

import asyncio

from streamer.settings import Settings
from streamer.web.resources import Web
from tests.support.events import a_trial
from tests.web.feeding import Feed


async def test_a_history_is_read_once_for_all_who_ask_together(settings: Settings, feed: Feed) -> None:
    await feed.take([a_trial()])
    web = Web(settings)
    try:
        first, second = await asyncio.gather(web.history("run-1"), web.history("run-1"))
        assert first is second
        assert {entry.kind for entry in first} >= {"run", "agent_model"}
    finally:
        await web.reader.close()
