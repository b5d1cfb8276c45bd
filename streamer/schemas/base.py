"""The parts that every message on a wire has in common: identifiers, numbers, times and strictness.

Names and keys: the agent:model label, percent-encoding, topic keys, tasks.

>>> agent_model_label("terminus", "openai/gpt-5")
'terminus:openai/gpt-5'
>>> agent_model_label("pkg:Agent", "m")
'pkg%3AAgent:m'
>>> encode_id("a|b:c")
'a%7Cb%3Ac'
>>> decode_id('a%7Cb%3Ac')
'a|b:c'
"""

# Annotations are evaluated here: as text, pydantic compiles each again, 20 ms at every start of a command.

import math
import re
import sys
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Annotated, Any, Literal, Self
from urllib.parse import unquote

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

# -----------------------------------------------------------------------------
# Limits of the values in an event. Each follows from what is done with the value.
#
# The JSON Schema of the events shows them, pydantic and the fast reading of :mod:`streamer.schemas.wire`
# enforce them, and connectors cut names to them. An event beyond a limit becomes a rejection with its bytes.


MAX_RECORD_BYTES = 1024 * 1024
"""An event as JSON: a state page with one event, and its rejection, fit a message of 4 MiB."""

MAX_ID_CHARACTERS = 512
"""A run, a task or a shard: parts of topic and Redis keys. They are not keys inside a summary."""

MAX_NAME_CHARACTERS = 128
"""Text that is a key inside a summary, or a group of its own: agent, model, tier, failure mode, ..."""

MAX_AGENT_MODEL_CHARACTERS = 4 * MAX_NAME_CHARACTERS + 1
"""A label `agent:model`: two names, of which the first is percent-encoded."""

MAX_TEXT_CHARACTERS = 1024
"""Text for people. At most five such texts stand in a run summary, with 6 bytes a character: 30 KiB."""

MAX_BENCHMARK_NAME_CHARACTERS = 4096
"""A benchmark's name with its parameters; the score takes it apart."""

LARGE_EVENT_BYTES = 2048
"""Larger results mostly have benchmarks, which is faster to look for than to find while reading."""

MAX_COUNT = 2**53
"""A count (tokens, steps): the largest integer that every JSON reader keeps exact. Sums may exceed it."""

MAX_ORDINAL = 2**31
"""The n-th attempt of a task, or the place of an agent: attempts are counted in 32 bits."""

MAX_REVISION = 2**63 - 1
"""A revision is Unix nanoseconds in 64 bits."""

MAX_AMOUNT = sys.float_info.max
"""Dollars, seconds, scores: any finite float. Sums are exact, and Infinity beyond the range (R14, R18)."""

MAX_TASKS = 1_000_000
MAX_PLANNED_ATTEMPTS = 10_000
MAX_TIERS = 100
MAX_SUBTESTS = 1_000
MAX_AGENT_MODELS = 5_000
"""The product of a plan: tasks x attempts x tiers x subtests x agents stays below 2**63."""

MAX_BASELINES = 100
"""Baseline agents; each trial's agent is looked up among them."""

MAX_INFRASTRUCTURE_FAILURES = 100
"""Failure modes that a plan names; each trial's is looked up among them."""

MAX_LABELS = 100
MAX_LABEL_VALUE_CHARACTERS = 512
"""Free labels of a run, all of which stand in its summary."""

MAX_METRICS = 64
MAX_METRIC_NAME_CHARACTERS = 64
"""Named metrics of a trial, or of a plan (R30). A group keeps statistics of each."""

MAX_PROVENANCE = 32
MAX_PROVENANCE_CHARACTERS = 256
"""What a run, or a trial, was made with (R36). It stands in the summary of the run: 64 KiB at most."""

MAX_ORDER_HISTORY = 1_000
"""Runs that an order was made from."""

MAX_PARTS = 10_000
"""Pieces of a run that are published apart, as shards of an eval."""

MAX_TRIAL_LABELS = 16
MAX_TRIAL_LABEL_KEY_CHARACTERS = 64
MAX_TRIAL_LABEL_VALUE_CHARACTERS = 256
"""Free labels of a trial. They stay with the event; no summary holds them."""

MAX_MESSAGE_CHARACTERS = 4096

MAX_ARTIFACTS = 32
MAX_LINK_CHARACTERS = 2048
"""Files of a trial, each with the path or the link where it lies. They stay with the event."""

MAX_BENCHMARKS_PER_TRIAL = 10_000
"""All of them are scored at once: some milliseconds."""

MAX_CLAIMS = 1_000
"""Entries that a log claims; scoring looks for about twenty."""

FIRST_YEAR = 2000
YEAR_AFTER_LAST = 2200
"""A time outside, in UTC, comes from a wrong clock or a wrong unit: it is missing, and counted so."""

EARLIEST_MICROSECONDS = 946_684_800 * 10**6
LATEST_MICROSECONDS = 7_258_118_400 * 10**6
"""The beginnings of those two years, Unix time."""


