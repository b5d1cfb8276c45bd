"""A cancellation is never lost, whatever redis-py was doing when it came."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import orjson
import pytest

from streamer.storage import redis as module
from streamer.storage.entries import cancellable
from streamer.storage.redis import ConnectionError, Listener

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


# -----------------------------------------------------------------------------
# The channel of updates: all messages at once, and a line that is dead is noticed.


class Line:
    """A subscription that says these; None: nothing for as long as one waits."""

    def __init__(self, *said: dict[str, Any] | None) -> None:
        self.said = deque(said)
        self.pings = 0

    async def get_message(self, timeout: float) -> dict[str, Any] | None:
        return self.said.popleft() if self.said else None

    async def ping(self) -> None:
        self.pings += 1


def an_update(number: int) -> dict[str, Any]:
    return {"type": "message", "data": orjson.dumps({"number": number})}


PONG = {"type": "pong", "data": b""}


def listener(line: Line) -> Listener:
    return Listener(line, 0.1)  # type: ignore[arg-type]


async def test_all_that_has_come_is_told_at_once_and_other_messages_are_left_out() -> None:
    line = Line(an_update(1), {"type": "subscribe", "data": 1}, an_update(2), None, an_update(3))
    heard = listener(line)
    assert await heard.next_messages(1) == [{"number": 1}, {"number": 2}]
    assert await heard.next_messages(1) == [{"number": 3}]
    assert line.pings == 0


async def test_a_silent_line_that_answers_a_ping_is_alive() -> None:
    line = Line(None, PONG)
    assert await listener(line).next_messages(1) == []
    assert line.pings == 1


async def test_a_silent_line_that_answers_no_ping_is_dead() -> None:
    with pytest.raises(ConnectionError, match="no answer to a ping"):
        await listener(Line(None, None)).next_messages(1)


async def test_so_many_are_told_at_once_and_the_rest_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MESSAGES_AT_ONCE", 2)
    heard = listener(Line(*map(an_update, range(3))))
    assert [len(await heard.next_messages(1)) for _ in range(2)] == [2, 1]
