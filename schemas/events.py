"""The five events that harnesses publish to the topic `trial-events`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import orjson
from pydantic import ConfigDict, Discriminator, Field, TypeAdapter

from schemas.base import (
    Benchmarks,
    Count,
    Id,
    Instant,
    JsonObject,
    Message,
    Name,
    Revision,
    Shard,
    SignedCount,
)
from schemas.canonical import canonical_json
from schemas.identity import UNKNOWN

SchemaVersion = Annotated[
    Literal[1], Field(description="Version of the event schema; an unknown one is rejected.")
]
SectionStatus = Literal["ok", "failed", "missing", "unparsable"]
SnapshotStatus = Literal["passed", "failed", "missing", "unparsable"]


class Event(Message):
    """Base of the events. Unknown fields are ignored and counted (`model_extra`)."""

    model_config = ConfigDict(extra="allow")

    schema_version: SchemaVersion = 1
    run_id: Id = Field(description="The benchmark run or experiment; also the record key.")


class TestCounts(Message):
    """Outcome of the task's own test suite (FormulaCode's TESTS block)."""

    __test__ = False
    model_config = ConfigDict(extra="ignore")

    status: SectionStatus = Field(description="`missing` and `unparsable` count as failed (R5, R20).")
    passed: SignedCount | None = Field(default=None, description="Tests passed.")
    failed: SignedCount | None = Field(default=None, description="Tests failed.")
    error: SignedCount | None = Field(default=None, description="Tests that ended in an error.")
    skipped: SignedCount | None = Field(default=None, description="Tests skipped.")
    total: SignedCount | None = Field(default=None, description="Tests collected.")


class SnapshotCounts(Message):
    """Outcome of the snapshot comparison (FormulaCode's SNAPSHOT block)."""

    model_config = ConfigDict(extra="ignore")

    status: SnapshotStatus = Field(description="`missing` and `unparsable` count as failed (R5, R20).")
    passed: SignedCount | None = Field(default=None, description="Snapshots equal.")
    failed: SignedCount | None = Field(
        default=None, description="Snapshots that differ, the snapshot's own count (R6)."
    )
    skipped: SignedCount | None = Field(default=None, description="Snapshots not compared.")
    total: SignedCount | None = Field(default=None, description="Snapshots in all.")
    pass_to_fail: float | None = Field(default=None, description="Tests that passed before and fail now.")


class TrialResult(Event):
    """One finished trial of one agent: the content of one slot (R17)."""

    type: Literal["trial_result"] = Field(description="Which event this is: one finished trial.")
    shard: Shard = Field(default="", description='Original run inside a pooled one; "" otherwise.')
    task_id: Id = Field(description="The problem.")
    attempt: int = Field(default=1, ge=1, le=2**31, description="n-th repeat of the task, from 1.")
    agent: Name = Field(default=UNKNOWN, description='The LLM agent under test; null is "unknown" (D4).')
    model: Name = Field(
        default=UNKNOWN, description="The model behind the agent; normalised for reporting (E10)."
    )
    agent_index: int | None = Field(
        default=None, ge=1, le=2**31, description="Position in a multi-agent trial, from 1 (R10)."
    )
    tier: Id | None = Field(default=None, description="Prompt tier, T0 to T6; null where there is none.")
    subtest: Id | None = Field(default=None, description="Variant inside the tier.")
    revision: Revision = Field(
        default=0, description="Grows with every correction: Unix ns of writing, or 0."
    )
    trial_id: str | None = Field(default=None, description="The harness's own id of the trial.")
    trial_name: str | None = Field(default=None, description="The harness's own name of the trial.")
    harness: str | None = Field(default=None, description="Which harness wrote the result.")
    resolved: bool | None = Field(default=None, description="The harness's verdict; null: no verdict (R19).")
    failure_mode: str | None = Field(
        default=None, description='Why it ended early; "unset" if it did not (G6).'
    )
    score: float | None = Field(
        default=None, description="The judge's weighted score, clamped to [0, 1] (R13)."
    )
    input_tokens: Count | None = Field(default=None, description="Fresh input tokens.")
    output_tokens: Count | None = Field(default=None, description="Output tokens.")
    cache_read_tokens: Count | None = Field(default=None, description="Input tokens read from a cache.")
    cache_write_tokens: Count | None = Field(default=None, description="Input tokens written to a cache.")
    cost_usd: float | None = Field(default=None, ge=0, description="Reported cost in US dollars (R2).")
    duration_seconds: float | None = Field(default=None, ge=0, description="Wall time in seconds.")
    started_at: Instant | None = Field(default=None, description="Start, RFC 3339 with zone.")
    finished_at: Instant | None = Field(default=None, description="End, RFC 3339 with zone.")
    trajectory_length: Count | None = Field(default=None, description="Interactions of the agent.")
    tests: TestCounts | None = Field(default=None, description="Test suite; null: does not apply (R20).")
    snapshot: SnapshotCounts | None = Field(
        default=None, description="Snapshots; null: does not apply (R20)."
    )
    claimed: JsonObject | None = Field(
        default=None, description="Advantages and counts that a log states without speedups (R3)."
    )
    speedup_percentage: float | None = Field(default=None, description="Old result format (B9), in percent.")
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
    harness: str | None = Field(default=None, description="Which harness runs it.")
    started_at: Instant | None = Field(default=None, description="Start of the run.")
    tasks: list[Id] | Count | None = Field(default=None, description="Task ids, or how many there are.")
    attempts: int | None = Field(default=None, ge=1, le=2**31, description="Attempts per task (and subtest).")
    agent_models: list[Id] | None = Field(default=None, description="Planned agent:model labels.")
    tiers: list[Id] | None = Field(default=None, description="Planned tiers.")
    subtests: dict[Id, Count] | None = Field(default=None, description="Planned subtests of each tier.")
    baseline_tier: Id | None = Field(
        default=None, description="Tier that uplift is measured from; T0 if unset."
    )
    baselines: list[Id] | None = Field(
        default=None, description="Baseline agents; nop and oracle if unset (R10)."
    )
    judged: bool | None = Field(
        default=None,
        description="Whether trials get a judge's score, so that the grade rests on the composite from the "
        "start; null: as seen (R13).",
    )
    infrastructure_failures: list[Id] | None = Field(
        default=None,
        description="Failure modes that are the infrastructure's, in place of the table per harness.",
    )
    grading_profile: Id | None = Field(
        default=None, description="`specified` or `scylla-2026` (R12), optionally with @PASS:IMPL weights."
    )
    project: str | None = Field(default=None, description="Project the run belongs to.")
    benchmark: Id | None = Field(default=None, description="Benchmark; names the board across runs.")
    benchmark_version: str | None = Field(default=None, description="Version of the benchmark.")
    display_name: str | None = Field(default=None, description="Name for people.")
    labels: dict[Id, str] | None = Field(default=None, description="Free labels of the run.")


class RunFinished(Event):
    """The harness says the run is over."""

    type: Literal["run_finished"] = Field(description="Which event this is: a run is over.")
    revision: Revision = Field(default=0, description="Grows with every correction.")
    finished_at: Instant | None = Field(default=None, description="End of the run.")
    status: str | None = Field(default=None, description="What the harness calls the outcome.")


class TrialRetracted(Event):
    """What the slot held up to `revision` no longer counts; only a higher revision fills it again (R17)."""

    type: Literal["trial_retracted"] = Field(description="Which event this is: a slot is emptied.")
    shard: Shard = Field(default="", description='Original run inside a pooled one; "" otherwise.')
    task_id: Id = Field(description="The problem, as in the result.")
    attempt: int = Field(default=1, ge=1, le=2**31, description="n-th repeat of the task, from 1.")
    agent: Name = Field(default=UNKNOWN, description="The LLM agent, as in the result.")
    model: Name = Field(default=UNKNOWN, description="The model, as in the result.")
    tier: Id | None = Field(default=None, description="Prompt tier, as in the result.")
    subtest: Id | None = Field(default=None, description="Variant inside the tier, as in the result.")
    revision: Revision = Field(description="The floor: results up to this revision are withdrawn.")
    reason: str | None = Field(default=None, description="Why, for people.")


class RunDeleted(Event):
    """Everything of the run up to `revision` is forgotten, and ignored from then on."""

    type: Literal["run_deleted"] = Field(description="Which event this is: a run is forgotten.")
    revision: Revision = Field(description="Events of the run up to this revision are ignored.")


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
