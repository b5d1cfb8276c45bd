"""Cancellation that arrives while a command goes out to Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def cancellable(work: Awaitable[T]) -> T:
    """Await something, and raise `CancelledError` if the task was cancelled meanwhile.

    redis-py sends each command inside `asyncio.wait_for`. Until Python 3.12 that function drops a
    cancellation which arrives in the same turn of the loop in which the command has gone out (CPython issue
    86296). Then a loop that follows Redis would never end.

    Returns:
        What the work returned, or raises what it raised, unless the task was cancelled while it ran.
    """
    task = asyncio.current_task()
    assert task is not None, "only a task can await"
    before = task.cancelling()
    try:
        return await work
    finally:
        if task.cancelling() > before:
            raise asyncio.CancelledError
