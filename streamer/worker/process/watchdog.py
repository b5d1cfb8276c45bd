"""A worker that was stopped for longer than its session is a zombie: it ends before it writes again.

While it did not run (SIGSTOP, a suspended laptop, a starved machine) its partitions went to another worker.
Its pages could do no harm, since a writer rewrites only its own, but its summaries would be old news.
"""

from __future__ import annotations

import logging
import os
import selectors
import sys
import threading
from collections.abc import Callable
from typing import Any

from streamer.worker.clock import clock

log = logging.getLogger(__name__)

WATCHDOG_TICK_SECONDS = 0.2
EXIT_CODE = 75
"""EX_TEMPFAIL: start it again."""


def _exit(gap_seconds: float) -> None:
    log.critical(
        "did not run for %.1f s, longer than its session; its partitions belong to another worker by now. "
        "Ending without writing anything; start it again",
        gap_seconds,
    )
    sys.stderr.flush()
    os._exit(EXIT_CODE)


class Watchdog:
    """Ends the process once it did not run for longer than its session.

    A thread of its own notes the time, so that a long computation does not count as a stop.

    Args:
        session_seconds: a longer gap than this ends the process.
        now: clock, in seconds.
        expire: what to do instead of ending the process (for tests); gets the gap in seconds.

    >>> seconds = iter([0.0, 1.0, 11.5])
    >>> watchdog = Watchdog(10, now=lambda: next(seconds), expire=lambda gap: print("expired after", gap))
    >>> watchdog.check()
    >>> watchdog.check()
    expired after 11.5
    """

    def __init__(
        self,
        session_seconds: float,
        *,
        now: Callable[[], float] = clock,
        expire: Callable[[float], None] = _exit,
    ) -> None:
        self._session = session_seconds
        self._now = now
        self._expire = expire
        self._last = now()
        self._stopped = threading.Event()

    def start(self) -> None:
        """Start noting the time."""
        threading.Thread(target=self._note_time, name="watchdog", daemon=True).start()

    def stop(self) -> None:
        """Stop noting the time; `check` must not be called any more."""
        self._stopped.set()

    def check(self) -> None:
        """End the process if it did not run for a session; to be called before every write."""
        gap = self._now() - self._last
        if gap > self._session:
            self._expire(gap)

    def _note_time(self) -> None:
        while not self._stopped.wait(WATCHDOG_TICK_SECONDS):
            self.check()
            self._last = self._now()


class CheckedSelector(selectors.DefaultSelector):
    """Selector of the event loop: checks the watchdog whenever the loop wakes, before any callback runs."""

    def __init__(self, watchdog: Watchdog) -> None:
        super().__init__()
        self._watchdog = watchdog

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, Any]]:
        """Wait for events, then check."""
        ready = super().select(timeout)
        self._watchdog.check()
        return ready
