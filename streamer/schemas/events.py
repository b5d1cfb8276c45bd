"""The seven events that harnesses publish to the topic `trial-events`, and the metrics of boards.

>>> BOARD_METRICS["mean_cost"].value({"mean_cost": 0.25})
0.25
>>> BOARD_METRICS["cost_of_pass"].value({"cost_of_pass": "Infinity"})
inf
>>> BOARD_METRICS["mean_speedup"].value({"formulacode": None}) is None
True
"""

# Annotations are evaluated, as in `schemas/base.py`.

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import ConfigDict, Discriminator, Field, StringConstraints, TypeAdapter, model_validator
from pydantic_core import PydanticCustomError, from_json

from streamer.schemas.base import (
    MAX_AGENT_MODEL_CHARACTERS,
    MAX_AGENT_MODELS,
    MAX_ARTIFACTS,
    MAX_BASELINES,
    MAX_INFRASTRUCTURE_FAILURES,
    MAX_LABEL_VALUE_CHARACTERS,
    MAX_LABELS,
    MAX_LINK_CHARACTERS,
    MAX_MESSAGE_CHARACTERS,
    MAX_METRIC_NAME_CHARACTERS,
    MAX_METRICS,
    MAX_ORDER_HISTORY,
    MAX_ORDINAL,
    MAX_PARTS,
    MAX_PLANNED_ATTEMPTS,
    MAX_PROVENANCE,
    MAX_PROVENANCE_CHARACTERS,
    MAX_SUBTESTS,
    MAX_TASKS,
    MAX_TEXT_CHARACTERS,
    MAX_TIERS,
    MAX_TRIAL_LABEL_KEY_CHARACTERS,
    MAX_TRIAL_LABEL_VALUE_CHARACTERS,
    MAX_TRIAL_LABELS,
    METRIC_NAME,
    NO_CONTROL_CHARACTERS,
    UNKNOWN,
    Amount,
    Benchmarks,
    Claims,
    Count,
    EventTime,
    Id,
    Key,
    Message,
    MetricName,
    Name,
    Number,
    Ordinal,
    Revision,
    Shard,
    ShortText,
    SignedAmount,
    SignedCount,
    Text,
    Total,
    optional,
    value_at,
)

# -----------------------------------------------------------------------------
# Free-form facts about a trial from harnesses: named metrics, labels, a message, artifacts.


NAMED = "metrics/"
"""Prefix of named metrics wherever built-in ones may also occur: `metrics/reward`."""

Metrics = Annotated[dict[MetricName, SignedAmount], Field(max_length=MAX_METRICS)]

Direction = Literal["higher", "lower"]


class MetricPlan(Message):
    """How to read a named metric."""

    model_config = ConfigDict(extra="ignore")

    direction: Direction | None = optional("Which way is better; null: higher.")
    unit: ShortText | None = optional("Unit of the number, as USD or seconds.")
    label: ShortText | None = optional("Heading for people; null: the name.")


PlannedMetrics = Annotated[dict[MetricName, MetricPlan], Field(max_length=MAX_METRICS)]
PrimaryMetric = Annotated[
    str,
    StringConstraints(min_length=1, max_length=len(NAMED) + MAX_METRIC_NAME_CHARACTERS, pattern=METRIC_NAME),
]

TrialLabelKey = Annotated[
    str,
    StringConstraints(min_length=1, max_length=MAX_TRIAL_LABEL_KEY_CHARACTERS, pattern=NO_CONTROL_CHARACTERS),
]
TrialLabels = Annotated[
    dict[TrialLabelKey, Annotated[str, StringConstraints(max_length=MAX_TRIAL_LABEL_VALUE_CHARACTERS)]],
    Field(max_length=MAX_TRIAL_LABELS),
]
FailureMessage = Annotated[str, StringConstraints(max_length=MAX_MESSAGE_CHARACTERS)]

_TEXT = r"[^/\\\x00-\x1f\x7f-\x9f]"
_PART = rf"({_TEXT[:-1]}.]{_TEXT}*|\.{_TEXT[:-1]}.]{_TEXT}*|\.\.{_TEXT}+|\.)"
RELATIVE_PATH = rf"^{_PART}(/{_PART})*$"
"""Parts between slashes, each neither empty nor `..`, without backslashes and control characters."""

WEB_LINK = r"^https?:/{2}[^\s\x00-\x1f\x7f-\x9f]+$"

_IS_TEXT: Any = {"type": "string"}


class Artifact(Message):
    """A file that a trial left, or a link to one. Workers record its name and never open it; the page may."""

    model_config = ConfigDict(
        extra="ignore",
        json_schema_extra={
            "oneOf": [{"required": [place], "properties": {place: _IS_TEXT}} for place in ("path", "url")]
        },
    )

    name: Key = Field(description="What it is, as `agent log`.")
    path: Annotated[str, StringConstraints(max_length=MAX_TEXT_CHARACTERS, pattern=RELATIVE_PATH)] | None = (
        optional("Where it lies below the run's directory, without `..`.")
    )
    url: Annotated[str, StringConstraints(max_length=MAX_LINK_CHARACTERS, pattern=WEB_LINK)] | None = (
        optional("Where it can be fetched, http or https.")
    )
    media_type: ShortText | None = optional("As `text/plain`; null: not known.")

    @model_validator(mode="after")
    def _has_one_place(self) -> Self:
        if (self.path is None) == (self.url is None):
            raise PydanticCustomError(
                "one_place", "An artifact has either a `path` below the run's directory or a `url`, not both"
            )
        return self


