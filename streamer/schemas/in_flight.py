"""A trial in flight, as Redis holds it and readers get it."""

from __future__ import annotations

from pydantic import Field

from streamer.schemas.base import Instant
from streamer.schemas.summary_fields import InSlot


class TrialInFlight(InSlot):
    """A trial that has started and has no result (inference 3)."""

    started_at: Instant | None = Field(
        description="The earliest start reported, RFC 3339 in UTC; null: no time is known."
    )
    position: int | None = Field(
        ge=0, description="How many trials the run had started before; null: not counted."
    )
