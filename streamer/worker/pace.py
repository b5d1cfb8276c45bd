"""How often summaries are published under load: at once while idle, the latest only while behind.

Pages are saved with every batch; summaries say the same again in another form, and the one that is
published next replaces the one before. So a worker that has a backlog publishes now and then and spends
its time on folding: the longer the backlog, the rarer. The batches stay undone until their summaries are out.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from streamer.worker.alive import clock

CALM_RECORDS = 50
"""So many records that wait are no backlog: publishing for all of them takes a few tens of milliseconds."""

RECORDS_PER_REST = 50
"""For so many more, a publication is followed by its own time once more of folding."""

MOST_RESTS = 12.0
"""So many times the publication's own time at most."""

LONGEST_REST_SECONDS = 10.0
"""And no longer than this: a publication may have hung."""

MIN_INTERVAL_SECONDS = 0.1
"""Between two publications while there is a backlog."""


class Pace:
    """Pace of one processor.

    >>> seconds = iter([10.0, 10.1, 10.4, 12.5])
    >>> pace = Pace(now=lambda: next(seconds))
    >>> pace.due(waiting=1_000_000)
    True
    >>> pace.published(took_seconds=0.2)
    >>> pace.due(waiting=50), pace.due(waiting=1_000_000), pace.due(waiting=1_000_000)
    (True, False, True)
    """

    def __init__(self, now: Callable[[], float] = clock) -> None:
        self.now = now
        self._took = 0.0
        self._ended = -inf

    def due(self, waiting: int, *, overdue: bool = False) -> bool:
        """True if the next publication may begin though so many records wait.

        Args:
            overdue: something has been owed for so long that publishing may take half of the time.
        """
        if waiting <= CALM_RECORDS:
            return True
        rests = min((waiting - CALM_RECORDS) / RECORDS_PER_REST, 1.0 if overdue else MOST_RESTS)
        rest = min(max(MIN_INTERVAL_SECONDS, rests * self._took), LONGEST_REST_SECONDS)
        return self.now() >= self._ended + rest

    def published(self, took_seconds: float) -> None:
        """A publication has just ended; it took so long."""
        self._took, self._ended = took_seconds, self.now()
