"""What the processors publish: summaries, scored trials, news and rejections."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from schemas.base import Instant, Message, Number, Total
from schemas.events import Measurements
from schemas.formulacode import FormulaCodePayload, FormulaCodeSummary

Grade = Literal["S", "A", "B", "C", "D", "F"]
GradeBasis = Literal["composite_median", "mean_pass_rate"]
CostSource = Literal["reported", "estimated"]
VerdictSource = Literal["reported", "derived"]
Digest = Annotated[
    str,
    Field(
        pattern=r"^[0-9a-f]{64}$",
        description="SHA-256, hexadecimal, of the canonical JSON without the fields that tell the way.",
    ),
]
RunId = Annotated[str, Field(description="The benchmark run or experiment.")]
AgentModel = Annotated[str, Field(description="Label `agent:model`; a colon in the agent is %3A (R7).")]
Agent = Annotated[str, Field(description="The LLM agent under test.")]
Model = Annotated[str, Field(description="The model behind the agent, normalised (E10, R24).")]
GradingProfile = Annotated[str, Field(description="Profile that grades and weighs, as `specified` (R12).")]
SemanticsVersion = Annotated[int, Field(ge=1, description="Version of what the numbers mean.")]
Epoch = Annotated[int, Field(ge=0, description="Grows with every rebuild from the log.")]
StateVersion = Annotated[
    int, Field(ge=-1, description="Offset of the last event folded into the run; -1: none.")
]
LastEventAt = Annotated[
    Instant | None, Field(description="Greatest event time folded into the run, UTC; null: none known.")
]
PassAtKs = Annotated[
    dict[str, "PassAtK"] | None,
    Field(
        description="k, from 1, as text, to pass@k; baselines left out of the run's (R4). Null where trials "
        "of several agent:models or tiers are mixed (R11)."
    ),
]
AccuracyExcludingInfrastructure = Annotated[
    float | None,
    Field(
        default=None,
        ge=0,
        le=1,
        description="resolved / trials without those that the infrastructure failed; null: no other trials.",
    ),
]
InfrastructureFailures = Annotated[
    int,
    Field(
        default=0,
        ge=0,
        description="Trials that are unresolved because the infrastructure failed, not the agent.",
    ),
]
FailureModes = Annotated[
    dict[str, int],
    Field(
        description="Failure mode to how many trials ended with it (R19): the 100 most frequent, ties by "
        "name, and all others as `other`."
    ),
]
Coverage = Annotated[dict[str, int], Field(description="Metric to how many trials had it (R1).")]
Trials = Annotated[int, Field(ge=0, description="Slots filled.")]
Superseded = Annotated[int, Field(ge=0, description="Results that lost their slot (R17); not digested.")]
Conflicts = Annotated[
    int, Field(ge=0, description="Slots decided by the fingerprint alone (R17); not digested.")
]
NewsId = Annotated[str, Field(description="Equal for equal news, 32 hexadecimal digits.")]


def _kind(what: str) -> Any:
    return Field(description=f"Which message this is: {what}.")


class Statistics(Message):
    """Statistics of one metric over the trials that have it; of nothing: count 0 and null (R16)."""

    median: Number | None = Field(description="Middle value, or the mean of the two middle ones.")
    mean: Number | None = Field(description="Exact mean, rounded once (R18).")
    mode: Number | None = Field(description="Most frequent value; of several the smallest (R15).")
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

    input: Total | None = Field(ge=0, description="Fresh input tokens.")
    output: Total | None = Field(ge=0, description="Output tokens.")
    cache_read: Total | None = Field(ge=0, description="Input tokens read from a cache.")
    cache_write: Total | None = Field(ge=0, description="Input tokens written to a cache.")


class InStream(Message):
    """What every message of a run carries about where it stands in the stream."""

    run_id: RunId
    semantics_version: SemanticsVersion
    epoch: Epoch
    state_version: StateVersion
    last_event_at: LastEventAt


class Published(InStream):
    """What every summary carries about where it stands in the stream, and what its numbers rest on."""

    digest: Digest
    made_with: str | None = Field(
        default=None,
        description="Fingerprint of the prices, profiles and formulas behind the numbers; null: not said.",
    )
    degraded: str | None = Field(
        default=None, description="Why newer events of the run are not counted (quarantine); null: they are."
    )


class Group(Published):
    """Numbers that every group of trials has: an agent:model, a tier, an agent:model within a tier."""

    trials: Trials
    tasks: int = Field(ge=0, description="Distinct task ids.")
    resolved: int = Field(ge=0, description="Trials that the harness calls resolved.")
    unresolved: int = Field(ge=0, description="All others, those without a verdict included (R19).")
    no_verdict: int = Field(ge=0, description="Trials without a verdict, counted apart (R19).")
    runs_planned: int | None = Field(ge=0, description="Trials planned, null if nobody said (R26).")
    provisional: bool = Field(description="True while planned trials are missing (R26).")
    accuracy: float | None = Field(ge=0, le=1, description="resolved / trials; null: no trials.")
    accuracy_excluding_infrastructure: AccuracyExcludingInfrastructure
    infrastructure_failures: InfrastructureFailures
    pass_at_k: PassAtKs
    total_cost: Number | None = Field(description="Sum of the known costs in USD, >= 0; null: none known.")
    mean_cost: Number | None = Field(description="Mean of the known costs in USD, >= 0; null: none known.")
    cost_of_pass: Number | None = Field(
        description="Known cost over passes at a known cost, USD; no pass: Infinity (R14)."
    )
    tokens: Tokens = Field(description="Token totals.")
    mean_trajectory_length: Number | None = Field(
        description="Mean interactions of a trial, >= 0; null: none known."
    )
    statistics: dict[str, Statistics] = Field(
        description="Metric to its statistics: pass_rate, impl_rate, composite_score in 0 to 1; cost_usd and "
        "cost_of_pass in USD; duration_seconds in seconds; input_tokens and output_tokens in tokens."
    )
    coverage: Coverage
    failure_modes: FailureModes
    grade: Grade | None = Field(description="From `grade_score` by the profile's thresholds (R13).")
    grade_basis: GradeBasis | None = Field(
        default=None,
        description="What the grade rests on: the median composite where there is a judge, else the mean "
        "pass rate; null: no trials (R13).",
    )
    grade_score: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="The number that gives the grade; null while no judge has scored (R13).",
    )
    grade_provisional: bool = Field(
        default=False,
        description="True while trials of a judged group wait for their judge, until the run ends (R13).",
    )
    grading_profile: GradingProfile
    superseded: Superseded
    conflicts: Conflicts


class AgentModelSummary(Group):
    """One agent:model over the whole run."""

    type: Literal["agent_model_summary"] = _kind("one agent:model over the run")
    agent_model: AgentModel
    agent: Agent
    model: Model
    baseline: bool = Field(description="True for nop, oracle and what the plan names so (R10).")
    formulacode: FormulaCodeSummary | None = Field(
        description="FormulaCode's metrics; null where no trial carries its sections."
    )


class TierSummary(Group):
    """One tier: pooled over the run's agents (`agent_model` null), or one agent:model within it."""

    type: Literal["tier_summary"] = _kind("one tier of the run")
    tier: str = Field(description="Prompt tier.")
    agent_model: AgentModel | None = Field(description="Null for the pooled summary of the tier.")
    runs_completed: int = Field(ge=0, description="Trials in; the specification's name for `trials`.")
    baseline_tier: str = Field(description="Tier that uplift and delta are measured from.")
    tier_uplift: Number | None = Field(
        description="`grade_score` over the baseline tier's, minus 1; null if that is <= 0, or if the two "
        "grades rest on different numbers (R23)."
    )
    tier_delta: Number | None = Field(
        description="`grade_score` minus the baseline tier's, -1 to 1; null if the two grades rest on "
        "different numbers (R23)."
    )


