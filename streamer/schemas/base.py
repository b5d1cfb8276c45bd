"""The parts that all messages share: identifiers, names, topic keys, numbers, times and strictness.

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

import hashlib
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Annotated, Any, Literal, Self
from urllib.parse import unquote

import msgspec
import orjson
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
# Limits of the values in an event. Each follows from the use of the value.
#
# The JSON Schema of the events shows them, pydantic and the fast reading of :mod:`streamer.schemas.wire`
# enforce them, and connectors cut names to them. An event beyond a limit becomes a rejection with its bytes.


MAX_RECORD_BYTES = 1024 * 1024
"""The largest event as JSON: a state page with one event, and its rejection, fit a message of 4 MiB."""

MAX_ID_CHARACTERS = 512
"""Limit for a run, task or shard: parts of topic and Redis keys, but not keys inside a summary."""

MAX_NAME_CHARACTERS = 128
"""Limit for text that is a key inside a summary, or has its own group: agent, model, tier, ..."""

MAX_AGENT_MODEL_CHARACTERS = 4 * MAX_NAME_CHARACTERS + 1
"""Limit for a label `agent:model`: two names, the first of them percent-encoded."""

MAX_TEXT_CHARACTERS = 1024
"""Limit for prose. A run summary has at most five such texts, at 6 bytes a character 30 KiB."""

MAX_BENCHMARK_NAME_CHARACTERS = 4096
"""Limit for a benchmark's name with its parameters, which scoring parses."""

LARGE_EVENT_BYTES = 2048
"""Size above which a result usually has benchmarks, so that looking for them first is faster."""

MAX_COUNT = 2**53
"""Limit for a count (tokens, steps): the largest integer that every JSON reader keeps exact."""

MAX_ORDINAL = 2**31
"""Limit for the number of an attempt or the place of an agent, which are counted in 32 bits."""

MAX_REVISION = 2**63 - 1
"""Limit for a revision: Unix nanoseconds in 64 bits."""

MAX_AMOUNT = sys.float_info.max
"""Limit for dollars, seconds, scores: any finite float. Exact sums may be Infinity (R14, R18)."""

MAX_TASKS = 1_000_000
MAX_PLANNED_ATTEMPTS = 10_000
MAX_TIERS = 100
MAX_SUBTESTS = 1_000
MAX_AGENT_MODELS = 5_000
"""With these limits tasks x attempts x tiers x subtests x agents stays below 2**63."""

MAX_BASELINES = 100
"""Limit for baseline agents, because each trial's agent is looked up among them."""

MAX_INFRASTRUCTURE_FAILURES = 100
"""Limit for a plan's failure modes, because each trial's is looked up among them."""

MAX_LABELS = 100
MAX_LABEL_VALUE_CHARACTERS = 512
"""Limits for free labels of a run, all of which are in its summary."""

MAX_METRICS = 64
MAX_METRIC_NAME_CHARACTERS = 64
"""Limits for named metrics of a trial or a plan (R30). Each group keeps statistics of every metric."""

MAX_PROVENANCE = 32
MAX_PROVENANCE_CHARACTERS = 256
"""Limits for the provenance of a run or trial (R36): at most 64 KiB of the run's summary."""

MAX_ORDER_HISTORY = 1_000

MAX_PARTS = 10_000
"""Limit for the parts of a run, such as the shards of an eval."""

MAX_TRIAL_LABELS = 16
MAX_TRIAL_LABEL_KEY_CHARACTERS = 64
MAX_TRIAL_LABEL_VALUE_CHARACTERS = 256
"""Limits for free labels of a trial, which stay with the event and are in no summary."""

MAX_MESSAGE_CHARACTERS = 4096

MAX_ARTIFACTS = 32
MAX_LINK_CHARACTERS = 2048
"""Limits for files of a trial, each with a path or link. They stay with the event."""

MAX_BENCHMARKS_PER_TRIAL = 10_000
"""Limit for benchmarks that are scored together, which takes a few milliseconds."""

MAX_CLAIMS = 1_000
"""Limit for the claims of a log; scoring looks for about twenty."""

FIRST_YEAR = 2000
YEAR_AFTER_LAST = 2200
"""A UTC time outside these years comes from a wrong clock or unit. It counts as missing."""

EARLIEST_MICROSECONDS = 946_684_800 * 10**6
LATEST_MICROSECONDS = 7_258_118_400 * 10**6
"""The beginning of both years in Unix time."""


# -----------------------------------------------------------------------------
# Names and keys: the agent:model label, percent-encoding, topic keys, tasks.


_RESERVED = {ord(c): f"%{ord(c):02X}" for c in "%|:{}/"}
_RESERVED_IN_AGENT = {ord(c): f"%{ord(c):02X}" for c in "%:"}