Artifacts = Annotated[list[Artifact], Field(max_length=MAX_ARTIFACTS)]


# -----------------------------------------------------------------------------
# FormulaCode's blocks inside agent:model summaries and scored trials, under the specification's names.


SectionStatus = Literal["ok", "failed", "missing", "unparsable"]
SnapshotStatus = Literal["passed", "failed", "missing", "unparsable"]

ADVANTAGES = ("agent_advantage", *(f"agent_advantage_level{level}" for level in (1, 2, 3, 4)))
"""The specification's names of the advantages. The first one equals level 4 unless a log claims otherwise."""


class FormulaCodeCoverage(Message):
    """How many trials each mean of a FormulaCode summary covers (R1, R21)."""

    task_speedup: int = Field(ge=0, description="Trials with a speedup; a failure has 1.0 (R21).")
    agent_advantage: int = Field(ge=0, description="Trials with a known advantage.")


class FormulaCodeSummary(Message):
    """Run-level aggregation of one agent:model across all tasks."""

    mean_speedup: Number | None = Field(description="Mean of the task speedups, ratio > 0.")
    mean_speedup_standard_error: Number | None = optional(
        "Of the mean speedup, clustered by task, a ratio. Null: a baseline, or fewer than two "
        "tasks (inference 6)."
    )
    mean_speedup_low: Number | None = optional("Lower end of the mean speedup's interval, 95 %.")
    mean_speedup_high: Number | None = optional("Upper end of the mean speedup's interval, 95 %.")
    mean_success_rate: Number | None = Field(description="Mean success over all trials, in [0, 1] (R21).")
    num_benchmarks: Total = Field(description="Sum over tasks, invalid entries included (A4).")
    num_valid_benchmarks: Total = Field(description="Sum over tasks of the valid entries (A1).")
    agent_advantage: Number | None = Field(description="Mean advantage over the oracle, level 4.")
    agent_advantage_level1: Number | None = Field(description="Mean advantage by module.")
    agent_advantage_level2: Number | None = Field(description="Mean advantage by class.")
    agent_advantage_level3: Number | None = Field(description="Mean advantage by function.")
    agent_advantage_level4: Number | None = Field(description="Mean advantage over all benchmarks.")
    mean_cost_per_task: Number | None = Field(description="Mean known cost in USD.")
    cost_weighted_advantage: Number | None = Field(
        description="agent_advantage / mean_cost_per_task, 1/USD; 0 if the cost is 0 (R25)."
    )
    mean_trajectory_length: Number | None = Field(description="Mean interactions per trial.")
    agent_advantages_gmean: dict[str, Number | None] | None = Field(
        description="gmean(1 + a) - 1 per advantage, plain mean where some 1 + a <= 0 (F7); null for nop."
    )
    fallbacks: int = Field(
        ge=0, description="Failed trials that count with known benchmarks, each at speedup 1.0 (R21)."
    )
    claimed: int = Field(ge=0, description="Trials whose advantages are only claimed by their log (R3).")
    missing: int = optional(
        "Trials of the finished run in which the agent was planned and has no sub-trial; they "
        "count as failures in these numbers, and in no others of the summary (R21).",
        0,
        ge=0,
    )
    coverage: FormulaCodeCoverage = Field(description="What the means rest on.")


class BenchmarkSpeedup(Message):
    """One benchmark's effective speedups, after any fallback."""

    agent: float | None = Field(
        alias="agent/nop", description="Speedup of the agent, ratio; null if invalid (A1)."
    )
    oracle: float | None = Field(
        alias="oracle/nop", description="Speedup of the oracle, ratio; null if invalid."
    )
    advantage: float | None = Field(description="agent/nop minus oracle/nop; null if either is invalid.")
    fallback_to_baseline: bool = optional("True where the agent's value was reset to 1.", False)


class PytestSummary(Message):
    """The task's test suite under one agent; a count that the log lacks is null."""

    status: str = Field(description="ok, failed, missing or unparsable.")
    passed: int | None = Field(description="Tests passed.")
    failed: int | None = Field(description="Tests failed.")
    error: int | None = Field(description="Tests that ended in an error.")
    skipped: int | None = Field(description="Tests skipped.")
    total: int | None = Field(description="Tests collected.")
    failed_total: int = Field(description="failed + error.")


class SnapshotSummary(Message):
    """The snapshot comparison under one agent; a count that the log lacks is null."""

    status: str = Field(description="passed, failed, missing or unparsable.")
    passed: int | None = Field(description="Snapshots equal.")
    failed: int | None = Field(description="Snapshots that differ, the snapshot's own count (R6).")
    skipped: int | None = Field(description="Snapshots not compared.")
    total: int | None = Field(description="Snapshots in all.")
    pass_to_fail: float | None = Field(description="Tests that passed before and fail now.")