class CrossTier(Message):
    """The specification's comparison of the tiers of a run."""

    tier_uplift: dict[str, Number | None] = Field(
        description="Tier to its uplift over the baseline tier (R23)."
    )
    tier_delta: dict[str, Number | None] = Field(
        description="Tier to its difference from the baseline tier (R23)."
    )
    pass_rate_variance: Number | None = Field(description="Variance of the tiers' pass rates, >= 0.")
    impl_rate_variance: Number | None = Field(description="Variance of the tiers' judge scores, >= 0.")
    cost_variance: Number | None = Field(description="Variance of the tiers' costs, USD squared, >= 0.")
    cost_delta: Number | None = Field(description="Dearest minus cheapest median cost of a tier, USD, >= 0.")
    frontier_cost_of_pass: Number | None = Field(
        description="Lowest cost of pass among the tiers, USD, >= 0."
    )
    frontier_tier: str | None = Field(description="Tier with that cost of pass; null: no tier passes.")


class Progress(Message):
    """How far the run is."""

    done: int = Field(ge=0, description="Slots filled.")
    planned: int | None = Field(ge=0, description="Slots planned, null if nobody said.")


class RunSummary(Published):
    """The run as a whole."""

    type: Literal["run_summary"] = _kind("the run as a whole")
    harness: str | None = Field(description="Which harness runs it, from the plan.")
    project: str | None = Field(description="Project the run belongs to, from the plan.")
    benchmark: str | None = Field(description="Benchmark, from the plan; names the board across runs.")
    benchmark_version: str | None = Field(description="Version of the benchmark, from the plan.")
    display_name: str | None = Field(description="Name for people, from the plan.")
    labels: dict[str, str] = Field(description="Free labels of the run, from the plan.")
    status: str | None = Field(description="What run_finished said; null while it runs.")
    started_at: Instant | None = Field(description="Start of the run, UTC, from the plan.")
    finished_at: Instant | None = Field(description="End of the run, UTC, from run_finished.")
    grading_profile: GradingProfile
    trials: int = Field(ge=0, description="Trials in the sense of R10: the sub-trials of one are one.")
    tasks: int = Field(ge=0, description="Distinct task ids.")
    resolved: int = Field(ge=0, description="Trials that the harness calls resolved.")
    unresolved: int = Field(ge=0, description="All others, those without a verdict included (R19).")
    no_verdict: int = Field(ge=0, description="Trials without a verdict, counted apart (R19).")
    accuracy: float | None = Field(ge=0, le=1, description="resolved / trials; null: no trials.")
    accuracy_excluding_infrastructure: AccuracyExcludingInfrastructure
    infrastructure_failures: InfrastructureFailures
    pass_at_k: PassAtKs
    total_cost: Number | None = Field(description="Sum of the known costs in USD, >= 0; null: none known.")
    cost_by_agent_model: dict[str, Number | None] = Field(
        description="Label to the sum of its known costs in USD; null: none known. Of more agents than fit: "
        "the dearest, and the sum of the others as `other`."
    )
    tokens: Tokens = Field(description="Token totals.")
    mean_speedup_percentage: Number | None = Field(
        description="FormulaCode: mean over trials of the deciding sub-trial's speedup in percent (F8); "
        "null: not measured."
    )
    failure_modes: FailureModes
    coverage: Coverage
    agent_models: int = Field(ge=0, description="How many agent:models have results.")
    tiers: int = Field(ge=0, description="How many tiers have results.")
    cross_tier: CrossTier | None = Field(description="Comparison of the tiers; null: no tiers.")
    progress: Progress = Field(description="Slots filled and planned.")
    provisional: bool = Field(description="True while planned trials are missing (R26).")
    superseded: Superseded
    conflicts: Conflicts


