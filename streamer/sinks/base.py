"""What a sink of current state can do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from streamer.aggregate.changes import Cut, SummaryChange


class Sink(Protocol):
    """What the worker needs of the place that holds current state."""

    @property
    def unsent(self) -> int:
        """Keys that the place does not have yet."""

    @property
    def away(self) -> bool:
        """True while the place does not take writes."""

    async def write(self, cuts: Sequence[Cut]) -> None:
        """Send what changed."""

    async def reconcile(self, changes: Iterable[SummaryChange]) -> None:
        """Send silently what the place lacks."""

    async def heartbeat(self, worker_id: str, status: Mapping[str, Any], *, at: datetime) -> None:
        """Say that a worker is alive."""

    async def close(self) -> None:
        """Send what can be sent and let go."""
