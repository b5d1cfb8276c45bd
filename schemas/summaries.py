"""What the processors publish: summaries, scored trials, news and rejections."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field, TypeAdapter

from schemas.base import Message, Number

Grade = Literal["S", "A", "B", "C", "D", "F"]
CompositeBasis = Literal["judged", "pass_only"]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the canonical JSON.")]


class Statistics(Message):
    """Statistics of one metric over the trials that have it; of nothing: count 0 and null (R16)."""

    median: Number | None = Field(description="Middle value; mean of the two middle ones.")
    mean: Number | None = Field(description="Exact mean, rounded once (R18).")
    mode: Number | None = Field(description="Most frequent value after rounding to 6 decimals (R15).")
    min: Number | None = Field(description="Smallest value.")
    max: Number | None = Field(description="Largest value.")
    std_dev: Number | None = Field(description="Population standard deviation, or sample by profile; >= 0.")
    count: int = Field(ge=0, description="Values counted.")


class PassAtK(Message):
    """Probability that at least one of k attempts passes (R11)."""

    value: float | None = Field(ge=0, le=1, description="Mean over the tasks covered.")
    tasks_covered: int = Field(ge=0, description="Tasks with at least k attempts.")
    partial: bool = Field(description="True until all planned tasks cover this k.")


class Tokens(Message):
    """Token totals over the trials that report them; null: no trial does."""

    input: int | None = Field(ge=0, description="Fresh input tokens.")
    output: int | None = Field(ge=0, description="Output tokens.")
    cache_read: int | None = Field(ge=0, description="Input tokens read from a cache.")
    cache_write: int | None = Field(ge=0, description="Input tokens written to a cache.")


class Published(Message):
    """What every summary carries about where it stands in the stream."""

    run_id: str
    semantics_version: int = Field(ge=1, description="Meaning of the numbers.")
    epoch: int = Field(ge=0, description="Grows with every rebuild from the log.")
    state_version: int = Field(ge=-1, description="Offset of the last event folded into the run.")
    last_event_at: AwareDatetime | None = Field(description="Greatest event time folded into the run.")
    digest: Digest


class Group(Published):
    """Numbers that every group of trials has: an agent:model, a tier, an agent:model within a tier."""

    trials: int = Field(ge=0, description="Slots filled.")
    tasks: int = Field(ge=0, description="Distinct task ids.")
    resolved: int = Field(ge=0, description="Trials that the harness calls resolved.")
    unresolved: int = Field(ge=0, description="All others, those without a verdict included (R19).")
    no_verdict: int = Field(ge=0, description="Trials without a verdict, counted apart (R19).")
    runs_planned: int | None = Field(ge=0, description="Trials planned, null if nobody said (R26).")
    provisional: bool = Field(description="True while planned trials are missing (R26).")
    accuracy: float | None = Field(ge=0, le=1, description="resolved / trials.")
    pass_at_k: dict[str, PassAtK]
    total_cost: Number | None = Field(description="Sum of the known costs in USD.")
    mean_cost: Number | None = Field(description="Mean of the known costs in USD.")
    cost_of_pass: Number | None = Field(description="Known cost per pass among trials with known cost, USD (R14).")
    tokens: Tokens
    mean_trajectory_length: Number | None = Field(description="Mean interactions per trial.")
    statistics: dict[str, Statistics]
    coverage: dict[str, int] = Field(description="Metric to how many trials had it (R1).")
    failure_modes: dict[str, int]
    grade: Grade | None = Field(description="From the median composite score (S5).")
    grading_profile: str
    composite_basis: CompositeBasis | None = Field(description="What the composite rests on (R13).")
    superseded: int = Field(ge=0, description="Results that lost their slot; not digested.")
    conflicts: int = Field(ge=0, description="Slots decided by the fingerprint alone; not digested.")


class AgentModelSummary(Group):
    """One agent:model over the whole run."""

    type: Literal["agent_model_summary"]
    agent_model: str
    agent: str
    model: str
    baseline: bool = Field(description="True for nop, oracle and what the plan names so (R10).")
    formulacode: dict[str, Any] | None = Field(description="FormulaCode's metrics, null where not measured.")


class TierSummary(Group):
    """One tier: pooled over the run's agents (`agent_model` null), or one agent:model within it."""

    type: Literal["tier_summary"]
    tier: str
    agent_model: str | None
    runs_completed: int = Field(ge=0, description="Trials in; the specification's name for `trials`.")
    baseline_tier: str
    tier_uplift: Number | None = Field(description="(median composite - T0's) / T0's; null if T0's <= 0 (R23).")
    tier_delta: Number | None = Field(description="Median composite minus the baseline tier's.")


