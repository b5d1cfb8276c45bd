"""Keeps a server alive: one that ends is started again, after a pause that grows."""

from __future__ import annotations

from collections.abc import Callable

from streamer.embedded.errors import ServerFailed
from streamer.embedded.processes import Child

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 10.0
HEALTHY_SECONDS = 30.0
"""A server that lived as long as this has recovered: the next pause is the first one again."""

MAX_FAILURES = 10
"""So many short lives in a row, and it is given up: about a minute."""


class Supervisor:
    """Looks after one child.

    Args:
        child: the process.
        start: starts it (and may wait until it is ready).
        echo: called with a line when it ended.
    """

    def __init__(self, child: Child, start: Callable[[], None], echo: Callable[[str], None]) -> None:
        self._child = child
        self._start = start
        self._echo = echo
        self._failures = 0
        self._started = 0.0
        self._due: float | None = None

    def start(self, now: float) -> None:
        """Start the child; `now` is a monotonic time in seconds."""
        self._started, self._due = now, None
        self._start()

    def look(self, now: float) -> None:
        """To be called again and again; ServerFailed if the child does not stay alive."""
        if self._child.alive:
            return
        if self._due is None:
            self._due = now + self._pause(now)
            self._echo(
                f"{self._child.name} ended ({self._child.exit_code}); it is started again in "
                f"{self._due - now:.1f} s. Its log is {self._child.log}."
            )
        elif now >= self._due:
            self.start(now)

    def _pause(self, now: float) -> float:
        self._failures = 1 if now - self._started > HEALTHY_SECONDS else self._failures + 1
        if self._failures > MAX_FAILURES:
            raise ServerFailed(self._child.name, f"ended {self._failures} times in a row", self._child.log)
        return float(min(FIRST_PAUSE_SECONDS * 2 ** (self._failures - 1), LONGEST_PAUSE_SECONDS))