UNKNOWN = "unknown"
"""Agent or model without a name (D4)."""


def encode_id(text: str) -> str:
    return text.translate(_RESERVED)


def decode_id(text: str) -> str:
    return unquote(text)


def run_of_key(key: str) -> str:
    """The run in the key of a summary, a scored trial or a notification.

    >>> run_of_key("a%7Cb|agent:model"), run_of_key("a%7Cb")
    ('a|b', 'a|b')
    """
    return decode_id(key.partition("|")[0])


def agent_model_label(agent: str, model: str) -> str:
    return f"{agent.translate(_RESERVED_IN_AGENT)}:{model}"


def split_label(label: str) -> tuple[str, str]:
    """Agent and model in a label.

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


def value_at(message: Any, path: Iterable[str]) -> Any:
    """The value at the end of a path of fields, in a message or parsed JSON; None if a field is missing."""
    for step in path:
        message = message.get(step) if isinstance(message, Mapping) else getattr(message, step, None)
    return message


# -----------------------------------------------------------------------------
# The parts that all messages share: identifiers, numbers, times and strictness.


EVENT_SCHEMA_VERSION = 2
"""Version of the event schema, which can read all earlier ones.

Events without a version have version 1. Version 2 adds fields and `trial_scored`.
"""

SEMANTICS_VERSION = 3
"""Increased whenever a formula or ruling changes the meaning of a number (docs/semantics.md)."""

NO_CONTROL_CHARACTERS = r"^[^\p{Cc}]*$"
RFC_3339 = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ]([01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2}(\.[0-9]+)?"
    r"([Zz]|[+-][0-9]{2}:[0-9]{2})$"
)
WITHOUT_ZONE = RFC_3339[: RFC_3339.rindex("(")] + "$"
SHOWN_CHARACTERS = 80

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

METRIC_NAME = r"^[A-Za-z0-9_./-]+$"
MetricName = Annotated[
    str,
    StringConstraints(min_length=1, max_length=MAX_METRIC_NAME_CHARACTERS, pattern=METRIC_NAME),
    Field(description=f"1 to {MAX_METRIC_NAME_CHARACTERS} letters, digits and _ . / - (R30)."),
]
"""The name of a metric that a harness or plan defines."""

ShortText = Annotated[str, StringConstraints(max_length=MAX_NAME_CHARACTERS)]

Text = Annotated[str, StringConstraints(max_length=MAX_TEXT_CHARACTERS)]

Shard = Annotated[str, StringConstraints(max_length=MAX_ID_CHARACTERS, pattern=NO_CONTROL_CHARACTERS)]
Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
SignedCount = Annotated[int, Field(ge=-MAX_COUNT, le=MAX_COUNT)]

Total = int | float
"""A total of counts: an integer up to 2**53, then a float, because JSON readers would lose precision."""

Ordinal = Annotated[int, Field(ge=1, le=MAX_ORDINAL)]
Amount = Annotated[float, Field(ge=0, le=MAX_AMOUNT)]
SignedAmount = Annotated[float, Field(ge=-MAX_AMOUNT, le=MAX_AMOUNT)]
Revision = Annotated[int, Field(ge=-MAX_REVISION - 1, le=MAX_REVISION)]

Name = Annotated[
    Key, BeforeValidator(lambda value: UNKNOWN if value is None else value, json_schema_input_type=Key | None)
]
"""An agent or a model; null is "unknown" (D4)."""

Number = float | Literal["Infinity", "-Infinity", "NaN"]
"""A float as it travels in JSON, where non-finite values are strings (R14)."""


UTC_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ]([01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(Z|\+00:00)$"
"""The usual format of times, which `datetime.fromisoformat` reads directly."""


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
    """Validates times; UTC times need no Python code, which saves a fifth of decoding."""

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
    """The same, except that times without a zone are passed to the event, which leaves them out."""

    read = staticmethod(_event_instant)


NO_TIME = -(2**63)
"""The representation of a null time: lower than every time."""

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
    """Whether a UTC time is in the years 2000 to 2199; others come from a wrong clock or unit.

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
    Field(description="RFC 3339; without zone, or outside 2000 to 2199, it is missing, and counted so."),
]
"""The time of an event by the harness's clock; None if the clock is clearly wrong."""


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
"""Any JSON by name; its numbers are finite and fit 64 bits (plain JsonValue accepts NaN)."""

BenchmarkName = Annotated[str, StringConstraints(max_length=MAX_BENCHMARK_NAME_CHARACTERS)]
Benchmarks = Annotated[
    dict[BenchmarkName, JsonValue], Field(max_length=MAX_BENCHMARKS_PER_TRIAL), _SafeNumbers
]
"""Free JSON by benchmark name."""


