"""A cancellation is never lost, whatever redis-py was doing when it came."""

from __future__ import annotations

import asyncio

import pytest

from streamer.storage.redis import cancellable

TURNS = range(12)
"""Of the event loop before the cancellation: it arrives in every state that the work has."""


async def command() -> None:
    """What redis-py does to send one."""
    await asyncio.wait_for(asyncio.sleep(0), 5)


async def failing_command() -> None:
    await command()
    raise ConnectionError("lost")


async def commands_for_ever(*, failing: bool) -> None:
    while True:
        try:
            await cancellable(failing_command() if failing else command())
        except ConnectionError:
            assert failing
        await asyncio.sleep(0)


@pytest.mark.parametrize("failing", [False, True])
@pytest.mark.parametrize("turns", TURNS)
async def test_a_loop_that_sends_commands_can_be_cancelled_at_any_turn(turns: int, failing: bool) -> None:
    task = asyncio.create_task(commands_for_ever(failing=failing))
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task}, timeout=1)
    ended = task.cancelled()
    task.cancel()
    assert ended


async def test_what_the_work_returns_and_raises_comes_through() -> None:
    assert await cancellable(asyncio.sleep(0, "done")) == "done"
    with pytest.raises(ConnectionError, match="lost"):
        await cancellable(failing_command())


async def test_an_earlier_cancellation_that_was_caught_does_not_end_later_work() -> None:
    async def tidies_up() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return await cancellable(asyncio.sleep(0, "tidy"))
        return "never cancelled"

    task = asyncio.create_task(tidies_up())
    await asyncio.sleep(0)
    task.cancel()
    assert await task == "tidy"