# -----------------------------------------------------------------------------
# Names and keys: the agent:model label, percent-encoding, topic keys, tasks.


_RESERVED = {ord(c): f"%{ord(c):02X}" for c in "%|:{}/"}
_RESERVED_IN_AGENT = {ord(c): f"%{ord(c):02X}" for c in "%:"}

UNKNOWN = "unknown"
"""Agent or model that a harness does not name (D4)."""


def encode_id(text: str) -> str:
    return text.translate(_RESERVED)


def decode_id(text: str) -> str:
    return unquote(text)


def run_of_key(key: str) -> str:
    """The run of a summary's, a scored trial's or a news item's key in its topic.

    >>> run_of_key("a%7Cb|agent:model"), run_of_key("a%7Cb")
    ('a|b', 'a|b')
    """
    return decode_id(key.partition("|")[0])


def agent_model_label(agent: str, model: str) -> str:
    """The label `agent:model` (R7); a colon in the agent's name is encoded, so labels never collide."""
    return f"{agent.translate(_RESERVED_IN_AGENT)}:{model}"


def split_label(label: str) -> tuple[str, str]:
    """Agent and model of a label, the inverse of :func:`agent_model_label`.

    >>> split_label("pkg%3AAgent:m"), split_label("terminus")
    (('pkg:Agent', 'm'), ('terminus', ''))
    """
    agent, _, model = label.partition(":")
    return decode_id(agent), model


def agent_model_key(agent: str, model: str) -> str:
    return f"{encode_id(agent)}:{encode_id(model)}"


@lru_cache(maxsize=16_384)
def task_key(tier: str | None, subtest: str | None, task_id: str) -> str:
    """The key of a task: TASK, or TIER|SUBTEST|TASK if it has a tier; each part percent-encoded.

    >>> task_key(None, None, "a/b"), task_key("T0", None, "a")
    ('a%2Fb', 'T0||a')
    """
    if tier is None and subtest is None:
        return encode_id(task_id)
    return "|".join(map(encode_id, (tier or "", subtest or "", task_id)))


# -----------------------------------------------------------------------------
# The parts that every message on a wire has in common: identifiers, numbers, times and strictness.


EVENT_SCHEMA_VERSION = 2
"""Version of the event schema that this code knows; it reads every version up to this one.

Events without a version have version 1. Version 2 adds fields and `trial_scored`.
"""

SEMANTICS_VERSION = 3
"""Raised whenever a formula or a ruling changes what a number means (docs/semantics.md)."""

NO_CONTROL_CHARACTERS = r"^[^\p{Cc}]*$"
RFC_3339 = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ]([01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2}(\.[0-9]+)?"
    r"([Zz]|[+-][0-9]{2}:[0-9]{2})$"
)
WITHOUT_ZONE = RFC_3339[: RFC_3339.rindex("(")] + "$"
SHOWN_CHARACTERS = 80
"""Characters of hostile text that an error shows."""

_is_rfc_3339 = re.compile(RFC_3339.removesuffix("$")).fullmatch
is_without_zone = re.compile(WITHOUT_ZONE.removesuffix("$")).fullmatch

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

Text = Annotated[str, StringConstraints(max_length=MAX_TEXT_CHARACTERS)]

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
    Key, BeforeValidator(lambda value: UNKNOWN if value is None else value, json_schema_input_type=Key | None)
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


def _event_instant(value: object) -> datetime:
    if isinstance(value, str) and is_without_zone(value):
        return datetime.fromisoformat(value.upper())
    return _instant(value)


class _AnyInstant:
    """Validates times: those in UTC without a call of Python code, which saves a fifth of decoding."""

    read = staticmethod(_instant)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        usual = core_schema.str_schema(pattern=UTC_TIME, strict=True)
        return core_schema.union_schema(
            [
                core_schema.no_info_after_validator_function(datetime.fromisoformat, usual),
                core_schema.no_info_plain_validator_function(cls.read),
            ],
            mode="left_to_right",
            custom_error_type="instant",
            custom_error_message="a time must be RFC 3339 with a zone, as 2026-01-31T09:30:00Z, "
            "and lie within the years 1 to 9999 in UTC",
        )


Instant = Annotated[
    datetime, _AnyInstant, WithJsonSchema({"type": "string", "format": "date-time", "pattern": RFC_3339})
]
"""A point in time: RFC 3339 with a zone, kept in UTC, so that equal instants are equal content (R17)."""


class _AnyEventInstant(_AnyInstant):
    """The same, and times without a zone as they are; the event leaves those out."""

    read = staticmethod(_event_instant)