class TrialScore(Measurements):
    """What scoring says of one trial; null: unknown, never 0 (R1)."""

    resolved: bool | None = Field(
        description="The harness's verdict, or the one that tests and snapshot give (R27); null: no verdict "
        "(R19)."
    )
    verdict_source: VerdictSource | None = Field(
        default=None,
        description="Whether the harness said it, or tests and snapshot did (R27); null: no verdict.",
    )
    success: bool = Field(description="From tests and snapshot where present, else the verdict (R20).")
    failure_mode: str | None = Field(description="Why it ended early, as the harness says.")
    infrastructure_failure: bool = Field(
        default=False, description="It is unresolved because the infrastructure failed, not the agent."
    )
    pass_rate: float = Field(description="1 for a success, 0 otherwise (R20).")
    impl_rate: float | None = Field(description="The judge's score, 0 to 1; null: not judged (R13).")
    composite_score: float | None = Field(
        description="Weighted mean of both rates, 0 to 1; null without a judge's score (R13)."
    )
    cost_usd: float | None = Field(description="Cost in US dollars, >= 0; null: unknown (R2).")
    cost_source: CostSource | None = Field(
        description="Whether the harness reports the cost, or it is tokens x price (R2)."
    )
    cost_of_pass: Number | None = Field(
        description="Cost over pass rate in USD; no pass: Infinity; null: passed at an unknown cost (R14)."
    )
    duration_seconds: float | None = Field(
        description="Wall time in seconds, >= 0: as reported, else from start to end; null: unknown."
    )


