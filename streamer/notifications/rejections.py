"""Rejections within a minute: a notice when there are too many, and no second one while there are. Pure."""

from __future__ import annotations

from collections import Counter, deque
from datetime import datetime, timedelta

from streamer.notifications.notification import Notification, named

WINDOW = timedelta(minutes=1)
QUIET = timedelta(hours=1)
"""After a notice the next one comes at the earliest so much later."""

KEY = "rejections"
MAX_CODES = 5


class RejectionRate:
    """Counts what is rejected.

    Args:
        per_minute: more than this within a minute is worth a notice.
        told_at: when the last such notice was sent, by any process; None: never.
    """

    def __init__(self, per_minute: float, told_at: datetime | None = None) -> None:
        self._limit = per_minute
        self.told_at = told_at
        self._seen: deque[tuple[datetime, str, str | None]] = deque(maxlen=int(per_minute) + 1)

    def take(self, code: str, run_id: str | None, now: datetime) -> Notification | None:
        """One more was rejected; the notice, if that is too many and the last notice is old enough."""
        self._seen.append((now, code, run_id))
        while now - self._seen[0][0] >= WINDOW:
            self._seen.popleft()
        if len(self._seen) <= self._limit or (self.told_at is not None and now - self.told_at < QUIET):
            return None
        self.told_at = now
        codes = Counter(code for _, code, _ in self._seen).most_common(MAX_CODES)
        runs = sorted({run_id for _, _, run_id in self._seen if run_id is not None})
        lines = [", ".join(f"{named(code)} {count}" for code, count in codes)]
        if runs:
            lines.append(f"Runs: {', '.join(map(named, runs[:MAX_CODES]))}")
        lines.append("'streamer rejections list' shows them, 'streamer rejections requeue' sends them again")
        title = f"more than {self._limit:g} records rejected within a minute"
        return Notification("", KEY, title, "\n".join(lines))
