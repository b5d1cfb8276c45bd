"""An event loop in a thread of its own, for code that blocks or has a loop that must not be held up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from streamer.publish.log_filter import quiet_thread

T = TypeVar("T")
JOIN_SECONDS = 1.0


class LoopThread:
    """A running loop; a daemon, so that it never keeps the process from ending."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run it there; from any thread but its own."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def stop(self) -> None:
        """End the loop when everything in it has ended; waits a second for that at most."""
        self.submit(self._stop())
        self._thread.join(JOIN_SECONDS)

    async def _stop(self) -> None:
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others)
        self.loop.stop()

    def _run(self) -> None:
        with quiet_thread():
            self.loop.run_forever()
            self.loop.close()