class ScoredTrial(TrialScore, InStream):
    """The specification's per-run numbers of one slot's winner."""

    type: Literal["scored_trial"] = _kind("one slot, scored")
    shard: str = Field(description='Original run inside a pooled one; "" otherwise.')
    task_id: str = Field(description="The problem.")
    attempt: int = Field(ge=1, description="n-th repeat of the task, from 1.")
    agent: Agent
    model: Model
    agent_model: AgentModel
    agent_index: int | None = Field(description="Position in a multi-agent trial, from 1 (R10); else null.")
    tier: str | None = Field(description="Prompt tier; null where there is none.")
    subtest: str | None = Field(description="Variant inside the tier; null where there is none.")
    digest: Digest
    revision: int = Field(description="Revision of the slot's winner (R17).")
    fingerprint: str = Field(description="Digest of the winner's content, hexadecimal (R17).")
    grade: Grade | None = Field(description="From the composite score; null without one (R12).")
    formulacode: FormulaCodePayload | None = Field(
        description="FormulaCode's per-agent task payload; null where the trial carries none of its sections."
    )


class GradeChange(InStream):
    """News: a group's grade moved. Which ones appear depends on batching."""

    type: Literal["grade_change"] = _kind("a grade moved")
    id: NewsId
    digest: Digest = Field(description="Digest of the summary that has the new grade.")
    agent_model: AgentModel | None = Field(description="Null for the pooled summary of a tier.")
    tier: str | None = Field(description="Prompt tier; null for an agent:model over the run.")
    from_grade: Grade | None = Field(description="Grade before; null: none.")
    to_grade: Grade | None = Field(description="Grade now; null: none.")
    provisional: bool = Field(description="True while planned trials are missing (R26).")
    grade_basis: GradeBasis | None = Field(
        default=None, description="What the grade rests on now (R13); null: nothing."
    )
    grade_score: float | None = Field(
        default=None, ge=0, le=1, description="The number that gives the grade now."
    )
    grade_provisional: bool = Field(
        default=False, description="True while trials wait for their judge (R13)."
    )


class Rescored(InStream):
    """News: a late event changed the score of trials that were already counted (R9)."""

    type: Literal["rescored"] = _kind("a trial was scored again")
    id: NewsId
    digest: Digest = Field(description="SHA-256 of the canonical JSON of `after`.")
    trial: dict[str, Any] = Field(description="The slot that moved.")
    because: dict[str, Any] = Field(description="The slot whose event moved it.")
    before: dict[str, Any] = Field(description="The slot's per-run numbers as they were.")
    after: dict[str, Any] = Field(description="The slot's per-run numbers as they are.")


class Rejection(Message):
    """A record that was not folded, with its bytes and the way to mend it."""

    type: Literal["rejection"] = _kind("a record was not folded")
    code: str = Field(description="Stable reason code, for programs.")
    message: str = Field(description="What is wrong, where, what is allowed, what to do.")
    run_id: str | None = Field(description="If the record named one.")
    semantics_version: SemanticsVersion
    source_topic: str = Field(description="Topic of the record.")
    source_partition: int = Field(description="Partition of the record.")
    source_offset: int = Field(description="Offset of the record in its partition.")
    source_timestamp_ms: int | None = Field(description="The record's timestamp, Unix milliseconds.")
    source_key_base64: str | None = Field(description="The original key, base64; null: it had none.")
    source_value_base64: str | None = Field(
        description="The original bytes, base64; null: it had none, or they are too many to repeat."
    )
    source_value_bytes: int = Field(ge=0, description="Size of the original value in bytes.")


AnySummary = AgentModelSummary | TierSummary | RunSummary | ScoredTrial | GradeChange | Rescored | Rejection
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