def optional(description: str, default: Any = None, **constraints: Any) -> Any:
    return Field(default=default, description=description, **constraints)


class Message(BaseModel):
    """Base of every message: numbers are never text or NaN, and messages are immutable.

    Unknown fields are kept, so that other versions' messages can be read.
    """

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False, extra="allow", defer_build=True)

    @classmethod
    def like(cls, source: object, **others: Any) -> Self:
        """A message with the object's values for fields of the same names, and with the `others`."""
        names = cls.model_fields.keys() - others.keys()
        return cls(**{name: getattr(source, name) for name in names}, **others)


# -----------------------------------------------------------------------------
# The two spellings of a model's name: for reports, and for looking up its price.


PRICING_PREFIXES = frozenset({"openai", "anthropic", "google", "fireworks"})
"""Providers whose prefix is dropped for pricing (E9). Other prefixes (`gemini/`, `openrouter/`) stay."""

BASELINE_LABELS = frozenset({"nop", "oracle"})

FIREWORKS_PATH = "accounts/fireworks/models/"


def model_for_reporting(name: str) -> str:
    """The name in reports and slots (E10): no leading "@", but with its provider prefix.

    >>> model_for_reporting("@openai/gpt-5")
    'openai/gpt-5'
    >>> model_for_reporting("accounts/fireworks/models/kimi-k2")
    'fireworks/accounts/fireworks/models/kimi-k2'
    """
    name = name.lstrip("@")
    return f"fireworks/{name}" if name.startswith(FIREWORKS_PATH) else name


def label_for_reporting(agent: str, model: str | None) -> str:
    """The label `agent:model` as in plans: the model as in reports, None as "unknown" (D4).

    >>> label_for_reporting("terminus", "@openai/gpt-5"), label_for_reporting("a:b", None)
    ('terminus:openai/gpt-5', 'a%3Ab:unknown')
    """
    return agent_model_label(agent, model_for_reporting(model or UNKNOWN))


def model_of_agent(agent: str, model: str) -> str:
    """The model's name in slots: as in reports, or the label of a baseline.

    A baseline is an agent named nop or oracle whose model has the same name in any case (R7).

    >>> model_of_agent("oracle", "Oracle"), model_of_agent("oracle", "openai/gpt-5")
    ('oracle', 'openai/gpt-5')
    """
    return model_for_reporting(baseline_model(agent, model))


def baseline_model(agent: str, model: str) -> str:
    """The model unchanged, except that a baseline's own name in any case becomes its label (R7).

    >>> baseline_model("nop", "NOP"), baseline_model("Oracle", "oracle")
    ('nop', 'oracle')
    """
    return agent if agent in BASELINE_LABELS and model.lower() == agent else model


def model_for_pricing(name: str) -> str:
    """The name for looking up prices (E9): no leading "@", no prefix of a known provider.

    Case-sensitive. White space stays, and only one prefix is dropped.

    >>> model_for_pricing("@openai/gpt-5")
    'gpt-5'
    >>> model_for_pricing("openrouter/openai/gpt-5")
    'openrouter/openai/gpt-5'
    """
    name = name.lstrip("@")
    provider, slash, rest = name.partition("/")
    return rest if slash and provider in PRICING_PREFIXES else name


# -----------------------------------------------------------------------------
# Canonical JSON: UTF-8 with sorted keys, no white space and the shortest exact floats (orjson with
# `OPT_SORT_KEYS`). Two summaries with equal canonical bytes are the same answer.


_CANONICAL = orjson.OPT_SORT_KEYS | orjson.OPT_UTC_Z

encode_plain: Callable[[msgspec.Struct], bytes] = msgspec.json.Encoder(order="deterministic").encode
"""Canonical bytes of a Struct whose fields are sorted, in half the time.

Its values may be dictionaries, text, UTC times, integers, booleans, nulls and floats up to :data:`PLAIN`.
"""

PLAIN = 1e15
"""The absolute value up to which msgspec, like orjson, writes a float without an exponent."""

JsonNumber = float | str | None

NOT_DIGESTED = frozenset(
    {
        "epoch",
        "state_version",
        "last_event_at",
        "superseded",
        "conflicts",
        "impoverished",
        "failures_rerun",
        "digest",
        "made_with",
        "degraded",
        "state",
    }
)
"""Fields about the origin of a summary, not its content, and those that readers add (`state`)."""


def canonical_json(value: Any, default: Callable[[Any], Any] | None = None) -> bytes:
    """Canonical bytes of a JSON value; UTC times become text.

    >>> canonical_json({"b": 1.0, "a": None})
    b'{"a":null,"b":1.0}'
    """
    option = _CANONICAL if default is None else _CANONICAL | orjson.OPT_PASSTHROUGH_DATETIME
    return orjson.dumps(value, default, option)


