"""An event loop in a thread of its own, for code that blocks or has a loop that must not be held up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from streamer.client.quiet import quiet_thread

T = TypeVar("T")
JOIN_SECONDS = 5.0


class LoopThread:
    """A running loop; a daemon, so that it never keeps the process from ending."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run it there; from any thread but its own."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def _run(self) -> None:
        with quiet_thread():
            self.loop.run_forever()

    def stop(self) -> None:
        """End the loop; nothing may run in it any more."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(JOIN_SECONDS)
        if not self._thread.is_alive():
            self.loop.close()