NO_TIME = -(2**63)
"""Stands for a null time: lower than every time."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_SECONDS = 24 * 60 * 60


def microseconds(moment: datetime | None) -> int:
    if moment is None:
        return NO_TIME
    since = moment - _EPOCH
    return (since.days * _DAY_SECONDS + since.seconds) * 1_000_000 + since.microseconds


@lru_cache(maxsize=1024)
def rfc3339(at: int) -> str | None:
    """A time in microseconds as RFC 3339 text in UTC; None for :data:`NO_TIME`.

    >>> rfc3339(1_500_000)
    '1970-01-01T00:00:01.500000Z'
    """
    if at == NO_TIME:
        return None
    return (_EPOCH + timedelta(microseconds=at)).isoformat().replace("+00:00", "Z")


def is_plausible(moment: datetime) -> bool:
    """Whether a time in UTC lies in the years 2000 to 2199: another comes from a wrong clock or unit.

    >>> is_plausible(datetime(1970, 1, 1, tzinfo=UTC)), is_plausible(datetime(2026, 1, 1, tzinfo=UTC))
    (False, True)
    """
    return FIRST_YEAR <= moment.year < YEAR_AFTER_LAST


def _if_plausible(moment: datetime | None) -> datetime | None:
    return moment if moment is None or is_plausible(moment) else None


_WITH_ZONE_OR_NOT = RFC_3339.removesuffix("$") + "?$"
EventTime = Annotated[
    Annotated[
        datetime,
        _AnyEventInstant,
        WithJsonSchema({"type": "string", "format": "date-time", "pattern": _WITH_ZONE_OR_NOT}),
    ]
    | None,
    AfterValidator(_if_plausible),
    Field(description="RFC 3339; without zone, or outside 2000 to 2200, it is missing, and counted so."),
]
"""When something happened, according to the harness; None if its clock is clearly wrong."""


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


def optional(description: str, default: Any = None, **constraints: Any) -> Any:
    return Field(default=default, description=description, **constraints)


class Message(BaseModel):
    """Base of every message: no text where a number belongs, no NaN, immutable once built.

    Unknown fields are kept, so that messages of older and newer versions can be read.
    """

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False, extra="allow", defer_build=True)

    @classmethod
    def like(cls, source: object, **others: Any) -> Self:
        """A message with the values that an object has under the names of its fields, and these others."""
        names = cls.model_fields.keys() - others.keys()
        return cls(**{name: getattr(source, name) for name in names}, **others)


# -----------------------------------------------------------------------------
# The two spellings of a model's name: for reports, and for looking up its price.


PRICING_PREFIXES = frozenset({"openai", "anthropic", "google", "fireworks"})
"""Providers whose prefix is dropped for pricing (E9). Others (`gemini/`, `openrouter/`) stay."""

BASELINE_LABELS = frozenset({"nop", "oracle"})
"""Agents that are baselines in every run (R10)."""

FIREWORKS_PATH = "accounts/fireworks/models/"


def model_for_reporting(name: str) -> str:
    """The name that reports and slots use (E10): no leading "@", a provider prefix is kept.

    >>> model_for_reporting("@openai/gpt-5")
    'openai/gpt-5'
    >>> model_for_reporting("accounts/fireworks/models/kimi-k2")
    'fireworks/accounts/fireworks/models/kimi-k2'
    """
    name = name.lstrip("@")
    return f"fireworks/{name}" if name.startswith(FIREWORKS_PATH) else name


def label_for_reporting(agent: str, model: str | None) -> str:
    """The label `agent:model` as plans name it: the model as in reports, None as "unknown" (D4).

    >>> label_for_reporting("terminus", "@openai/gpt-5"), label_for_reporting("a:b", None)
    ('terminus:openai/gpt-5', 'a%3Ab:unknown')
    """
    return agent_model_label(agent, model_for_reporting(model or UNKNOWN))


def model_of_agent(agent: str, model: str) -> str:
    """The name that slots use for the model of an agent: as reports have it, a baseline's as its label.

    A baseline is an agent named nop or oracle whose model is the same name in any case (R7).

    >>> model_of_agent("oracle", "Oracle"), model_of_agent("oracle", "openai/gpt-5")
    ('oracle', 'openai/gpt-5')
    """
    return model_for_reporting(baseline_model(agent, model))


def baseline_model(agent: str, model: str) -> str:
    """The model as it is, but a baseline's own name in any case becomes its label (R7).

    >>> baseline_model("nop", "NOP"), baseline_model("Oracle", "oracle")
    ('nop', 'oracle')
    """
    return agent if agent in BASELINE_LABELS and model.lower() == agent else model


def model_for_pricing(name: str) -> str:
    """The name that prices are looked up by (E9): no leading "@", no prefix of a known provider.

    Case-sensitive. White space stays, and one prefix only is dropped.

    >>> model_for_pricing("@openai/gpt-5")
    'gpt-5'
    >>> model_for_pricing("openrouter/openai/gpt-5")
    'openrouter/openai/gpt-5'
    """
    name = name.lstrip("@")
    provider, slash, rest = name.partition("/")
    return rest if slash and provider in PRICING_PREFIXES else name