def sha256_hex(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def digest_of(summary: Mapping[str, Any]) -> str:
    """The digest that a summary must have, computed from the summary."""
    return sha256_hex(canonical_json({k: v for k, v in summary.items() if k not in NOT_DIGESTED}))


def json_number(value: float | None) -> JsonNumber:
    """The value as it travels in JSON (R14); None (unknown) stays None.

    >>> json_number(0.5), json_number(float("inf")), json_number(float("nan")), json_number(None)
    (0.5, 'Infinity', 'NaN', None)
    """
    if value is None or math.isfinite(value):
        return value
    if value != value:
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def json_count(total: float) -> int | float:
    """A total of counts for JSON: an integer, or a float beyond exact integers.

    >>> json_count(3.0), json_count(2**53 + 2), json_count(2.0**70)
    (3, 9007199254740994.0, 1.1805916207174113e+21)
    """
    return int(total) if total <= MAX_COUNT else float(total)


# -----------------------------------------------------------------------------
# Groups: the subject of a summary, and its keys.


SummaryKind = Literal["agent_model", "tier", "run", "comparison"]


@dataclass(frozen=True, slots=True)
class GroupId:
    """An agent:model, a tier, an agent:model within a tier, the comparison, or (without fields) the run.

    Tier and agent are not encoded.

    >>> agent, tier = GroupId(None, "a", "m"), GroupId("T0")
    >>> agent.kind, agent.topic_key("r"), agent.redis_suffix
    ('agent_model', 'r|a:m', 'agent_model:a:m')
    >>> tier.kind, tier.topic_key("r"), tier.redis_suffix
    ('tier', 'r|T0', 'tier:T0')
    >>> RUN.kind, RUN.topic_key("r"), RUN.redis_suffix
    ('run', 'r', 'run')
    >>> COMPARISON.kind, COMPARISON.topic_key("r"), COMPARISON.redis_suffix
    ('comparison', 'r', 'comparisons')
    """

    tier: str | None = None
    agent: str | None = None
    model: str | None = None
    compared: bool = False

    @property
    def kind(self) -> SummaryKind:
        """The topic and the family of Redis keys with the summary."""
        if self.compared:
            return "comparison"
        if self.tier is not None:
            return "tier"
        return "run" if self.agent is None else "agent_model"

    @property
    def type(self) -> str:
        return "run_comparison" if self.compared else f"{self.kind}_summary"

    @property
    def agent_model(self) -> str | None:
        """The label of the agent:model (R7); None for other groups."""
        return None if self.agent is None else agent_model_label(self.agent, self.model or "")

    def topic_key(self, run_id: str) -> str:
        """Key of the summary in its topic, with ids percent-encoded."""
        return "|".join((encode_id(run_id), *self._parts()))

    @property
    def redis_suffix(self) -> str:
        """Part of the summary's Redis key after the run, with ids percent-encoded."""
        if self.compared:
            return "comparisons"
        return ":".join((self.kind, *self._parts()))

    @classmethod
    def of_topic_key(cls, kind: SummaryKind, key: str) -> Self:
        """Inverse of :meth:`topic_key`.

        >>> GroupId.of_topic_key("tier", "r|T1|a%3Ab:m"), GroupId.of_topic_key("run", "r") == RUN
        (GroupId(tier='T1', agent='a:b', model='m', compared=False), True)
        """
        if kind == "comparison":
            return cls(compared=True)
        parts = key.split("|")[1:]
        tier = decode_id(parts.pop(0)) if kind == "tier" else None
        if not parts:
            return cls(tier)
        agent, model = parts[0].split(":", 1)
        return cls(tier, decode_id(agent), decode_id(model))

    def _parts(self) -> tuple[str, ...]:
        tier = () if self.tier is None else (encode_id(self.tier),)
        return tier if self.agent is None else (*tier, agent_model_key(self.agent, self.model or ""))

    def __lt__(self, other: "GroupId") -> bool:
        """Agents and tiers by name, then the comparison, then the run."""
        return self._order() < other._order()

    def _order(self) -> tuple[bool, bool, str, str, str]:
        return (self == RUN, self.compared, self.tier or "", self.agent or "", self.model or "")


RUN = GroupId()

COMPARISON = GroupId(compared=True)


@lru_cache(maxsize=4096)
def groups_of(agent: str, model: str, tier: str | None, *, baseline: bool) -> tuple[GroupId, ...]:
    """The groups that a trial counts in. Pooled tiers leave out baselines (R4)."""
    if tier is None:
        return (GroupId(None, agent, model),)
    if baseline:
        return (GroupId(None, agent, model), GroupId(tier, agent, model))
    return (GroupId(None, agent, model), GroupId(tier, agent, model), GroupId(tier))
