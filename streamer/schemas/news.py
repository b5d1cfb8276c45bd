"""The messages of the processors beside the numbers: news of grades and scores, and rejections."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from streamer.schemas.base import Message
from streamer.schemas.summary_fields import (
    AgentModel,
    Digest,
    Grade,
    GradeBasis,
    InStream,
    SemanticsVersion,
    kind,
)

NewsId = Annotated[str, Field(description="Equal for equal news, 32 hexadecimal digits.")]


class GradeChange(InStream):
    """News: a group's grade moved. Which ones appear depends on batching."""

    type: Literal["grade_change"] = kind("a grade moved")
    id: NewsId
    digest: Digest = Field(description="Digest of the summary that has the new grade.")
    agent_model: AgentModel | None = Field(description="Null for the pooled summary of a tier.")
    tier: str | None = Field(description="Prompt tier; null for an agent:model over the run.")
    from_grade: Grade | None = Field(description="Grade before; null: none.")
    to_grade: Grade | None = Field(description="Grade now; null: none.")
    provisional: bool = Field(description="True while planned trials are missing (R26).")
    grade_basis: GradeBasis | None = Field(
        default=None, description="What the grade rests on now (R13); null: nothing."
    )
    grade_score: float | None = Field(
        default=None, ge=0, le=1, description="The number that gives the grade now."
    )
    grade_provisional: bool = Field(
        default=False, description="True while trials wait for their judge (R13)."
    )


class Rescored(InStream):
    """News: a late event changed the score of trials that were already counted (R9)."""

    type: Literal["rescored"] = kind("a trial was scored again")
    id: NewsId
    digest: Digest = Field(description="SHA-256 of the canonical JSON of `after`.")
    trial: dict[str, Any] = Field(description="The slot that moved.")
    because: dict[str, Any] = Field(description="The slot whose event moved it.")
    before: dict[str, Any] = Field(description="The slot's per-run numbers as they were.")
    after: dict[str, Any] = Field(description="The slot's per-run numbers as they are.")


class Rejection(Message):
    """A record that was not folded, with its bytes and the way to mend it."""

    type: Literal["rejection"] = kind("a record was not folded")
    code: str = Field(description="Stable reason code, for programs.")
    message: str = Field(description="What is wrong, where, what is allowed, what to do.")
    run_id: str | None = Field(description="If the record named one.")
    semantics_version: SemanticsVersion
    source_topic: str = Field(description="Topic of the record.")
    source_partition: int = Field(description="Partition of the record.")
    source_offset: int = Field(description="Offset of the record in its partition.")
    source_timestamp_ms: int | None = Field(description="The record's timestamp, Unix milliseconds.")
    source_key_base64: str | None = Field(description="The original key, base64; null: it had none.")
    source_value_base64: str | None = Field(
        description="The original bytes, base64; null: it had none, or they are too many to repeat."
    )
    source_value_bytes: int = Field(ge=0, description="Size of the original value in bytes.")
