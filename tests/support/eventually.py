"""Waiting for a condition, with a deadline."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

POLL_SECONDS = 0.01
WAIT_SECONDS = float(os.environ.get("WAIT_SECONDS", "120"))
"""How long tests wait for a condition unless they claim less: several run at once, also on a slow machine."""


async def eventually(condition: Callable[[], bool], what: str, seconds: float = WAIT_SECONDS) -> None:
    """Return as soon as `condition()` holds.

    Raises:
        AssertionError: it did not within `seconds`; the message names `what`.
    """
    try:
        async with asyncio.timeout(seconds):
            while not condition():
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise AssertionError(f"not within {seconds} s: {what}") from None
