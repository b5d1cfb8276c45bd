"""Adapters for Kafka and Redis: names, clients and wire formats.

`kafka` has topics and errors, `log` readers and the workers' own records, `outbox` acknowledged writes.
`entries` has keys of Redis and their values, `redis` clients and the sink of a worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def cancellable(work: Awaitable[T]) -> T:
    """Await `work`, and raise `CancelledError` if the task was cancelled meanwhile.

    Clients drop a cancellation, and a loop that follows a server would then never end. Commands of redis-py
    go out inside `asyncio.wait_for`. Until Python 3.12 it drops one that arrives in the same turn of the loop
    as the sent command (CPython issue 86296). A client of aiokafka drops one while it closes.
    """
    task = asyncio.current_task()
    assert task is not None, "only a task can await"
    before = task.cancelling()
    try:
        return await work
    finally:
        if task.cancelling() > before:
            raise asyncio.CancelledError