class FormulaCodePayload(Message):
    """The per-agent task payload of the specification."""

    per_benchmark_speedups: dict[str, BenchmarkSpeedup] | None = Field(
        description="Benchmark to its speedups; null where not measured (R21)."
    )
    benchmarks_left_out: int = Field(
        ge=0, description="Benchmarks not listed: beyond 256 KiB only the 100 slowest and 100 fastest are."
    )
    pytest_summary: PytestSummary | None = Field(description="Test counts; null: does not apply (R20).")
    snapshot_summary: SnapshotSummary | None = Field(description="Snapshots; null: does not apply (R20).")
    pytest_failed: bool = Field(
        description="Test suite failed, relative to the oracle's if there is one (D8)."
    )
    reference: Literal["none"] | None = Field(
        default=None,
        description="`none`: the oracle's log has no readable test counts, so 0 failures are allowed (R20); "
        "null: it has, or no oracle took part.",
    )
    snapshot_failed: bool = Field(description="Snapshot comparison failed (D10).")
    success: bool = Field(description="Neither failed, or the harness's verdict where neither applies (R20).")
    fallback_to_baseline: bool = Field(description="Whether the baseline fallback was applied (R21).")
    claimed: bool = Field(description="True if the advantages are only claimed by the log (R3).")
    agent_advantage: float | None = Field(description="Overall advantage (level 4); null if unknown (R22).")
    agent_advantage_level1: float | None = Field(description="Module-level advantage.")
    agent_advantage_level2: float | None = Field(description="Class-level advantage.")
    agent_advantage_level3: float | None = Field(description="Function-level advantage.")
    agent_advantage_level4: float | None = Field(description="Overall advantage.")
    num_benchmarks: int = Field(description="Benchmarks, invalid ones included (A4).")
    num_valid_benchmarks: int = Field(description="Benchmarks with valid measurements (A1).")
    task_speedup: float | None = Field(
        description="Geometric mean speedup; null: nothing was measured (R21)."
    )
    task_cost_usd: float | None = Field(description="Agent cost for this task in USD.")
    trajectory_length: int | None = Field(description="Agent interactions.")


class TestCounts(Message):
    """Outcome of the task's own test suite (FormulaCode's TESTS block)."""

    __test__ = False
    model_config = ConfigDict(extra="ignore")

    status: SectionStatus = Field(description="`missing` and `unparsable` count as failed (R5, R20).")
    passed: SignedCount | None = optional("Tests passed.")
    failed: SignedCount | None = optional("Tests failed.")
    error: SignedCount | None = optional("Tests that ended in an error.")
    skipped: SignedCount | None = optional("Tests skipped.")
    total: SignedCount | None = optional("Tests collected.")


class SnapshotCounts(Message):
    """Outcome of the snapshot comparison (FormulaCode's SNAPSHOT block)."""

    model_config = ConfigDict(extra="ignore")

    status: SnapshotStatus = Field(description="`missing` and `unparsable` count as failed (R5, R20).")
    passed: SignedCount | None = optional("Snapshots equal.")
    failed: SignedCount | None = optional("Snapshots that differ, the snapshot's own count (R6).")
    skipped: SignedCount | None = optional("Snapshots not compared.")
    total: SignedCount | None = optional("Snapshots in all.")
    pass_to_fail: SignedAmount | None = optional("Tests that passed before and fail now.")


# -----------------------------------------------------------------------------
# The seven events that harnesses publish to the topic `trial-events`.


TaskIds = Annotated[list[Id], Field(max_length=MAX_TASKS)]
TaskCount = Annotated[int, Field(ge=0, le=MAX_TASKS)]
SubtestCount = Annotated[int, Field(ge=0, le=MAX_SUBTESTS)]
Position = Annotated[int, Field(ge=0, le=MAX_ORDINAL)]
Order = Annotated[list[Id | tuple[Id, Ordinal]], Field(max_length=MAX_TASKS)]
Difficulties = Annotated[dict[Id, Annotated[float, Field(ge=0, le=1)]], Field(max_length=MAX_TASKS)]
PlannedLabel = Annotated[
    str, StringConstraints(min_length=1, max_length=MAX_AGENT_MODEL_CHARACTERS, pattern=NO_CONTROL_CHARACTERS)
]
LabelValue = Annotated[str, StringConstraints(max_length=MAX_LABEL_VALUE_CHARACTERS)]
Provenance = Annotated[
    dict[TrialLabelKey, Annotated[str, StringConstraints(max_length=MAX_PROVENANCE_CHARACTERS)]],
    Field(max_length=MAX_PROVENANCE),
]
"""Provenance of results: text by field, such as `harness_version` with `0.26.0` (R36)."""


LedgerLine = tuple[Amount | None, Text | None, Count, Count, Count, Count]
"""A ledger's line: evidence, the reason if it is not better, and pairs: all, won, lost, unknown."""


