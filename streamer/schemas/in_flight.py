"""A trial in flight, as Redis holds it and readers get it."""

from __future__ import annotations

from pydantic import Field

from streamer.schemas.base import Instant, Message
from streamer.schemas.summary_fields import Agent, Model


class TrialInFlight(Message):
    """A trial that has started and has no result (inference 3)."""

    shard: str = Field(description='Original run inside a pooled one; "" otherwise.')
    task_id: str = Field(description="The problem.")
    attempt: int = Field(ge=1, description="n-th repeat of the task, from 1.")
    agent: Agent
    model: Model
    tier: str | None = Field(description="Prompt tier; null where there is none.")
    subtest: str | None = Field(description="Variant inside the tier; null where there is none.")
    started_at: Instant | None = Field(
        description="The earliest start reported, RFC 3339 in UTC; null: no time is known."
    )
    position: int | None = Field(
        ge=0, description="How many trials the run had started before; null: not counted."
    )
