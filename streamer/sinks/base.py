"""What a sink of current state can do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from streamer.aggregate.changes import Cut, SummaryChange


class Owner(Protocol):
    """Who owns runs and knows what was published of them."""

    def run_ids(self) -> Iterable[str]:
        """Every run that is owned; may be iterated piecemeal while runs come and go."""

    def summaries(self, run_id: str) -> Iterable[SummaryChange]:
        """Every summary of a run as published, from one moment; none of a run that is not owned."""


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

    async def reconcile(self, run_ids: Iterable[str]) -> None:
        """Send silently what the place lacks of these runs."""

    async def heartbeat(self, worker_id: str, status: Mapping[str, Any], *, at: datetime) -> None:
        """Say that a worker is alive."""

    async def close(self) -> None:
        """Send what can be sent and let go."""