class Ledger(Message):
    """The list of candidates that are judged against one baseline (inference 8a)."""

    model_config = ConfigDict(extra="ignore")

    name: Key = Field(description="Names the list.")
    baseline: Annotated[
        str, StringConstraints(min_length=1, max_length=MAX_TEXT_CHARACTERS, pattern=NO_CONTROL_CHARACTERS)
    ] = Field(description="What the candidates are compared with: RUN or RUN/AGENT:MODEL.")
    metric: PrimaryMetric | None = optional("What is compared; null: pass_rate.")
    lines: Annotated[dict[PlannedLabel, LedgerLine], Field(max_length=MAX_AGENT_MODELS)] | None = optional(
        "What stays of an archived run, by agent:model; it counts only where the run was deleted before."
    )


class Event(Message):
    """Base of the events. Unknown fields are ignored and counted (`model_extra`)."""

    model_config = ConfigDict(extra="allow")

    schema_version: Literal[1, 2] = optional("Version of the event schema; an unknown one is rejected.", 1)
    run_id: Id = Field(description="The benchmark run or experiment; also the record key.")

    @model_validator(mode="after")
    def _leave_out_times_without_zone(self) -> Self:
        fields = self.__dict__
        times = {name: at for name in _TIMES if (at := fields.get(name)) and at.tzinfo is None}
        if not times:
            return self
        fields.update(dict.fromkeys(times))
        if {"started_at", "finished_at"} <= times.keys() and fields.get("duration_seconds", 0) is None:
            seconds = (times["finished_at"] - times["started_at"]).total_seconds()
            fields["duration_seconds"] = seconds if seconds >= 0 else None
        return self


def _measured(unit: str, description: str) -> Any:
    return Field(default=None, description=description, json_schema_extra={"unit": unit})


class Measurements(Message):
    """Numbers of a trial that scoring copies; null: unknown, never 0 (R1).

    The event of a trial and its scored trial both have these fields.
    """

    input_tokens: Count | None = _measured("tokens", "Fresh input tokens; null: unknown.")
    output_tokens: Count | None = _measured("tokens", "Output tokens; null: unknown.")
    trajectory_length: Count | None = _measured("interactions", "Interactions of the agent; null: unknown.")


class SlotEvent(Event):
    """An event about one trial: its fields name the trial's slot (R17)."""

    shard: Shard = optional('Original run inside a pooled one; "" otherwise.', "")
    task_id: Id = Field(description="The problem.")
    attempt: Ordinal = optional("n-th repeat of the task, from 1.", 1)
    agent: Name = optional('The LLM agent under test; null is "unknown" (D4).', UNKNOWN)
    model: Name = optional("The model behind the agent; normalised for reporting (E10).", UNKNOWN)
    tier: Key | None = optional("Prompt tier, such as T0; null where there is none.")
    subtest: Key | None = optional("Variant inside the tier.")


class TrialResult(Measurements, SlotEvent):
    """One finished trial of one agent: the content of one slot (R17)."""

    type: Literal["trial_result"] = Field(description="Which event this is: one finished trial.")
    agent_index: Ordinal | None = optional("Position in a multi-agent trial, from 1 (R10).")
    revision: Revision = optional("Grows with every correction: Unix ns of writing, or 0.", 0)
    trial_id: Text | None = optional("The harness's own id of the trial.")
    trial_name: Text | None = optional("The harness's own name of the trial.")
    harness: ShortText | None = optional("Which harness wrote the result.")
    resolved: bool | None = optional("The harness's verdict; null: no verdict (R19).")
    failure_mode: ShortText | None = optional('Why it ended early; "unset" if it did not (G6).')
    score: SignedAmount | None = optional("The judge's weighted score, 0 to 1 (R13).")
    cache_read_tokens: Count | None = optional("Input tokens read from a cache.")
    cache_write_tokens: Count | None = optional("Input tokens written to a cache.")
    cost_usd: Amount | None = optional("Reported cost in US dollars (R2).")
    duration_seconds: Amount | None = optional("Wall time in seconds.")
    started_at: EventTime = optional("Start, RFC 3339; without zone, or outside 2000 to 2199: missing.")
    finished_at: EventTime = optional("End, RFC 3339; without zone, or outside 2000 to 2199: missing.")
    tests: TestCounts | None = optional("Test suite; null: does not apply (R20).")
    snapshot: SnapshotCounts | None = optional("Snapshots; null: does not apply (R20).")
    claimed: Claims | None = optional("Advantages and counts that a log states without speedups (R3).")
    speedup_percentage: SignedAmount | None = optional("Old result format (B9), in percent.")
    benchmarks: Benchmarks | None = optional(
        'Name to {"agent/nop": x, "oracle/nop": y} or {"agent_s", "nop_s", "oracle_s"}, seconds; '
        "invalid entries are allowed and counted (A1, A4); null: not measured (R21)."
    )
    metrics: Metrics | None = optional("Metrics by name, finite numbers; null: none (R30).")
    labels: TrialLabels | None = optional(
        "Free labels of the trial, by which readers can break results down."
    )
    message: FailureMessage | None = optional("Why it failed, for people.")
    artifacts: Artifacts | None = optional("Files that the trial left, and links.")
    provenance: Provenance | None = optional(
        "What this trial was made with, in place of the run's fields (R36)."
    )


