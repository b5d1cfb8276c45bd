"""A watch beside something else in the same process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from streamer.notifications.watch import CLOSE_SECONDS, Watch
from streamer.publish.loop_thread import LoopThread


@contextmanager
def watching(watch: Callable[[], Watch], say: Callable[[str], None]) -> Iterator[None]:
    """Watch in a thread of its own while the block runs. An error there is reported, and ends only the watch.

    Args:
        watch: makes the watch, in that thread.
        say: called with the error that ended it.
    """
    stop = asyncio.Event()

    async def work() -> None:
        try:
            await watch().run(stop)
        except Exception as error:
            say(f"there are no notices any more: {error}")

    thread = LoopThread("notices")
    working = thread.submit(work())
    try:
        yield
    finally:
        thread.loop.call_soon_threadsafe(stop.set)
        try:
            working.result(2 * CLOSE_SECONDS)
        except TimeoutError:
            working.cancel()
        thread.stop()
