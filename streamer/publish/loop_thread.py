"""An event loop in a thread of its own, for code that blocks or has a loop that must not be held up."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")
JOIN_SECONDS = 1.0

LOGGERS = (
    "aiokafka",
    "aiokafka.cluster",
    "aiokafka.conn",
    "aiokafka.producer.producer",
    "aiokafka.producer.sender",
)
"""The loggers that a producer writes to; a filter does not reach the loggers below its own."""

_quiet: set[int] = set()


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
        with _quiet_thread():
            self.loop.run_forever()
            self.loop.close()


@contextmanager
def _quiet_thread() -> Iterator[None]:
    """Nothing is heard of aiokafka from this thread meanwhile: it must not write on the caller's terminal.

    It logs every failed attempt, dozens a second while the broker is away. The logger `streamer.client`
    reports once what matters of it; set that to DEBUG to see all of it.
    """
    for name in LOGGERS:
        logging.getLogger(name).addFilter(_is_heard)
    _quiet.add(threading.get_ident())
    try:
        yield
    finally:
        _quiet.discard(threading.get_ident())


def _is_heard(record: logging.LogRecord) -> bool:
    return record.thread not in _quiet or logging.getLogger("streamer.client").isEnabledFor(logging.DEBUG)
