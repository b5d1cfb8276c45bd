"""The values that Redis does not have yet: the latest entry of each key."""

from __future__ import annotations

from dataclasses import replace

from streamer.redis.entry import KeyState
from streamer.versions import is_older


class Unsent:
    """Latest entry per key, grouped by run, at most `limit` keys.

    When it is full, the oldest key whose loss a reconcile mends goes first: summaries before tombstones.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._runs: dict[str, dict[str, KeyState]] = {}
        self._count = 0
        self.dropped = 0
        """How many entries made room for others since the last reconcile."""
        self.incomplete: set[str] = set()
        """Runs of which some did."""

    def __len__(self) -> int:
        return self._count

    def put(self, entry: KeyState) -> None:
        """Remember an entry unless a newer one of its key is there; news stay news."""
        keys = self._runs.setdefault(entry.run_id, {})
        other = keys.get(entry.suffix)
        if other is None:
            self._make_room()
            keys = self._runs.setdefault(entry.run_id, {})
            self._count += 1
            keys[entry.suffix] = entry
        elif not is_older(entry.version, other.version):
            keys[entry.suffix] = replace(entry, news=entry.news or other.news)

    def discard(self, entry: KeyState) -> None:
        """Forget an entry that was sent, unless another took its place meanwhile."""
        keys = self._runs.get(entry.run_id, {})
        if keys.get(entry.suffix) is entry:
            del keys[entry.suffix]
            self._count -= 1
            if not keys:
                del self._runs[entry.run_id]

    def runs(self) -> list[str]:
        """Runs of which something waits, in the order in which they came."""
        return list(self._runs)

    def of(self, run_id: str) -> list[KeyState]:
        """The waiting entries of a run."""
        return list(self._runs.get(run_id, {}).values())

    def _make_room(self) -> None:
        if self._count < self._limit:
            return
        oldest = next(iter(next(iter(self._runs.values())).values()))
        entries = (entry for keys in self._runs.values() for entry in keys.values())
        first = next((entry for entry in entries if entry.value is not None), oldest)
        self.discard(first)
        self.incomplete.add(first.run_id)
        self.dropped += 1