class CrossTier(Message):
    """The specification's comparison of the tiers of a run."""

    tier_uplift: dict[str, Number | None]
    tier_delta: dict[str, Number | None]
    pass_rate_variance: Number | None
    impl_rate_variance: Number | None
    cost_variance: Number | None = Field(description="USD squared.")
    cost_delta: Number | None = Field(description="Dearest minus cheapest median cost, USD.")
    frontier_cost_of_pass: Number | None = Field(description="Lowest cost of pass among the tiers, USD.")
    frontier_tier: str | None


class Progress(Message):
    """How far the run is."""

    done: int = Field(ge=0, description="Slots filled.")
    planned: int | None = Field(ge=0, description="Slots planned, null if nobody said.")


class RunSummary(Published):
    """The run as a whole."""

    type: Literal["run_summary"]
    harness: str | None
    project: str | None
    benchmark: str | None
    benchmark_version: str | None
    display_name: str | None
    labels: dict[str, str]
    status: str | None = Field(description="What run_finished said; null while it runs.")
    started_at: AwareDatetime | None
    finished_at: AwareDatetime | None
    grading_profile: str
    trials: int = Field(ge=0, description="Trials in the sense of R10: the sub-trials of one are one.")
    tasks: int = Field(ge=0)
    resolved: int = Field(ge=0)
    unresolved: int = Field(ge=0, description="All others, those without a verdict included (R19).")
    no_verdict: int = Field(ge=0)
    accuracy: float | None = Field(ge=0, le=1)
    pass_at_k: dict[str, PassAtK] = Field(description="Over trials, baselines left out (R4, R11).")
    total_cost: Number | None
    cost_by_agent_model: dict[str, Number | None]
    tokens: Tokens
    failure_modes: dict[str, int]
    coverage: dict[str, int]
    agent_models: int = Field(ge=0, description="How many agent:models have results.")
    tiers: int = Field(ge=0)
    cross_tier: CrossTier | None
    progress: Progress
    provisional: bool
    superseded: int = Field(ge=0)
    conflicts: int = Field(ge=0)


class ScoredTrial(Message):
    """The specification's per-run numbers of one slot's winner."""

    type: Literal["scored_trial"]
    run_id: str
    shard: str
    task_id: str
    attempt: int
    agent: str
    model: str
    agent_model: str
    agent_index: int | None
    tier: str | None
    subtest: str | None
    semantics_version: int
    epoch: int
    state_version: int
    last_event_at: AwareDatetime | None
    digest: Digest
    revision: int
    fingerprint: str
    resolved: bool | None
    success: bool = Field(description="From tests and snapshot where present, else the verdict (R20).")
    failure_mode: str | None
    pass_rate: float
    impl_rate: float | None
    composite_score: float | None = Field(description="Null while the judge is awaited (R13).")
    grade: Grade | None
    cost_usd: float | None
    cost_source: Literal["reported", "estimated"] | None
    cost_of_pass: Number | None
    duration_seconds: float | None
    input_tokens: int | None
    output_tokens: int | None
    trajectory_length: int | None
    formulacode: dict[str, Any] | None


class GradeChange(Message):
    """News: a group's grade moved. Which ones appear depends on batching."""

    type: Literal["grade_change"]
    id: str = Field(description="Equal for equal news.")
    run_id: str
    semantics_version: int
    epoch: int
    state_version: int
    last_event_at: AwareDatetime | None
    digest: Digest = Field(description="Digest of the summary that has the new grade.")
    agent_model: str | None
    tier: str | None
    from_grade: Grade | None
    to_grade: Grade | None
    provisional: bool
    median_composite: Number | None


class Rescored(Message):
    """News: a late event changed the score of trials that were already counted (R9)."""

    type: Literal["rescored"]
    id: str
    run_id: str
    semantics_version: int
    epoch: int
    state_version: int
    last_event_at: AwareDatetime | None
    digest: Digest
    trial: dict[str, Any] = Field(description="The slot that moved.")
    because: dict[str, Any] = Field(description="The slot whose event moved it.")
    before: dict[str, Any]
    after: dict[str, Any]


class Rejection(Message):
    """A record that was not folded, with its bytes and the way to mend it."""

    type: Literal["rejection"]
    code: str = Field(description="Stable reason code, for programs.")
    message: str = Field(description="What is wrong, where, what is allowed, what to do.")
    run_id: str | None = Field(description="If the record named one.")
    semantics_version: int
    source_topic: str
    source_partition: int
    source_offset: int
    source_timestamp_ms: int | None
    source_key_base64: str | None
    source_value_base64: str | None = Field(description="The original bytes.")
    source_value_bytes: int = Field(ge=0, description="Size of the original value.")


AnySummary = (
    AgentModelSummary | TierSummary | RunSummary | ScoredTrial | GradeChange | Rescored | Rejection
)
SUMMARY: TypeAdapter[AnySummary] = TypeAdapter(Annotated[AnySummary, Field(discriminator="type")])
SUMMARY_TYPES: tuple[type[Message], ...] = (
    AgentModelSummary,
    TierSummary,
    RunSummary,
    ScoredTrial,
    GradeChange,
    Rescored,
    Rejection,
)
