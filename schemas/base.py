"""What every message on a wire has in common: identifiers, numbers and strictness."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

EVENT_SCHEMA_VERSION = 1
"""Version of the event schema that this code writes; it reads every version up to this one."""

SEMANTICS_VERSION = 1
"""Raised whenever a formula or a ruling changes what a number means (semantics.md)."""

MAX_ID_CHARACTERS = 512
MAX_RECORD_BYTES = 1024 * 1024
MAX_BENCHMARKS_PER_TRIAL = 10_000
MAX_COUNT = 2**53
"""Largest count (tokens, steps) accepted: the largest integer that every JSON reader keeps exact."""

Id = Annotated[
    str,
    StringConstraints(min_length=1, max_length=MAX_ID_CHARACTERS, pattern=r"^[^\p{Cc}]*$"),
    Field(description="1 to 512 characters, no control characters."),
]
Shard = Annotated[str, StringConstraints(max_length=MAX_ID_CHARACTERS, pattern=r"^[^\p{Cc}]*$")]
Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
Revision = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]

Number = float | Literal["Infinity", "-Infinity", "NaN"]
"""A float as it travels in JSON: what is not finite is a string (R14)."""


class Message(BaseModel):
    """Base of every message: no text where a number belongs, no NaN, immutable once built."""

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False, extra="forbid")
