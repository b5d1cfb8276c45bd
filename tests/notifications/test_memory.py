"""What was told is remembered in Redis; one watch alone claims a notice."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from streamer.operate.local.processes import free_port
from streamer.operate.notices import Memory
from streamer.settings import Settings


@pytest.fixture
async def memory(settings: Settings) -> AsyncIterator[Memory]:
    memory = Memory(settings, "mine", lambda line: None)
    yield memory
    await memory.close()


async def test_what_was_saved_is_there_for_the_next_watch_of_this_name_alone(
    memory: Memory, settings: Settings
) -> None:
    await memory.save("r", {"started": "done"})
    await memory.save("r", {})
    await memory.save("", {"rejections": "1"})
    assert await memory.load("r") == {"started": "done"}
    assert await memory.load("") == {"rejections": "1"}
    other = Memory(settings, "other", lambda line: None)
    assert await other.load("r") == {}
    await other.close()


async def test_a_notice_is_claimed_once(memory: Memory) -> None:
    assert [await memory.claim("r", "started") for _ in range(2)] == [True, False]
    assert await memory.load("r") == {"started": "pending"}


async def test_a_redis_that_is_away_is_said_once_and_holds_up_no_notice(settings: Settings) -> None:
    said: list[str] = []
    away = Memory(Settings(redis=f"redis://127.0.0.1:{free_port()}/0"), "mine", said.append)
    assert await away.load("r") == {}
    await away.save("r", {"a": "b"})
    assert await away.claim("r", "started")
    await away.close()
    assert len(said) == 1
    assert "after a restart it may be told again" in said[0]
