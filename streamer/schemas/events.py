"""The five events that harnesses publish to the topic `trial-events`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import orjson
from pydantic import ConfigDict, Discriminator, Field, StringConstraints, TypeAdapter

from streamer.schemas.base import (
    NO_CONTROL_CHARACTERS,
    Amount,
    Benchmarks,
    Claims,
    Count,
    EventTime,
    Id,
    Key,
    Message,
    Name,
    Ordinal,
    Revision,
    Shard,
    ShortText,
    SignedAmount,
    Text,
)
from streamer.schemas.canonical import canonical_json
from streamer.schemas.formulacode import SnapshotCounts, TestCounts
from streamer.schemas.identity import UNKNOWN
from streamer.schemas.limits import (
    MAX_AGENT_MODEL_CHARACTERS,
    MAX_AGENT_MODELS,
    MAX_BASELINES,
    MAX_INFRASTRUCTURE_FAILURES,
    MAX_LABEL_VALUE_CHARACTERS,
    MAX_LABELS,
    MAX_PLANNED_ATTEMPTS,
    MAX_SUBTESTS,
    MAX_TASKS,
    MAX_TIERS,
)

SchemaVersion = Annotated[
    Literal[1], Field(description="Version of the event schema; an unknown one is rejected.")
]

TaskIds = Annotated[list[Id], Field(max_length=MAX_TASKS)]
TaskCount = Annotated[int, Field(ge=0, le=MAX_TASKS)]
SubtestCount = Annotated[int, Field(ge=0, le=MAX_SUBTESTS)]
PlannedLabel = Annotated[
    str,
    StringConstraints(min_length=1, max_length=MAX_AGENT_MODEL_CHARACTERS, pattern=NO_CONTROL_CHARACTERS),
]
LabelValue = Annotated[str, StringConstraints(max_length=MAX_LABEL_VALUE_CHARACTERS)]


class Event(Message):
    """Base of the events. Unknown fields are ignored and counted (`model_extra`)."""

    model_config = ConfigDict(extra="allow")

    schema_version: SchemaVersion = 1
    run_id: Id = Field(description="The benchmark run or experiment; also the record key.")


def _measured(unit: str, description: str) -> Any:
    return Field(default=None, description=description, json_schema_extra={"unit": unit})


class Measurements(Message):
    """Numbers of a trial that scoring takes over as they are; null: unknown, never 0 (R1).

    The event of a trial and its scored trial both have these fields.
    """

    input_tokens: Count | None = _measured("tokens", "Fresh input tokens; null: unknown.")
    output_tokens: Count | None = _measured("tokens", "Output tokens; null: unknown.")
    trajectory_length: Count | None = _measured("interactions", "Interactions of the agent; null: unknown.")


class SlotEvent(Event):
    """An event about one trial: its fields name the slot that the trial fills (R17)."""

    shard: Shard = Field(default="", description='Original run inside a pooled one; "" otherwise.')
    task_id: Id = Field(description="The problem.")
    attempt: Ordinal = Field(default=1, description="n-th repeat of the task, from 1.")
    agent: Name = Field(default=UNKNOWN, description='The LLM agent under test; null is "unknown" (D4).')
    model: Name = Field(
        default=UNKNOWN, description="The model behind the agent; normalised for reporting (E10)."
    )
    tier: Key | None = Field(default=None, description="Prompt tier, T0 to T6; null where there is none.")
    subtest: Key | None = Field(default=None, description="Variant inside the tier.")


class TrialResult(Measurements, SlotEvent):
    """One finished trial of one agent: the content of one slot (R17)."""

    type: Literal["trial_result"] = Field(description="Which event this is: one finished trial.")
    agent_index: Ordinal | None = Field(
        default=None, description="Position in a multi-agent trial, from 1 (R10)."
    )
    revision: Revision = Field(
        default=0, description="Grows with every correction: Unix ns of writing, or 0."
    )
    trial_id: Text | None = Field(default=None, description="The harness's own id of the trial.")
    trial_name: Text | None = Field(default=None, description="The harness's own name of the trial.")
    harness: ShortText | None = Field(default=None, description="Which harness wrote the result.")
    resolved: bool | None = Field(default=None, description="The harness's verdict; null: no verdict (R19).")
    failure_mode: ShortText | None = Field(
        default=None, description='Why it ended early; "unset" if it did not (G6).'
    )
    score: SignedAmount | None = Field(
        default=None, description="The judge's weighted score, clamped to [0, 1] (R13)."
    )
    cache_read_tokens: Count | None = Field(default=None, description="Input tokens read from a cache.")
    cache_write_tokens: Count | None = Field(default=None, description="Input tokens written to a cache.")
    cost_usd: Amount | None = Field(default=None, description="Reported cost in US dollars (R2).")
    duration_seconds: Amount | None = Field(default=None, description="Wall time in seconds.")
    started_at: EventTime = Field(
        default=None, description="Start, RFC 3339 with zone; outside 2000 to 2200: missing."
    )
    finished_at: EventTime = Field(
        default=None, description="End, RFC 3339 with zone; outside 2000 to 2200: missing."
    )
    tests: TestCounts | None = Field(default=None, description="Test suite; null: does not apply (R20).")
    snapshot: SnapshotCounts | None = Field(
        default=None, description="Snapshots; null: does not apply (R20)."
    )
    claimed: Claims | None = Field(
        default=None, description="Advantages and counts that a log states without speedups (R3)."
    )
    speedup_percentage: SignedAmount | None = Field(
        default=None, description="Old result format (B9), in percent."
    )
    benchmarks: Benchmarks | None = Field(
        default=None,
        description='Name to {"agent/nop": x, "oracle/nop": y} or {"agent_s", "nop_s", "oracle_s"}, seconds; '
        "invalid entries are allowed and counted (A1, A4); null: not measured (R21).",
    )


class RunStarted(Event):
    """The plan of a run: denominators, progress and bounds. May come late, again, or never.

    Fields are joined one by one: of several plans, the greatest revision that sets a field decides it.
    """

    type: Literal["run_started"] = Field(description="Which event this is: the plan of a run.")
    revision: Revision = Field(default=0, description="Grows with every correction of the plan.")
    harness: ShortText | None = Field(default=None, description="Which harness runs it.")
    started_at: EventTime = Field(
        default=None, description="Start of the run; outside 2000 to 2200: missing."
    )
    tasks: TaskIds | TaskCount | None = Field(default=None, description="Task ids, or how many there are.")
    attempts: int | None = Field(
        default=None, ge=1, le=MAX_PLANNED_ATTEMPTS, description="Attempts per task (and subtest)."
    )
    agent_models: list[PlannedLabel] | None = Field(
        default=None, max_length=MAX_AGENT_MODELS, description="Planned agent:model labels."
    )
    tiers: list[Key] | None = Field(default=None, max_length=MAX_TIERS, description="Planned tiers.")
    subtests: dict[Key, SubtestCount] | None = Field(
        default=None, max_length=MAX_TIERS, description="Planned subtests of each tier."
    )
    baseline_tier: Key | None = Field(
        default=None, description="Tier that uplift is measured from; T0 if unset."
    )
    baselines: list[Key] | None = Field(
        default=None, max_length=MAX_BASELINES, description="Baseline agents; nop and oracle if unset (R10)."
    )
    judged: bool | None = Field(
        default=None,
        description="Whether trials get a judge's score, so that the grade rests on the composite from the "
        "start; null: as seen (R13).",
    )
    infrastructure_failures: list[Key] | None = Field(
        default=None,
        max_length=MAX_INFRASTRUCTURE_FAILURES,
        description="Failure modes that are the infrastructure's, in place of the table per harness.",
    )
    grading_profile: Key | None = Field(
        default=None, description="`specified` or `scylla-2026` (R12), optionally with @PASS:IMPL weights."
    )
    project: Text | None = Field(default=None, description="Project the run belongs to.")
    benchmark: Key | None = Field(default=None, description="Benchmark; names the board across runs.")
    benchmark_version: Text | None = Field(default=None, description="Version of the benchmark.")
    display_name: Text | None = Field(default=None, description="Name for people.")
    labels: dict[Key, LabelValue] | None = Field(
        default=None, max_length=MAX_LABELS, description="Free labels of the run."
    )


class RunFinished(Event):
    """The harness says the run is over."""

    type: Literal["run_finished"] = Field(description="Which event this is: a run is over.")
    revision: Revision = Field(default=0, description="Grows with every correction.")
    finished_at: EventTime = Field(default=None, description="End of the run; outside 2000 to 2200: missing.")
    status: Text | None = Field(default=None, description="What the harness calls the outcome.")


class TrialRetracted(SlotEvent):
    """What the slot held up to `revision` no longer counts; only a higher revision fills it again (R17)."""

    type: Literal["trial_retracted"] = Field(description="Which event this is: a slot is emptied.")
    revision: Revision = Field(description="The floor: results up to this revision are withdrawn.")
    reason: Text | None = Field(default=None, description="Why, for people.")


class RunDeleted(Event):
    """Everything of the run up to `revision` is forgotten, and ignored from then on."""

    type: Literal["run_deleted"] = Field(description="Which event this is: a run is forgotten.")
    revision: Revision = Field(description="Events of the run up to this revision are ignored.")


_TIMES = ("started_at", "finished_at")
AnyEvent = TrialResult | RunStarted | RunFinished | TrialRetracted | RunDeleted
EVENT: TypeAdapter[AnyEvent] = TypeAdapter(Annotated[AnyEvent, Discriminator("type")])
"""Validator of one event; `EVENT.validate_json(record.value)`."""

EVENT_TYPES: tuple[type[Event], ...] = (TrialResult, RunStarted, RunFinished, TrialRetracted, RunDeleted)


_DEFAULTS = {
    kind: [
        (name, field.default)
        for name, field in kind.model_fields.items()
        if not field.is_required() and field.default is not None and name != "revision"
    ]
    for kind in EVENT_TYPES
}
"""Per type of event, the fields whose default is not null, and that default."""


def known_content(event: Event) -> dict[str, Any]:
    """Known fields that differ from their default, revision left out: what the fingerprint covers (R17).

    Times are in UTC and a default that is written out is left out, so equal results have equal content.
    """
    content = {name: value for name, value in event.__dict__.items() if value is not None}
    content.pop("revision", None)
    for name, default in _DEFAULTS[type(event)]:
        if content.get(name) == default:
            del content[name]
    for name in ("tests", "snapshot"):
        if name in content:
            content[name] = {part: value for part, value in content[name] if value is not None}
    return content


def event_content(event: Event) -> dict[str, Any]:
    """:func:`known_content` as JSON has it: times as text.

    >>> event_content(EVENT.validate_json(b'{"type": "run_finished", "run_id": "r", "revision": 7, "x": 1}'))
    {'run_id': 'r', 'type': 'run_finished'}
    """
    content: dict[str, Any] = orjson.loads(canonical_json(known_content(event)))
    return content


def missing_times(event: Event, raw: bytes) -> int:
    """How many times the record states that the event does not have: they lie outside 2000 to 2200.

    >>> raw = b'{"type": "run_finished", "run_id": "r", "finished_at": "1970-01-01T00:00:00Z"}'
    >>> missing_times(EVENT.validate_json(raw), raw)
    1
    """
    known = event.__dict__
    empty = [name for name in _TIMES if name in event.model_fields_set and known.get(name, "") is None]
    if not empty:
        return 0
    stated = orjson.loads(raw)
    return sum(stated.get(name) is not None for name in empty)