class TrialScored(SlotEvent):
    """A late score of a trial, for example from a judge that runs after the harness (R32).

    It changes only the fields that it has. It waits if the result has not arrived yet.
    """

    type: Literal["trial_scored"] = Field(description="Which event this is: a trial was scored.")
    revision: Revision = Field(
        default=0, description="Grows with every correction; a retraction up to it withdraws the score."
    )
    score: SignedAmount | None = optional(
        "The judge's weighted score, 0 to 1 (R13); null: says nothing of it."
    )
    metrics: Metrics | None = optional("Metrics by name, each by itself; null: says nothing of them (R30).")
    resolved: bool | None = optional("The verdict, where the result has none; null: says nothing of it.")
    of_revision: Revision | None = optional(
        "Revision of the result that was scored; null: whichever result stands."
    )


class TrialStarted(SlotEvent):
    """A trial has started, and its result is still to come (inference 3).

    If a slot has several starts, the smallest `started_at` and the smallest `position` count.
    """

    type: Literal["trial_started"] = Field(description="Which event this is: a trial has started.")
    revision: Revision = optional("As in a result; a retraction up to it withdraws the start.", 0)
    started_at: EventTime = optional("Start, RFC 3339; without zone, or outside 2000 to 2199: missing.")
    position: Position | None = optional(
        "How many trials the run had started before, counted by the one process that "
        "starts them; null: not counted."
    )


class RunStarted(Event):
    """The plan of a run: denominators, progress and bounds. It may come late, repeatedly, or never.

    Fields are joined one by one: each comes from the greatest revision that sets it.
    """

    type: Literal["run_started"] = Field(description="Which event this is: the plan of a run.")
    revision: Revision = optional("Grows with every correction of the plan.", 0)
    harness: ShortText | None = optional("Which harness runs it.")
    started_at: EventTime = optional("Start of the run; without zone, or outside 2000 to 2199: missing.")
    tasks: TaskIds | TaskCount | None = optional("Task ids, or how many there are.")
    attempts: int | None = optional("Attempts per task (and subtest).", ge=1, le=MAX_PLANNED_ATTEMPTS)
    order: Order | None = optional(
        "The queue in which each agent:model's trials start: tasks, or pairs of task and "
        "attempt; null: not known before the starts."
    )
    order_kind: Literal["shuffled", "chosen", "unknown"] | None = optional(
        "Where that order comes from. `shuffled`: at random, declared before the first start. "
        "`chosen`: by duration, difficulty or results. null: `unknown`. The first plan by `planned_at` "
        "decides; a later one can only weaken it."
    )
    concurrency: Ordinal | None = optional(
        "Trials of one agent:model that run at once, at most; null: unknown."
    )
    task_difficulty: Difficulties | None = optional(
        "Task to its difficulty, 0 to 1, as known before the run: the order must not follow it."
    )
    planned_at: EventTime = optional(
        "When this plan of the run was declared, by its declarer's clock; null: at `started_at`."
    )
    order_reason: ShortText | None = optional(
        "Why a `chosen` order is as it is: `history` (inference 8b), or in words."
    )
    order_history: list[Id] | None = optional(
        "The runs that the order was made from.", max_length=MAX_ORDER_HISTORY
    )
    plan_complete: bool | None = optional(
        "False while the plan is still being read, or names only a part, so that nothing is "
        "concluded from it. True takes that back, with a higher `revision`. null: nothing is said of it, so "
        "an earlier false stands; a plan is complete unless an event says false."
    )
    agent_models: list[PlannedLabel] | None = optional(
        "Planned agent:model labels.", max_length=MAX_AGENT_MODELS
    )
    tiers: list[Key] | None = optional("Planned tiers.", max_length=MAX_TIERS)
    subtests: dict[Key, SubtestCount] | None = optional(
        "Planned subtests of each tier.", max_length=MAX_TIERS
    )
    baseline_tier: Key | None = optional("Tier that uplift is measured from; T0 if unset.")
    baselines: list[Key] | None = optional(
        "Baseline agents; nop and oracle if unset (R10).", max_length=MAX_BASELINES
    )
    judged: bool | None = optional(
        "Whether trials get a judge's score, so that the grade rests on the composite from the "
        "start; null: as seen (R13)."
    )
    verdicts: bool | None = optional(
        "Whether trials get a verdict. False: scorers give numbers alone, so there is no pass rate. True: a "
        "trial without one waits for it. null: as seen (R31)."
    )
    infrastructure_failures: list[Key] | None = optional(
        "Failure modes that are the infrastructure's, in place of the table per harness.",
        max_length=MAX_INFRASTRUCTURE_FAILURES,
    )
    grading_profile: Key | None = optional(
        "`specified`, `scylla-2026`, or `none` for no grades (R12), optionally with @PASS:IMPL weights."
    )
    metrics: PlannedMetrics | None = optional("Named metrics that get a board, and how to read them (R30).")
    primary_metric: PrimaryMetric | None = optional(
        "What boards are ordered by: one of their metrics, or `metrics/NAME` (R30); null: pass_rate."
    )
    ledger: Ledger | None = optional("The list of candidates that this run belongs to (inference 8a).")
    part: Key | None = optional("Piece of the run that this is about; null: the whole (R34).")
    parts: int | None = optional(
        "How many parts the run has; null: those that were seen (R34).", ge=1, le=MAX_PARTS
    )
    provenance: Provenance | None = optional("What the results are made with, field by field (R36).")
    varies: list[TrialLabelKey] | None = optional(
        "Fields of `provenance` that the run tries out (R36).", max_length=MAX_PROVENANCE
    )
    project: Text | None = optional("Project the run belongs to.")
    benchmark: Key | None = optional("Benchmark; names the board across runs.")
    benchmark_version: Text | None = optional("Version of the benchmark.")
    display_name: Text | None = optional("Name for people.")
    labels: dict[Key, LabelValue] | None = optional("Free labels of the run.", max_length=MAX_LABELS)


