"""The channel of updates: all messages at once, and a line that is dead is noticed."""

from __future__ import annotations

from collections import deque
from typing import Any

import orjson
import pytest

from streamer.storage import redis as module
from streamer.storage.redis import ConnectionError, Listener


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
