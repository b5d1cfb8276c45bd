"""An owner of runs for a Redis sink: whatever changes it was given."""

from __future__ import annotations

from collections.abc import Iterable

from streamer.folding.slots import RunUpdate, SummaryChange
from streamer.storage.redis import RedisSink


class Owning:
    """Owns the runs of these changes, the latest of each key; `streamer.storage.entries.Owner`."""

    def __init__(self, changes: Iterable[SummaryChange] = ()) -> None:
        self._latest: dict[str, dict[tuple[str, str], SummaryChange]] = {}
        self.put(*changes)

    def put(self, *changes: SummaryChange) -> None:
        """What is published from now on; a deleted run keeps only its tombstone."""
        for change in changes:
            kept = self._latest.setdefault(change.run_id, {})
            if change.kind == "run" and change.value is None:
                kept.clear()
            kept[change.kind, change.key] = change

    def run_ids(self) -> list[str]:
        """Every run."""
        return list(self._latest)

    def summaries(self, run_id: str) -> list[SummaryChange]:
        """All that stands of a run, or its tombstone."""
        kept = list(self._latest.get(run_id, {}).values())
        return [c for c in kept if c.value is not None] or [c for c in kept if c.kind == "run"]

    def current(self, run_id: str) -> RunUpdate:
        """The same, for the sink."""
        return RunUpdate(run_id, self.summaries(run_id))


async def reconcile(sink: RedisSink, owner: Owning) -> None:
    """Send everything that the owner has."""
    await sink.reconcile(owner.run_ids())