BROKEN_OFF = frozenset({"cancelled", "error", "interrupted"})


class RunFinished(Event):
    """The harness says that the run is over."""

    model_config = ConfigDict(serialize_by_alias=True)

    type: Literal["run_finished"] = Field(description="Which event this is: a run is over.")
    revision: Revision = optional("Grows with every correction.", 0)
    finished_at: EventTime = optional("End of the run; without zone, or outside 2000 to 2199: missing.")
    status: Text | None = optional("What the harness calls the outcome.")
    scores_pending: bool | None = optional(
        "Whether scores are still to come, as of a judge that runs later. null: only if the plan says "
        "`judged` (R13)."
    )
    part: Key | None = optional("Piece of the run that has ended; null: the whole (R34).")
    try_number: Ordinal | None = optional(
        "Which try of the run ended, from 1; the last one counts. null: before all others (R34).", alias="try"
    )


class TrialRetracted(SlotEvent):
    """The slot's results up to `revision` no longer count; only a higher revision fills it again (R17)."""

    type: Literal["trial_retracted"] = Field(description="Which event this is: a slot is emptied.")
    revision: Revision = Field(description="The floor: results up to this revision are withdrawn.")
    reason: Text | None = optional("Why, for people.")


class RunDeleted(Event):
    """Everything about the run up to `revision` is deleted, and ignored from then on."""

    type: Literal["run_deleted"] = Field(description="Which event this is: a run is forgotten.")
    revision: Revision = Field(description="Events of the run up to this revision are ignored.")


AnyEvent = TrialResult | TrialScored | TrialStarted | RunStarted | RunFinished | TrialRetracted | RunDeleted
EVENT: TypeAdapter[AnyEvent] = TypeAdapter(Annotated[AnyEvent, Discriminator("type")])
"""Validator of one event; `EVENT.validate_json(record.value)`."""

EVENT_TYPES: tuple[type[Event], ...] = get_args(AnyEvent)


# -----------------------------------------------------------------------------
# The content of an event: the part in its fingerprint (R17), and times that it states but leaves out.


NO_FAILURE = frozenset({None, "", "unset", "none"})
"""Failure modes of a trial that ended normally (G6)."""

_TIMES = ("started_at", "finished_at", "planned_at")
_NO_CONTENT = ("revision", "schema_version")
_DEFAULTS: dict[str, list[tuple[str, Any]]] = {
    get_args(kind.model_fields["type"].annotation)[0]: [
        (name, field.default)
        for name, field in kind.model_fields.items()
        if not field.is_required() and field.default is not None and name not in _NO_CONTENT
    ]
    for kind in EVENT_TYPES
}


