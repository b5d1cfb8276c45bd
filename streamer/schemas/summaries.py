"""The summaries that the processors publish: of an agent:model, of a tier, of a run."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field, TypeAdapter

from streamer.schemas.base import Instant, Message, Number
from streamer.schemas.comparison import RunComparison
from streamer.schemas.formulacode import FormulaCodeSummary
from streamer.schemas.news import GradeChange, Rejection, Rescored
from streamer.schemas.scored_trial import ScoredTrial
from streamer.schemas.summary_fields import (
    AccuracyExcludingInfrastructure,
    Agent,
    AgentModel,
    Conflicts,
    Coverage,
    FailureModes,
    Grade,
    GradeBasis,
    GradingProfile,
    InFlight,
    InfrastructureFailures,
    Model,
    NamedMetrics,
    PassAtKs,
    PlannedMetrics,
    PrimaryMetric,
    Published,
    Statistics,
    Superseded,
    Tokens,
    Trials,
    kind,
)
from streamer.schemas.uncertainty import Uncertainty


class Counted(Published):
    """Numbers that the run as a whole has, and every group of its trials."""

    tasks: int = Field(ge=0, description="Distinct task ids.")
    resolved: int = Field(ge=0, description="Trials that the harness calls resolved.")
    unresolved: int = Field(ge=0, description="All others, those without a verdict included (R19).")
    no_verdict: int = Field(ge=0, description="Trials without a verdict, counted apart (R19).")
    provisional: bool = Field(
        description="True while planned trials are missing, or the plan is not complete yet (R26)."
    )
    accuracy: float | None = Field(ge=0, le=1, description="resolved / trials; null: no trials.")
    accuracy_excluding_infrastructure: AccuracyExcludingInfrastructure
    infrastructure_failures: InfrastructureFailures
    pass_at_k: PassAtKs
    total_cost: Number | None = Field(description="Sum of the known costs in USD, >= 0; null: none known.")
    tokens: Tokens = Field(description="Token totals.")
    failure_modes: FailureModes
    coverage: Coverage
    in_flight: InFlight
    grading_profile: GradingProfile
    superseded: Superseded
    conflicts: Conflicts


class Group(Counted):
    """Numbers that every group of trials has: an agent:model, a tier, an agent:model within a tier."""

    trials: Trials
    runs_planned: int | None = Field(
        ge=0, description="Trials planned; null: nobody said, or the plan is not complete yet (R26)."
    )
    mean_cost: Number | None = Field(description="Mean of the known costs in USD, >= 0; null: none known.")
    cost_of_pass: Number | None = Field(
        description="Known cost over passes at a known cost, USD; no pass: Infinity (R14)."
    )
    mean_trajectory_length: Number | None = Field(
        description="Mean interactions of a trial, >= 0; null: none known."
    )
    statistics: dict[str, Statistics] = Field(
        description="Metric to its statistics: pass_rate, impl_rate, composite_score in 0 to 1; cost_usd and "
        "cost_of_pass in USD; duration_seconds in seconds; input_tokens and output_tokens in tokens."
    )
    metrics: NamedMetrics
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
    uncertainty: Uncertainty | None = Field(
        default=None,
        description="What may be concluded (docs/inference.md); null: a worker of before wrote it.",
    )


class AgentModelSummary(Group):
    """One agent:model over the whole run."""

    type: Literal["agent_model_summary"] = kind("one agent:model over the run")
    agent_model: AgentModel
    agent: Agent
    model: Model
    baseline: bool = Field(description="True for nop, oracle and what the plan names so (R10).")
    formulacode: FormulaCodeSummary | None = Field(
        description="FormulaCode's metrics; null where no trial carries its sections."
    )


class TierSummary(Group):
    """One tier: pooled over the run's agents (`agent_model` null), or one agent:model within it."""

    type: Literal["tier_summary"] = kind("one tier of the run")
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
    planned: int | None = Field(
        ge=0, description="Slots planned; null: nobody said, or the plan is not complete yet."
    )
    plan_complete: bool = Field(
        default=True,
        description="False while the plan is still being read, or names only a part, and the run has not "
        "finished; `planned` is then null. True also if nobody said anything of a plan.",
    )


class RunSummary(Counted):
    """The run as a whole."""

    type: Literal["run_summary"] = kind("the run as a whole")
    harness: str | None = Field(description="Which harness runs it, from the plan.")
    project: str | None = Field(description="Project the run belongs to, from the plan.")
    benchmark: str | None = Field(description="Benchmark, from the plan; names the board across runs.")
    benchmark_version: str | None = Field(description="Version of the benchmark, from the plan.")
    display_name: str | None = Field(description="Name for people, from the plan.")
    labels: dict[str, str] = Field(description="Free labels of the run, from the plan.")
    metrics: PlannedMetrics
    primary_metric: PrimaryMetric
    status: str | None = Field(description="What run_finished said; null while it runs.")
    started_at: Instant | None = Field(description="Start of the run, UTC, from the plan.")
    finished_at: Instant | None = Field(description="End of the run, UTC, from run_finished.")
    trials: int = Field(ge=0, description="Trials in the sense of R10: the sub-trials of one are one.")
    cost_by_agent_model: dict[str, Number | None] = Field(
        description="Label to the sum of its known costs in USD; null: none known. Of more agents than fit: "
        "the dearest, and the sum of the others as `other`."
    )
    mean_speedup_percentage: Number | None = Field(
        description="FormulaCode: mean over trials of the deciding sub-trial's speedup in percent (F8); "
        "null: not measured."
    )
    agent_models: int = Field(ge=0, description="How many agent:models have results.")
    tiers: int = Field(ge=0, description="How many tiers have results.")
    cross_tier: CrossTier | None = Field(description="Comparison of the tiers; null: no tiers.")
    progress: Progress = Field(description="Slots filled and planned.")


AnySummary = (
    AgentModelSummary
    | TierSummary
    | RunSummary
    | RunComparison
    | ScoredTrial
    | GradeChange
    | Rescored
    | Rejection
)
SUMMARY: TypeAdapter[AnySummary] = TypeAdapter(Annotated[AnySummary, Field(discriminator="type")])
SUMMARY_TYPES: tuple[type[Message], ...] = get_args(AnySummary)
