"""How often summaries are published under load: at once while idle, the latest only while behind.

Pages are saved with every batch; summaries say the same again in another form, and the one that is
published next replaces the one before. So a worker that has a backlog publishes now and then and spends
its time on folding. The batches stay undone until their summaries are out.
"""

from __future__ import annotations

from collections.abc import Callable

from streamer.worker.alive import clock

MIN_INTERVAL_SECONDS = 0.2
"""Between two publications while there is a backlog."""

REST_FACTOR = 12.0
"""A publication that took t seconds is followed by at least this times t of folding."""


class Pace:
    """Pace of one processor.

    >>> seconds = iter([10.0, 10.1, 10.4, 12.0])
    >>> pace = Pace(now=lambda: next(seconds))
    >>> pace.due()
    True
    >>> pace.published(took_seconds=0.2)
    >>> pace.due(), pace.due()
    (False, True)
    """

    def __init__(self, now: Callable[[], float] = clock) -> None:
        self.now = now
        self._next = 0.0

    def due(self) -> bool:
        """True if the next publication may begin though there is a backlog."""
        return self.now() >= self._next

    def published(self, took_seconds: float) -> None:
        """A publication has just ended; it took so long."""
        self._next = self.now() + max(MIN_INTERVAL_SECONDS, REST_FACTOR * took_seconds)
