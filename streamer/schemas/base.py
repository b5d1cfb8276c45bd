"""The parts that every message on a wire has in common: identifiers, numbers, times and strictness."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    JsonValue,
    StringConstraints,
    WithJsonSchema,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from streamer.schemas.identity import UNKNOWN
from streamer.schemas.limits import (
    FIRST_YEAR,
    MAX_AMOUNT,
    MAX_BENCHMARK_NAME_CHARACTERS,
    MAX_BENCHMARKS_PER_TRIAL,
    MAX_CLAIMS,
    MAX_COUNT,
    MAX_ID_CHARACTERS,
    MAX_METRIC_NAME_CHARACTERS,
    MAX_NAME_CHARACTERS,
    MAX_ORDINAL,
    MAX_REVISION,
    MAX_TEXT_CHARACTERS,
    YEAR_AFTER_LAST,
)

EVENT_SCHEMA_VERSION = 1
"""Version of the event schema that this code writes; it reads every version up to this one."""

SEMANTICS_VERSION = 2
"""Raised whenever a formula or a ruling changes what a number means (docs/semantics.md)."""

NO_CONTROL_CHARACTERS = r"^[^\p{Cc}]*$"
RFC_3339 = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ]([01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2}(\.[0-9]+)?"
    r"([Zz]|[+-][0-9]{2}:[0-9]{2})$"
)
SHOWN_CHARACTERS = 80
"""Characters of hostile text that an error shows."""

_is_rfc_3339 = re.compile(RFC_3339.removesuffix("$")).fullmatch

Id = Annotated[
    str,
    StringConstraints(min_length=1, max_length=MAX_ID_CHARACTERS, pattern=NO_CONTROL_CHARACTERS),
    Field(description=f"1 to {MAX_ID_CHARACTERS} characters, no control characters."),
]
Key = Annotated[
    str,
    StringConstraints(min_length=1, max_length=MAX_NAME_CHARACTERS, pattern=NO_CONTROL_CHARACTERS),
    Field(description=f"1 to {MAX_NAME_CHARACTERS} characters, no control characters."),
]
"""An id that is a key inside a summary, or a group of its own."""

METRIC_NAME = r"^[A-Za-z0-9_./-]+$"
MetricName = Annotated[
    str,
    StringConstraints(min_length=1, max_length=MAX_METRIC_NAME_CHARACTERS, pattern=METRIC_NAME),
    Field(description=f"1 to {MAX_METRIC_NAME_CHARACTERS} letters, digits and _ . / - (R30)."),
]
"""The name of a metric that a harness or a plan names itself."""

ShortText = Annotated[str, StringConstraints(max_length=MAX_NAME_CHARACTERS)]
"""Free text that is a key inside a summary."""

Text = Annotated[str, StringConstraints(max_length=MAX_TEXT_CHARACTERS)]
"""Text for people."""

Shard = Annotated[str, StringConstraints(max_length=MAX_ID_CHARACTERS, pattern=NO_CONTROL_CHARACTERS)]
Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
SignedCount = Annotated[int, Field(ge=-MAX_COUNT, le=MAX_COUNT)]
"""A count as a harness wrote it, nonsense included: what a negative one means is for scoring to say."""

Total = int | float
"""A total of counts: whole up to 2**53, a float beyond, where JSON readers would not keep it whole."""

Ordinal = Annotated[int, Field(ge=1, le=MAX_ORDINAL)]
Amount = Annotated[float, Field(ge=0, le=MAX_AMOUNT)]
SignedAmount = Annotated[float, Field(ge=-MAX_AMOUNT, le=MAX_AMOUNT)]
Revision = Annotated[int, Field(ge=-MAX_REVISION - 1, le=MAX_REVISION)]

Name = Annotated[
    Key,
    BeforeValidator(lambda value: UNKNOWN if value is None else value, json_schema_input_type=Key | None),
]
"""An agent or a model; null is "unknown" (D4)."""

Number = float | Literal["Infinity", "-Infinity", "NaN"]
"""A float as it travels in JSON: what is not finite is a string (R14)."""


UTC_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ]([01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(Z|\+00:00)$"
"""How nearly all times are written: `datetime.fromisoformat` reads those by itself."""


def _instant(value: object) -> datetime:
    if isinstance(value, str) and _is_rfc_3339(value):
        value = datetime.fromisoformat(value.upper())
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise ValueError("not RFC 3339 with a zone")
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ValueError("before the year 1 or after 9999") from None


class _AnyInstant:
    """Validates times: those in UTC without a call of Python code, which saves a fifth of decoding."""

    @staticmethod
    def __get_pydantic_core_schema__(source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        usual = core_schema.str_schema(pattern=UTC_TIME, strict=True)
        return core_schema.union_schema(
            [
                core_schema.no_info_after_validator_function(datetime.fromisoformat, usual),
                core_schema.no_info_plain_validator_function(_instant),
            ],
            mode="left_to_right",
            custom_error_type="instant",
            custom_error_message="a time must be RFC 3339 with a zone, as 2026-01-31T09:30:00Z, "
            "and lie within the years 1 to 9999 in UTC",
        )


Instant = Annotated[
    datetime,
    _AnyInstant,
    WithJsonSchema({"type": "string", "format": "date-time", "pattern": RFC_3339}),
]
"""A point in time: RFC 3339 with a zone, kept in UTC, so that equal instants are equal content (R17)."""


def is_plausible(moment: datetime) -> bool:
    """Whether a time in UTC lies in the years 2000 to 2199: another comes from a wrong clock or unit.

    >>> is_plausible(datetime(1970, 1, 1, tzinfo=UTC)), is_plausible(datetime(2026, 1, 1, tzinfo=UTC))
    (False, True)
    """
    return FIRST_YEAR <= moment.year < YEAR_AFTER_LAST


def _if_plausible(moment: datetime | None) -> datetime | None:
    return moment if moment is None or is_plausible(moment) else None


EventTime = Annotated[
    Instant | None,
    AfterValidator(_if_plausible),
    Field(description="RFC 3339 with zone; outside 2000 to 2200 it is missing, and counted so."),
]
"""When something happened, as a harness says; None also where its clock is wrong."""


def _is_safe(value: JsonValue) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    if isinstance(value, dict):
        return all(map(_is_safe, value.values()))
    if isinstance(value, list):
        return all(map(_is_safe, value))
    return True


def _only_safe_numbers(values: dict[str, JsonValue]) -> dict[str, JsonValue]:
    for key, value in values.items():
        if not _is_safe(value):
            raise PydanticCustomError(
                "finite_number",
                "Entry {key} holds a number that is not finite or exceeds 64 bits; write null instead",
                {"key": ascii(key)[:SHOWN_CHARACTERS]},
            )
    return values


_SafeNumbers = AfterValidator(_only_safe_numbers)
Claims = Annotated[dict[ShortText, JsonValue], Field(max_length=MAX_CLAIMS), _SafeNumbers]
"""Free JSON by name; its numbers are finite and fit 64 bits (JsonValue alone lets NaN through)."""

BenchmarkName = Annotated[str, StringConstraints(max_length=MAX_BENCHMARK_NAME_CHARACTERS)]
Benchmarks = Annotated[
    dict[BenchmarkName, JsonValue], Field(max_length=MAX_BENCHMARKS_PER_TRIAL), _SafeNumbers
]
"""Free JSON by benchmark name, 10,000 entries at most."""


class Message(BaseModel):
    """Base of every message: no text where a number belongs, no NaN, immutable once built.

    Unknown fields are kept, so that a reader can read what an older or a newer version wrote.
    """

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False, extra="allow")
