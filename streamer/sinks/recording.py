"""A sink that remembers instead of writing, for tests of whatever calls one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from streamer.aggregate.changes import Cut, SummaryChange


@dataclass
class RecordingSink:
    """Keeps every call, in order; `state` is what Redis would hold."""

    cuts: list[Cut] = field(default_factory=list)
    reconciled: list[str] = field(default_factory=list)
    heartbeats: dict[str, dict[str, Any]] = field(default_factory=dict)
    state: dict[str, SummaryChange] = field(default_factory=dict)
    unsent: int = 0
    away: bool = False
    closed: bool = False

    async def write(self, cuts: Sequence[Cut]) -> None:
        """Remember the cuts."""
        self.cuts += cuts
        for cut in cuts:
            self._keep(cut.summaries)

    async def reconcile(self, run_ids: Iterable[str]) -> None:
        """Remember the runs."""
        self.reconciled += run_ids

    async def heartbeat(self, worker_id: str, status: Mapping[str, Any], *, at: datetime) -> None:
        """Remember the last heartbeat of each worker."""
        self.heartbeats[worker_id] = {**status, "at": at}

    async def close(self) -> None:
        """Remember that it was closed."""
        self.closed = True

    def _keep(self, changes: Iterable[SummaryChange]) -> None:
        for change in changes:
            known = self.state.get(change.key)
            if known is None or (known.epoch, known.state_version) <= (change.epoch, change.state_version):
                self.state[change.key] = change
