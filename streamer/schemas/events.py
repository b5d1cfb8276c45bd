"""The six events that harnesses publish to the topic `trial-events`."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

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
from streamer.schemas.details import (
    Artifacts,
    FailureMessage,
    Metrics,
    PlannedMetrics,
    PrimaryMetric,
    TrialLabels,
)
from streamer.schemas.formulacode import SnapshotCounts, TestCounts
from streamer.schemas.identity import UNKNOWN
from streamer.schemas.limits import (
    MAX_AGENT_MODEL_CHARACTERS,
    MAX_AGENT_MODELS,
    MAX_BASELINES,
    MAX_INFRASTRUCTURE_FAILURES,
    MAX_LABEL_VALUE_CHARACTERS,
    MAX_LABELS,
    MAX_ORDINAL,
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
Position = Annotated[int, Field(ge=0, le=MAX_ORDINAL)]
Order = Annotated[list[Id | tuple[Id, Ordinal]], Field(max_length=MAX_TASKS)]
Difficulties = Annotated[dict[Id, Annotated[float, Field(ge=0, le=1)]], Field(max_length=MAX_TASKS)]
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
    metrics: Metrics | None = Field(
        default=None, description="Metrics by name, finite numbers; null: none (R30)."
    )
    labels: TrialLabels | None = Field(
        default=None, description="Free labels of the trial, by which readers can break results down."
    )
    message: FailureMessage | None = Field(default=None, description="Why it failed, for people.")
    artifacts: Artifacts | None = Field(default=None, description="Files that the trial left, and links.")


class TrialStarted(SlotEvent):
    """A trial has started, and its result is still to come (inference 3).

    Of several starts of one slot, the smallest `started_at` and the smallest `position` count.
    """

    type: Literal["trial_started"] = Field(description="Which event this is: a trial has started.")
    revision: Revision = Field(
        default=0, description="As in a result; a retraction up to it withdraws the start."
    )
    started_at: EventTime = Field(
        default=None, description="Start, RFC 3339 with zone; outside 2000 to 2200: missing."
    )
    position: Position | None = Field(
        default=None,
        description="How many trials the run had started before, counted by the one process that "
        "starts them; null: not counted.",
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
    order: Order | None = Field(
        default=None,
        description="The queue in which each agent:model's trials start: tasks, or pairs of task and "
        "attempt; null: not known before the starts.",
    )
    order_kind: Literal["shuffled", "chosen", "unknown"] | None = Field(
        default=None,
        description="Where that order comes from. `shuffled`: at random, declared before the first start. "
        "`chosen`: by duration, difficulty or results. null: `unknown`.",
    )
    concurrency: Ordinal | None = Field(
        default=None, description="Trials of one agent:model that run at once, at most; null: unknown."
    )
    task_difficulty: Difficulties | None = Field(
        default=None,
        description="Task to its difficulty, 0 to 1, as known before the run: the order must not follow it.",
    )
    plan_complete: bool | None = Field(
        default=None,
        description="False while the plan is still being read, or names only a part, so that nothing is "
        "concluded from it. True takes that back, with a higher `revision`. null: nothing is said of it, so "
        "an earlier false stands; a plan of which nobody says false is complete.",
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
    metrics: PlannedMetrics | None = Field(
        default=None, description="Named metrics that get a board, and how to read them (R30)."
    )
    primary_metric: PrimaryMetric | None = Field(
        default=None,
        description="What boards are ordered by: one of their metrics, or `metrics/NAME` (R30); "
        "null: pass_rate.",
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


AnyEvent = TrialResult | TrialStarted | RunStarted | RunFinished | TrialRetracted | RunDeleted
EVENT: TypeAdapter[AnyEvent] = TypeAdapter(Annotated[AnyEvent, Discriminator("type")])
"""Validator of one event; `EVENT.validate_json(record.value)`."""

EVENT_TYPES: tuple[type[Event], ...] = get_args(AnyEvent)