def known_content(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The known fields of an event for its fingerprint (R17): no revision, no defaults, times in UTC."""
    content = {name: value for name, value in fields.items() if value is not None}
    for name in _NO_CONTENT:
        content.pop(name, None)
    for name, default in _DEFAULTS[fields["type"]]:
        if content.get(name) == default:
            del content[name]
    for name in ("tests", "snapshot"):
        if name in content:
            content[name] = _stated(content[name])
    if "artifacts" in content:
        content["artifacts"] = [_stated(artifact) for artifact in content["artifacts"]]
    if "ledger" in content:
        content["ledger"] = _stated(content["ledger"])
    if "try_number" in content:
        content["try"] = content.pop("try_number")
    if "metrics" in content and fields["type"] == "run_started":
        content["metrics"] = {name: _stated(plan) for name, plan in content["metrics"].items()}
    return content


def _stated(part: Message) -> dict[str, Any]:
    return {name: value for name, value in part if value is not None}


def judges_score(score: float | None) -> float | None:
    """A judge's score on its scale, 0 to 1 (R13); None if missing or outside.

    >>> [judges_score(score) for score in (0.85, 1 + 1e-12, -0.0, 85.0, None)]
    [0.85, 1.0, 0.0, None, None]
    """
    if score is None or not 0 <= score <= 1 + 1e-9:
        return None
    return min(score, 1.0) or 0.0


def missing_times(event: Event, raw: bytes) -> int:
    """The number of times in the record that the event leaves out: without a zone, or not in 2000 to 2199.

    >>> from streamer.schemas.events import EVENT
    >>> raw = b'{"type": "run_finished", "run_id": "r", "finished_at": "1970-01-01T00:00:00Z"}'
    >>> missing_times(EVENT.validate_json(raw), raw)
    1
    """
    fields = event.__dict__
    empty = [name for name in _TIMES if name in event.model_fields_set and fields.get(name, "") is None]
    if not empty:
        return 0
    stated = from_json(raw)  # as pydantic reads it: orjson refuses NaN, which an unknown field may have
    return sum(stated.get(name) is not None for name in empty)


# -----------------------------------------------------------------------------
# The metrics on boards: their place in an agent:model summary, and which direction is better.


@dataclass(frozen=True, slots=True)
class BoardMetric:
    """One METRIC of the boards; `path` leads to its number in an agent:model summary.

    The `unit` "1" is a plain ratio. A missing `label` is the name.
    """

    name: str
    path: tuple[str, ...]
    higher_is_better: bool
    unit: str
    description: str
    label: str | None = None

    def value(self, summary: Mapping[str, Any]) -> float | None:
        """The number in a summary (parsed from JSON); None if it is unknown, absent or NaN (R14)."""
        value = value_at(summary, self.path)
        if value is None or math.isnan(float(value)):
            return None
        return float(value)

    def trials(self, summary: Mapping[str, Any]) -> int:
        """The trials that the number rests on (R1, R31); an infinite cost of pass rests on all verdicts."""
        path = _COUNTED.get(self.name, (*self.path[:-1], "count"))
        count = value_at(summary, ("verdict_trials",) if self.value(summary) == math.inf else path)
        return int(summary["trials"] if count is None else count)


_COUNTED = {
    "accuracy": ("verdict_trials",),
    **dict.fromkeys(("cost_of_pass", "mean_cost", "total_cost"), ("coverage", "cost_usd")),
    "mean_speedup": ("formulacode", "coverage", "task_speedup"),
    "agent_advantage": ("formulacode", "coverage", "agent_advantage"),
}
"""Where a summary has the number of trials of a METRIC, unless beside its mean."""

PRIMARY_METRIC = "pass_rate"
"""The metric that orders boards by default."""

BOARD_METRICS: dict[str, BoardMetric] = {
    metric.name: metric
    for metric in (
        BoardMetric("accuracy", ("accuracy",), True, "1", "Share of trials that the harness calls resolved."),
        BoardMetric(
            "pass_rate",
            ("statistics", "pass_rate", "mean"),
            True,
            "1",
            "Share of successes (tests, else verdict).",
        ),
        BoardMetric(
            "impl_rate", ("statistics", "impl_rate", "mean"), True, "1", "Mean of the judge's score, 0 to 1."
        ),
        BoardMetric(
            "composite_score",
            ("statistics", "composite_score", "median"),
            True,
            "1",
            "Median composite of pass rate and judge's score; judged agents only, whose grade rests on it.",
        ),
        BoardMetric(
            "cost_of_pass", ("cost_of_pass",), False, "USD", "Known cost per pass; inf with no pass."
        ),
        BoardMetric("mean_cost", ("mean_cost",), False, "USD", "Mean known cost of a trial."),
        BoardMetric("total_cost", ("total_cost",), False, "USD", "Sum of the known costs."),
        BoardMetric(
            "mean_duration",
            ("statistics", "duration_seconds", "mean"),
            False,
            "seconds",
            "Mean duration of a trial.",
        ),
        BoardMetric(
            "mean_speedup",
            ("formulacode", "mean_speedup"),
            True,
            "1",
            "Mean task speedup over the unchanged code (FormulaCode).",
        ),
        BoardMetric(
            "agent_advantage",
            ("formulacode", "agent_advantage"),
            True,
            "1",
            "Mean advantage over the human solution (FormulaCode).",
        ),
    )
}
"""Definition of each METRIC, in the order of the boards."""


def named_metric(name: str, says: Mapping[str, Any]) -> BoardMetric:
    unit, label = says.get("unit") or "1", says.get("label") or name
    higher = says.get("direction") != "lower"
    return BoardMetric(NAMED + name, ("metrics", name, "mean"), higher, unit, f"Mean {label}.", label)


def can_have_board(metric: str) -> bool:
    """Whether it is a built-in METRIC or a well-formed `metrics/NAME`.

    >>> [can_have_board(metric) for metric in ("accuracy", "metrics/a/b", "metrics/", "reward")]
    [True, True, False, False]
    """
    if not metric.startswith(NAMED):
        return metric in BOARD_METRICS
    name = metric.removeprefix(NAMED)
    return len(name) <= MAX_METRIC_NAME_CHARACTERS and re.fullmatch(METRIC_NAME, name) is not None


def planned_means(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The mean of each `metrics/NAME` in the plan (R30); None: no trial has a value.

    >>> planned, other = {"mean": 0.5, "planned": True}, {"mean": 3.0, "planned": False}
    >>> planned_means({"metrics": {"reward": planned, "style": other}})
    {'metrics/reward': 0.5}
    """
    named = (summary.get("metrics") or {}).items()
    return {NAMED + name: of["mean"] for name, of in named if of["planned"]}


def board_metric(metric: str, summaries: Iterable[Mapping[str, Any]]) -> BoardMetric | None:
    """The METRIC with this name; None if it is not built in, and no summary of an agent:model has it.

    >>> board_metric("metrics/latency", [{"metrics": {"latency": {"direction": "lower"}}}]).higher_is_better
    False
    >>> board_metric("metrics/unheard-of", [{"metrics": {}}]) is None
    True
    """
    if not metric.startswith(NAMED):
        return BOARD_METRICS.get(metric)
    name = metric.removeprefix(NAMED)
    says = (summary.get("metrics", {}).get(name) for summary in summaries)
    return next((named_metric(name, reading) for reading in says if reading is not None), None)


def board_values(summary: Mapping[str, Any]) -> dict[str, float | None]:
    """Value of each METRIC in an agent:model summary; None is not on the board, nor are baselines (R4).

    Named metrics have a board if the plan names them (R30).
    """
    planned = (name for name, of in summary.get("metrics", {}).items() if of["planned"])
    metrics = [*BOARD_METRICS.values(), *(named_metric(name, {}) for name in planned)]
    return {of.name: None if summary["baseline"] else of.value(summary) for of in metrics}


# -----------------------------------------------------------------------------
# Failure modes of each harness that are the infrastructure's (R33), and what each means.


_TERMINAL_BENCH = {
    "unknown_agent_error": "An exception reached the harness: container, terminal, network or the model's "
    "API. A crash of the agent's own code has the same name.",
    "agent_installation_failed": "The agent could not be installed in the container.",
}

INFRASTRUCTURE_FAILURES: dict[str, dict[str, str]] = {
    "terminal-bench": _TERMINAL_BENCH,
    "fc-eval": _TERMINAL_BENCH,
    "harbor": {
        "APIConnectionError": "The provider could not be reached.",
        "APIError": "The provider failed.",
        "APIResponseValidationError": "The provider's answer was not valid.",
        "AddTestsDirError": "The tests could not be copied into the environment.",
        "AgentAuthenticationError": "The provider refused the credentials.",
        "AgentSetupTimeoutError": "The agent could not be set up in time.",
        "ApiConnectionClosedError": "The provider closed the connection.",
        "ApiConnectionError": "The provider could not be reached.",
        "ApiError": "The provider failed.",
        "ApiInternalServerError": "The provider failed.",
        "ApiOverloadedError": "The provider was overloaded.",
        "ApiProviderResourceNotFoundError": "The provider does not have what was asked for.",
        "ApiRateLimitError": "The provider's rate limit was reached.",
        "ApiResponseStalledError": "The provider stopped answering.",
        "ApiUsageLimitError": "The account's quota was used up.",
        "AuthenticationError": "The provider refused the credentials.",
        "BadRequestError": "The provider refused the request.",
        "BudgetExceededError": "The budget for the provider was used up.",
        "CancelledError": "The job was stopped before the trial had ended.",
        "DownloadVerifierDirError": "The verifier's files could not be fetched from the environment.",
        "DspyImportError": "The harness lacks a package.",
        "EnvironmentStartTimeoutError": "The environment did not start in time.",
        "GKEExecStreamClosedError": "The connection to the environment broke.",
        "GKEPodNotFoundError": "The environment was gone.",
        "HealthcheckError": "The environment was not healthy.",
        "InternalServerError": "The provider failed.",
        "MemoryLimitExceededError": "The environment ran out of memory.",
        "MissingExtraError": "The harness lacks a package.",
        "ModelNotFoundError": "The provider does not have the model.",
        "NetworkConnectionError": "The network failed.",
        "NotFoundError": "The provider does not have what was asked for.",
        "PermissionDeniedError": "The provider refused the credentials.",
        "RateLimitError": "The provider's rate limit was reached.",
        "RegradeError": "An earlier trial could not be graded again.",
        "RewardFileEmptyError": "The verifier left an empty reward.",
        "RewardFileNotFoundError": "The verifier left no reward.",
        "RuntimeRequestError": "The environment did not answer.",
        "SSHAccessError": "The environment could not be reached.",
        "SandboxBuildFailedError": "The environment could not be built.",
        "SandboxLikelyOutOfMemoryError": "The environment probably ran out of memory.",
        "ServiceOperationsUnsupportedError": "The environment cannot run the task's services.",
        "ServiceUnavailableError": "The provider was not available.",
        "Timeout": "The provider did not answer in time.",
        "UnknownApiError": "The provider failed.",
        "UnprocessableEntityError": "The provider refused the request.",
        "UnsupportedModelParametersError": "The model does not take a parameter.",
        "UnsupportedParamsError": "The model does not take a parameter.",
        "VercelScopeError": "The account of the environment's provider is not set up.",
        "VerifierOutputParseError": "The verifier left no readable reward.",
        "VerifierTimeoutError": "The verifier did not end in time.",
    },
    "inspect": {"CancelledError": "The eval was stopped before the sample had ended."},
    "swe-bench": {
        "infra_failure": "The harness found signs of a broken environment: memory, network, Docker, display."
    },
}
"""Failure modes of infrastructure by harness, with their meaning."""
