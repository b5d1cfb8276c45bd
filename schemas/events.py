"""The five events that harnesses publish to the topic `trial-events`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, ConfigDict, Discriminator, Field, JsonValue, TypeAdapter, field_validator

from schemas.base import MAX_BENCHMARKS_PER_TRIAL, Count, Id, Message, Revision, Shard
from schemas.identity import UNKNOWN

SchemaVersion = Annotated[Literal[1], Field(description="Version of the event schema.")]
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
    passed: int | None = Field(default=None, description="Tests passed.")
    failed: int | None = Field(default=None, description="Tests failed.")
    error: int | None = Field(default=None, description="Tests that ended in an error.")
    skipped: int | None = Field(default=None, description="Tests skipped.")
    total: int | None = Field(default=None, description="Tests collected.")


class SnapshotCounts(Message):
    """Outcome of the snapshot comparison (FormulaCode's SNAPSHOT block)."""

    model_config = ConfigDict(extra="ignore")

    status: SnapshotStatus = Field(description="`missing` and `unparsable` count as failed (R5, R20).")
    passed: int | None = Field(default=None, description="Snapshots equal.")
    failed: int | None = Field(default=None, description="Snapshots that differ, the snapshot's own count (R6).")
    skipped: int | None = Field(default=None, description="Snapshots not compared.")
    total: int | None = Field(default=None, description="Snapshots in all.")
    pass_to_fail: float | None = Field(default=None, description="Tests that passed before and fail now.")


class TrialResult(Event):
    """One finished trial of one agent: the content of one slot (R17)."""

    type: Literal["trial_result"]
    shard: Shard = Field(default="", description='Original run inside a pooled one; "" otherwise.')
    task_id: Id = Field(description="The problem.")
    attempt: int = Field(default=1, ge=1, le=2**31, description="n-th repeat of the task, from 1.")
    agent: Id = Field(default=UNKNOWN, description="The LLM agent under test.")
    model: Id = Field(default=UNKNOWN, description="The model behind the agent; normalised for reporting (E10).")
    agent_index: int | None = Field(
        default=None, ge=1, le=2**31, description="Position in a multi-agent trial, from 1 (R10)."
    )
    tier: Id | None = Field(default=None, description="Prompt tier, T0 to T6; null where there is none.")
    subtest: Id | None = Field(default=None, description="Variant inside the tier.")
    revision: Revision = Field(default=0, description="Grows with every correction: Unix ns of writing, or 0.")
    trial_id: str | None = Field(default=None, description="The harness's own id of the trial.")
    trial_name: str | None = Field(default=None, description="The harness's own name of the trial.")
    harness: str | None = Field(default=None, description="Which harness wrote the result.")
    resolved: bool | None = Field(default=None, description="The harness's verdict; null: no verdict (R19).")
    failure_mode: str | None = Field(default=None, description='Why it ended early; "unset" if it did not (G6).')
    score: float | None = Field(default=None, description="The judge's weighted score, clamped to [0, 1] (R13).")
    input_tokens: Count | None = Field(default=None, description="Fresh input tokens.")
    output_tokens: Count | None = Field(default=None, description="Output tokens.")
    cache_read_tokens: Count | None = Field(default=None, description="Input tokens read from a cache.")
    cache_write_tokens: Count | None = Field(default=None, description="Input tokens written to a cache.")
    cost_usd: float | None = Field(default=None, ge=0, description="Reported cost in US dollars (R2).")
    duration_seconds: float | None = Field(default=None, ge=0, description="Wall time in seconds.")
    started_at: AwareDatetime | None = Field(default=None, description="Start, RFC 3339 with zone.")
    finished_at: AwareDatetime | None = Field(default=None, description="End, RFC 3339 with zone.")
    trajectory_length: Count | None = Field(default=None, description="Interactions of the agent.")
    tests: TestCounts | None = Field(default=None, description="Test suite; null: does not apply (R20).")
    snapshot: SnapshotCounts | None = Field(default=None, description="Snapshots; null: does not apply (R20).")
    claimed: dict[str, JsonValue] | None = Field(
        default=None, description="Advantages and counts that a log states without speedups (R3)."
    )
    speedup_percentage: float | None = Field(default=None, description="Old result format (B9), in percent.")
    benchmarks: dict[str, JsonValue] | None = Field(
        default=None,
        max_length=MAX_BENCHMARKS_PER_TRIAL,
        description='Name to {"agent/nop": x, "oracle/nop": y} or {"agent_s", "nop_s", "oracle_s"}; invalid entries '
        "are allowed and counted (A1, A4); null: not measured (R21).",
    )

    @field_validator("agent", "model", mode="before")
    @classmethod
    def _unnamed_is_unknown(cls, value: object) -> object:
        return UNKNOWN if value is None else value


class RunStarted(Event):
    """The plan of a run: denominators, progress and bounds. May come late, again, or never.

    Fields are joined one by one: of several plans, the greatest revision that sets a field decides it.
    """

    type: Literal["run_started"]
    revision: Revision = Field(default=0, description="Grows with every correction of the plan.")
    harness: str | None = Field(default=None, description="Which harness runs it.")
    started_at: AwareDatetime | None = Field(default=None, description="Start of the run.")
    tasks: list[Id] | Count | None = Field(default=None, description="Task ids, or how many there are.")
    attempts: int | None = Field(default=None, ge=1, le=2**31, description="Attempts per task (and subtest).")
    agent_models: list[Id] | None = Field(default=None, description="Planned agent:model labels.")
    tiers: list[Id] | None = Field(default=None, description="Planned tiers.")
    subtests: dict[Id, Count] | None = Field(default=None, description="Planned subtests of each tier.")
    baseline_tier: Id | None = Field(default=None, description="Tier that uplift is measured from; T0 if unset.")
    baselines: list[Id] | None = Field(default=None, description="Baseline agents; nop and oracle if unset (R10).")
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

    type: Literal["run_finished"]
    revision: Revision = Field(default=0, description="Grows with every correction.")
    finished_at: AwareDatetime | None = Field(default=None, description="End of the run.")
    status: str | None = Field(default=None, description="What the harness calls the outcome.")


class TrialRetracted(Event):
    """What the slot held up to `revision` no longer counts; only a higher revision fills it again (R17)."""

    type: Literal["trial_retracted"]
    shard: Shard = Field(default="", description='Original run inside a pooled one; "" otherwise.')
    task_id: Id
    attempt: int = Field(default=1, ge=1, le=2**31)
    agent: Id = UNKNOWN
    model: Id = UNKNOWN
    tier: Id | None = None
    subtest: Id | None = None
    revision: Revision = Field(description="The floor: results up to this revision are withdrawn.")
    reason: str | None = Field(default=None, description="Why, for people.")

    @field_validator("agent", "model", mode="before")
    @classmethod
    def _unnamed_is_unknown(cls, value: object) -> object:
        return UNKNOWN if value is None else value


class RunDeleted(Event):
    """Everything of the run up to `revision` is forgotten, and ignored from then on."""

    type: Literal["run_deleted"]
    revision: Revision = Field(description="Events of the run up to this revision are ignored.")


AnyEvent = TrialResult | RunStarted | RunFinished | TrialRetracted | RunDeleted
EVENT: TypeAdapter[AnyEvent] = TypeAdapter(Annotated[AnyEvent, Discriminator("type")])
"""Validator of one event; `EVENT.validate_json(record.value)`."""

EVENT_TYPES: tuple[type[Event], ...] = (TrialResult, RunStarted, RunFinished, TrialRetracted, RunDeleted)


def event_content(event: Event) -> dict[str, Any]:
    """Known fields that were set to something other than their default, revision left out (R17)."""
    known = type(event).model_fields
    content = event.model_dump(mode="json", include=set(known) - {"revision"}, exclude_defaults=True)
    content["type"] = getattr(event, "type")  # noqa: B009
    return content
