"""How often summaries are published under load: at once while idle, less often the longer the backlog.

State pages are saved with every batch. Summaries say the same again in another form, and each one replaces
the one before. So a worker with a backlog publishes rarely and spends its time on folding. Batches are not
done until their summaries are published.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from streamer.worker.clock import clock

CALM_RECORDS = 50
"""So few waiting records are no backlog: publishing all of them takes a few tens of milliseconds."""

RECORDS_PER_REST = 50
"""For every 50 records more, the worker folds for as long as the last publication took."""

MOST_RESTS = 12.0
"""The longest rest between publications, in multiples of the time that the last publication took."""

LONGEST_REST_SECONDS = 10.0
"""The longest rest in any case: the last publication may have hung."""

MIN_INTERVAL_SECONDS = 0.1
"""Shortest time between two publications while there is a backlog."""


class PublishRate:
    """The publish rate of one processor.

    >>> seconds = iter([10.0, 10.1, 10.4, 12.5])
    >>> rate = PublishRate(now=lambda: next(seconds))
    >>> rate.due(waiting=1_000_000)
    True
    >>> rate.published(took_seconds=0.2)
    >>> rate.due(waiting=50), rate.due(waiting=1_000_000), rate.due(waiting=1_000_000)
    (True, False, True)
    """

    def __init__(self, now: Callable[[], float] = clock) -> None:
        self.now = now
        self._took = 0.0
        self._ended = -inf

    def due(self, waiting: int, *, overdue: bool = False) -> bool:
        """True if the next publication may begin.

        Args:
            waiting: records that are known to wait for folding.
            overdue: something has waited for so long that publishing may take half of the time.
        """
        if waiting <= CALM_RECORDS:
            return True
        rests = min((waiting - CALM_RECORDS) / RECORDS_PER_REST, 1.0 if overdue else MOST_RESTS)
        rest = min(max(MIN_INTERVAL_SECONDS, rests * self._took), LONGEST_REST_SECONDS)
        return self.now() >= self._ended + rest

    def published(self, took_seconds: float) -> None:
        """Note that a publication has just ended, and how long it took."""
        self._took, self._ended = took_seconds, self.now()
