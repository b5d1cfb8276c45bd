"""The summaries that the processors publish: of an agent:model, a tier and a run."""

# Annotations are evaluated, as in `schemas/base.py`.

import operator
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, NamedTuple, Self, get_args

from pydantic import ConfigDict, Field, TypeAdapter

from streamer.schemas.base import Instant, Message, Number, Total, optional
from streamer.schemas.events import (
    PRIMARY_METRIC,
    Direction,
    FormulaCodePayload,
    FormulaCodeSummary,
    Measurements,
    Metrics,
)

# -----------------------------------------------------------------------------
# The common parts of summaries and notifications: their fields, described once, and the nested models.


Grade = Literal["S", "A", "B", "C", "D", "F"]
GradeBasis = Literal["composite_median", "mean_pass_rate"]
CostSource = Literal["reported", "estimated"]
VerdictSource = Literal["reported", "derived"]
Digest = Annotated[
    str,
    Field(
        pattern=r"^[0-9a-f]{64}$",
        description="SHA-256, hexadecimal, of the canonical JSON without the provenance fields.",
    ),
]
AgentModel = Annotated[str, Field(description="Label `agent:model`; a colon in the agent is %3A (R7).")]
Agent = Annotated[str, Field(description="The LLM agent under test.")]
Model = Annotated[str, Field(description="The model behind the agent, normalised (E10, R24).")]
SemanticsVersion = Annotated[int, Field(ge=1, description="Version of what the numbers mean.")]


def kind(what: str) -> Any:
    return Field(description=f"Which message this is: {what}.")


class Statistics(Message):
    """Statistics of one metric over the trials that have it; if there are none, count 0 and null (R16)."""

    median: Number | None = Field(description="Middle value, or the mean of the two middle ones.")
    mean: Number | None = Field(description="Exact mean, rounded once (R18).")
    mode: Number | None = Field(description="Most frequent value; of several the smallest (R15).")
    min: Number | None = Field(description="Smallest value.")
    max: Number | None = Field(description="Largest value.")
    std_dev: Number | None = Field(description="Population standard deviation, or sample by profile; >= 0.")
    count: int = Field(ge=0, description="Values counted.")
    standard_error: Number | None = optional(
        "Of the mean, clustered by task, in the metric's unit; of metrics with a board, for an "
        "agent:model over the run. Null: fewer than two tasks (inference 6)."
    )
    low: Number | None = optional("Lower end of the mean's interval, 95 %.")
    high: Number | None = optional("Upper end of the mean's interval, 95 %.")


class MetricReading(Message):
    """How to read a named metric, by the plan (R30)."""

    direction: Direction = Field(description="Which way is better.")
    unit: str | None = Field(description="Unit of the number; null: not said.")
    label: str | None = Field(description="Heading for people; null: the name.")


class LedgerEntry(Message):
    """The ledger that a run's candidates belong to (inference 8a)."""

    name: str = Field(description="Names the ledger.")
    baseline: str = Field(description="What the candidates are compared with: RUN or RUN/AGENT:MODEL.")
    metric: str = Field(description="What is compared.")
    planned_at: Instant | None = Field(description="When this was declared, UTC; null: not known.")
    in_time: bool = Field(description="It was declared before the first trial, so the candidates are judged.")
    candidates: int = Field(
        ge=0,
        description="How many agent:models the run enters, planned ones too: neither the baseline, nor one "
        "that no plan named before the first trial while plans named others.",
    )


class NamedStatistics(Statistics, MetricReading):
    """Statistics of a metric named by a harness, over the trials that have it (R30)."""

    planned: bool = Field(description="The plan names it, so it has a board.")


NamedMetrics = Annotated[
    dict[str, NamedStatistics],
    Field(
        default={},
        description="Named metric to its statistics (R30): the planned ones, then those of the most trials, "
        "100 in all. `count` says how many trials have it.",
    ),
]


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


class InSlot(Message):
    """The slot of a trial as published (R17)."""

    shard: str = Field(description='Original run inside a pooled one; "" otherwise.')
    task_id: str = Field(description="The problem.")
    attempt: int = Field(ge=1, description="n-th repeat of the task, from 1.")
    agent: Agent
    model: Model
    tier: str | None = Field(description="Prompt tier; null where there is none.")
    subtest: str | None = Field(description="Variant inside the tier; null where there is none.")


class InStream(Message):
    """Position in the stream, in every message of a run."""

    run_id: str = Field(description="The benchmark run or experiment.")
    semantics_version: SemanticsVersion
    epoch: int = Field(ge=0, description="Grows with every rebuild from the log.")
    state_version: int = Field(ge=-1, description="Offset of the last event folded into the run; -1: none.")
    last_event_at: Instant | None = Field(
        description="Greatest event time folded into the run, UTC; null: none known."
    )


class Published(InStream):
    """Position in the stream and basis of the numbers, in every summary."""

    digest: Digest
    made_with: str | None = optional(
        "Fingerprint of the prices, profiles and formulas behind the numbers; null: not said."
    )
    degraded: str | None = optional(
        "Why newer events of the run are not counted (quarantine); null: they are."
    )


# -----------------------------------------------------------------------------
# The inferences in summaries: bounds, intervals and errors (docs/inference.md).


OrderKind = Literal["shuffled", "chosen", "unknown"]
FinalMissing = Literal[
    "no_plan",
    "plan_undeclared_tiers",
    "plan_exceeded",
    "order_changed",
    "order_chosen",
    "order_unknown_in_part",
    "starts_missing",
    "attempts_together",
    "order_follows_difficulty",
    "order_follows_outcome",
    "nothing_yet",
    "empty",
    "order_undeclared",
]
Share = Annotated[float, Field(ge=0, le=1)]
Level = Annotated[float, Field(gt=0, lt=1, description="Confidence level; 0.95 in all summaries.")]


class ShareRange(Message):
    """Both ends of a range of shares."""

    low: Share = Field(description="Lower end, 0 to 1.")
    high: Share = Field(description="Upper end, 0 to 1.")


class GradeRange(Message):
    """Both ends of a range of grades."""

    low: Grade = Field(description="The worst grade that can still come.")
    high: Grade = Field(description="The best grade that can still come.")


class Reachable(Message):
    """The range that the run can still reach, without assumptions or corrections (inference 4)."""

    pass_rate: ShareRange = Field(description="The final pass rate lies here.")
    pass_at_k: dict[str, ShareRange] | None = Field(
        description="k, as text, to the range of the final pass@k; null where pass@k is, without planned "
        "tasks and attempts, and beyond 1,000 planned attempts at a task."
    )
    grade: GradeRange | None = Field(
        description="The final grade lies here, if `grade_basis` stays; null: there is no grade to come."
    )


class Decided(Message):
    """Answers that can no longer change, unless results are corrected (inference 4)."""

    grade: bool = Field(description="True if both ends of the reachable grade are the same.")


class Final(Message):
    """The interval of the final pass rate; it holds however often you look (inference 5)."""

    low: Share = Field(description="Lower end, 0 to 1.")
    high: Share = Field(description="Upper end, 0 to 1.")
    level: Level
    planned: int = Field(ge=1, description="Planned trials.")
    passes: int = Field(ge=0, description="Trials that passed for good.")
    unknown: int = Field(ge=0, description="Planned trials without a final value; counted both ways.")
    order_kind: OrderKind = Field(
        description="`shuffled`: declared before the first start. `unknown`: it holds if order and "
        "difficulty are unrelated, or nothing is unknown."
    )
    order_changed: bool = optional("A later plan has another order; the first one counts here.", False)
    method: Literal["finite-population"] = Field(description="How the interval was computed.")


class Ability(Message):
    """The agent's ability on similar tasks; the tasks are a sample (inference 6)."""

    standard_error: float = Field(ge=0, description="Of the pass rate, clustered by task.")
    low: Share = Field(description="Lower end, 0 to 1.")
    high: Share = Field(description="Upper end, 0 to 1.")
    level: Level
    method: Literal["wilson-clustered"] = Field(description="How the interval was computed.")
    tasks: int = Field(ge=2, description="Tasks with at least one trial.")
    tasks_planned: int | None = optional("Planned tasks; null: not planned.", ge=0)
    incomplete: bool = optional(
        "Planned trials or tasks have no final value. Those that are missing may differ from those that "
        "came, so the interval may mislead.",
        False,
    )


class Repeat(Message):
    """Agreement of several attempts at the same task (inference 6); covers tasks with at least two."""

    standard_error: float = Field(ge=0, description="Of the pass rate, if the same tasks were tried again.")
    tasks_covered: int = Field(ge=1, description="Tasks with at least two attempts.")
    flips: Share = Field(description="Share of them with both outcomes; it grows with the attempts.")
    disagreement: Share = Field(
        description="Chance that two attempts at a task differ; it does not grow with them."
    )
    pass_hat_k: dict[str, Share] = Field(
        description="k, as text, to pass^k: the chance that k attempts at a task all pass."
    )


class Uncertainty(Message):
    """Inferences from a group's results. Groups that mix agents have only `ability`."""

    reachable: Reachable | None = Field(description="Null without a plan, or beyond it.")
    decided: Decided | None = Field(description="Null where `reachable` is.")
    final: Final | None = Field(description="Null: `final_missing` says why.")
    final_if_unrelated: Final | None = optional(
        "The same interval where no shuffle was declared: right only if the order has nothing to do with "
        "difficulty. No verdict, rank or notice uses it."
    )
    final_missing: FinalMissing | None = Field(
        description="Why there is no `final`; null where there is one, where agents are mixed, or where no "
        "trial has a verdict (R31)."
    )
    ability: Ability | None = Field(description="Null with fewer than two tasks.")
    repeat: Repeat | None = Field(description="Null where no task has two attempts, or agents are mixed.")


# -----------------------------------------------------------------------------
# The published comparison of a run's agents: counts of every two, and the rank of each.


ComparisonMissing = Literal["no_plan", "plan_exceeded", "too_many_agents", "too_many_trials", "no_verdicts"]
Place = Annotated[int, Field(ge=1, description="A place, from 1, the first.")]


class Rank(Message):
    """The possible true places of an agent; at 95 %, all agents' ranges hold together (inference 7)."""

    best: Place
    worst: Place


class ComparedAgent(Message):
    """One of the compared agents."""

    agent_model: AgentModel
    agent: Agent
    model: Model
    rank: Rank | None = Field(description="Where it may truly stand; null: see `rank_missing`.")


class FinalDifference(Message):
    """Final passes of `a` minus passes of `b`, at 95 %, however often you look (inference 7)."""

    low: int = Field(description="The lowest, in pairs; divide by `pairs` for a difference of pass rates.")
    high: int = Field(description="The highest, in pairs.")


class PairEvidence(Message):
    """Evidence on which of two agents is better on similar tasks, however often you look (inference 7)."""

    better: float = Field(ge=1, description="Evidence that `a` is better, the largest over the prefixes.")
    worse: float = Field(ge=1, description="Evidence that `a` is worse, the largest over the prefixes.")
    ahead: Literal["a", "b"] | None = Field(
        description="Whom the mean puts ahead. Only this one may be called better, from evidence of 40 on."
    )


class ComparedPair(Message):
    """Two agents in pairs: the same attempt at the same task on both sides."""

    a: int = Field(ge=0, description="Place of the first agent in `agents`, from 0.")
    b: int = Field(ge=0, description="Place of the second agent; greater than `a`.")
    pairs: int = Field(ge=0, description="Planned pairs; without a plan those that both sides have seen.")
    wins: int = Field(ge=0, description="Pairs that only `a` passed.")
    ties: int = Field(ge=0, description="Pairs that both passed, or neither.")
    losses: int = Field(ge=0, description="Pairs that only `b` passed.")
    unknown: int = Field(ge=0, description="Pairs without a final value on one side or both.")
    final: FinalDifference | None = Field(description="Null: see `final_missing`.")
    final_missing: FinalMissing | None = Field(
        description="Why there is no interval of the final difference; null: there is one."
    )
    evidence: PairEvidence | None = optional(
        "Null without a plan while the run goes on, and from versions that did not publish it."
    )
    left_out: int = optional(
        "Common tasks that are no pairs: their trials were made in different ways (R36). All, where fewer "
        "than half remain: then `pairs` is 0, and `final_missing` is `nothing_yet`. Absent: 0.",
        0,
        ge=0,
        exclude_if=operator.not_,
    )


class RunComparison(Published):
    """The comparison of a run's agents, without baselines (inference 7)."""

    type: Literal["run_comparison"] = kind("every two agents of a run, and their ranks")
    agents: list[ComparedAgent] = Field(description="The compared agents by label, the first 60.")
    agents_total: int = Field(ge=0, description="How many agents there are.")
    planned: int | None = Field(ge=0, description="Planned pairs of every two agents; null: not planned.")
    ended: bool = Field(description="True if every pair has its final values: the sign test ranks then.")
    order_kind: OrderKind = Field(
        description="`shuffled`: declared. `unknown`: `final` holds if order and difficulty are unrelated."
    )
    level: Level
    pairs: list[ComparedPair] = Field(description="Every two agents; empty: see `missing`.")
    missing: ComparisonMissing | None = Field(description="Why no two agents are compared; null: they are.")
    rank_missing: ComparisonMissing | None = Field(description="Why no agent is ranked; null: they are.")
    evidence_missing: Literal["order_from_a_side", "order_chosen"] | None = optional(
        "Why evidence rests on the whole plan alone, and on no prefix of its order; null: it need not."
    )


PairTrials = Annotated[int, Field(ge=0)]
_Counts = tuple[PairTrials, PairTrials, PairTrials]
TaskOutcomes = dict[str, _Counts]
"""Trials at one task: the numbers of known, passed and unknown ones by agent:model."""


# -----------------------------------------------------------------------------
# The tasks of a run as Redis has them.


TaskProvenance = dict[str, dict[str, str]]

_TASK: TypeAdapter[dict[str, Any]] = TypeAdapter(
    dict[str, _Counts | tuple[PairTrials, PairTrials, PairTrials, dict[str, str]]]
)


class TasksOfRun(NamedTuple):
    """The tasks of a run by :func:`~streamer.schemas.base.task_key`, as in the hash `tasks`."""

    outcomes: dict[str, TaskOutcomes]
    provenance: dict[str, TaskProvenance]

    @classmethod
    def of(cls, fields: Iterable[tuple[str, str | bytes]]) -> Self:
        """The tasks in the fields of the hash; other shapes raise ValidationError.

        Trials with only numbers have a provenance but no outcome (R31).

        >>> TasksOfRun.of([("t", '{"a:m":[1,1,0],"b:m":[0,0,0,{"timeout":"600"}]}')])
        TasksOfRun(outcomes={'t': {'a:m': (1, 1, 0)}}, provenance={'t': {'b:m': {'timeout': '600'}}})
        """
        outcomes, provenance = dict[str, TaskOutcomes](), dict[str, TaskProvenance]()
        for task, value in fields:
            cells = _TASK.validate_json(value)
            own = {label: cell[3] for label, cell in cells.items() if len(cell) > 3}
            if own:
                provenance[task] = own
                cells = {label: cell[:3] for label, cell in cells.items() if any(cell[:3])}
            if cells:
                outcomes[task] = cells
        return cls(outcomes, provenance)


# -----------------------------------------------------------------------------
# The other messages of the processors: notifications of grades and scores, and rejections.


NewsId = Annotated[str, Field(description="Equal for equal news, 32 hexadecimal digits.")]


class GradeChange(InStream):
    """Notification that a group's grade changed. Batching decides which changes appear."""

    type: Literal["grade_change"] = kind("a grade moved")
    id: NewsId
    digest: Digest = Field(description="Digest of the summary that has the new grade.")
    agent_model: AgentModel | None = Field(description="Null for the pooled summary of a tier.")
    tier: str | None = Field(description="Prompt tier; null for an agent:model over the run.")
    from_grade: Grade | None = Field(description="Grade before; null: none.")
    to_grade: Grade | None = Field(description="Grade now; null: none.")
    provisional: bool = Field(description="True while planned trials are missing (R26).")
    grade_basis: GradeBasis | None = optional("What the grade rests on now (R13); null: nothing.")
    grade_score: float | None = optional("The number that gives the grade now.", ge=0, le=1)
    grade_provisional: bool = optional("True while trials wait for their judge (R13).", False)


class Rescored(InStream):
    """Notification that a late event changed the score of counted trials (R9)."""

    type: Literal["rescored"] = kind("a trial was scored again")
    id: NewsId
    digest: Digest = Field(description="SHA-256 of the canonical JSON of `after`.")
    trial: dict[str, Any] = Field(description="The slot that moved.")
    because: dict[str, Any] = Field(description="The slot whose event moved it.")
    before: dict[str, Any] = Field(description="The slot's per-run numbers as they were.")
    after: dict[str, Any] = Field(description="The slot's per-run numbers as they are.")


class Rejection(Message):
    """A record that was not folded, with its bytes and the way to repair it."""

    type: Literal["rejection"] = kind("a record was not folded")
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


# -----------------------------------------------------------------------------
# One slot's result with the specification's numbers, as published.


class TrialScore(Measurements):
    """The score of one trial; null: unknown, never 0 (R1)."""

    resolved: bool | None = Field(
        description="The harness's verdict, or the one that tests and snapshot give (R27); null: no verdict "
        "(R19)."
    )
    verdict_source: VerdictSource | None = optional(
        "Whether the harness said it, or tests and snapshot did (R27); null: no verdict."
    )
    success: bool | None = Field(
        description="From tests and snapshot where present, else the verdict (R20); null: the scorer gives "
        "numbers alone (R31)."
    )
    failure_mode: str | None = Field(description="Why it ended early, as the harness says.")
    infrastructure_failure: bool = optional(
        "It is unresolved because the infrastructure failed, not the agent.", False
    )
    pass_rate: float | None = Field(
        description="1 for a success, 0 otherwise (R20); null: the scorer gives numbers alone (R31)."
    )
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
    metrics: Metrics | None = optional("Metrics by name, as reported (R30); null: none.")


class ScoredTrial(TrialScore, InSlot, InStream):
    """The specification's per-run numbers of a slot's winner."""

    type: Literal["scored_trial"] = kind("one slot, scored")
    agent_model: AgentModel
    agent_index: int | None = Field(description="Position in a multi-agent trial, from 1 (R10); else null.")
    digest: Digest
    revision: int = Field(description="Revision of the slot's winner (R17).")
    fingerprint: str = Field(description="Digest of the winner's content, hexadecimal (R17).")
    grade: Grade | None = Field(description="From the composite score; null without one (R12).")
    formulacode: FormulaCodePayload | None = Field(
        description="FormulaCode's per-agent task payload; null where the trial carries none of its sections."
    )


# -----------------------------------------------------------------------------
# The summaries that the processors publish: of an agent:model, of a tier, of a run.


class Counted(Published):
    """Numbers of the run as a whole, and of every group of its trials."""

    tasks: int = Field(ge=0, description="Distinct task ids.")
    verdict_trials: int | None = optional(
        "Trials that have a verdict or could: all but those whose scorer gives numbers alone. "
        "0: accuracy, pass rate, pass@k, cost of pass and grade are null (R31). null: not said.",
        ge=0,
    )
    resolved: int = Field(ge=0, description="Trials that the harness calls resolved.")
    unresolved: int = Field(ge=0, description="All others of `verdict_trials` (R19).")
    no_verdict: int = Field(ge=0, description="Trials without a verdict, counted apart (R19).")
    provisional: bool = Field(
        description="True while planned trials are missing, or the plan is not complete yet (R26)."
    )
    accuracy: float | None = Field(
        ge=0, le=1, description="resolved / verdict_trials; null: there is none (R31)."
    )
    accuracy_excluding_infrastructure: float | None = optional(
        "The same without trials that the infrastructure failed; null: no other trials.", ge=0, le=1
    )
    infrastructure_failures: int = optional(
        "Trials that are unresolved because the infrastructure failed, not the agent.", 0, ge=0
    )
    pass_at_k: dict[str, PassAtK] | None = Field(
        description="k, from 1, as text, to pass@k; baselines left out of the run's (R4). Null where trials "
        "of several agent:models or tiers are mixed (R11), or no trial has a verdict (R31)."
    )
    total_cost: Number | None = Field(description="Sum of the known costs in USD, >= 0; null: none known.")
    estimated_cost: Number | None = optional(
        "The part of it, in USD, that is tokens x price, as the harness reported none (R2). Null: unknown."
    )
    tokens: Tokens = Field(description="Token totals.")
    failure_modes: dict[str, int] = Field(
        description="Failure mode to how many trials ended with it (R19): the 100 most frequent, ties by "
        "name, and all others as `other`."
    )
    coverage: dict[str, int] = Field(description="Metric to how many trials had it (R1).")
    score_out_of_range: int = optional(
        "Trials whose judge's score lies outside 0 to 1, so that it counts as none (R13).", 0, ge=0
    )
    in_flight: int = optional(
        "Trials that have started and have no result, until the run has finished (inference 3).", 0, ge=0
    )
    grading_profile: str = Field(description="Profile that grades and weighs, as `specified` (R12).")
    superseded: int = Field(ge=0, description="Results that lost their slot (R17); not digested.")
    conflicts: int = Field(ge=0, description="Slots decided by the fingerprint alone (R17); not digested.")
    impoverished: int = Field(
        default=0,
        ge=0,
        description="Slots whose result lacks the verdict or cost that another event of the slot had (R32); "
        "not digested. Send a correction whole, or a late score as `trial_scored`.",
    )
    failures_rerun: int = Field(
        default=0,
        ge=0,
        description="Slots whose result passes, and that were a plain failure in an earlier revision "
        "(inference 3); not digested.",
    )


class Group(Counted):
    """Numbers of every group of trials: an agent:model, a tier, an agent:model within a tier."""

    trials: int = Field(ge=0, description="Slots filled.")
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
    grade_basis: GradeBasis | None = optional(
        "What the grade rests on: the median composite where there is a judge, else the mean "
        "pass rate; null: no trials, or none with a verdict (R13, R31)."
    )
    grade_score: float | None = optional(
        "The number that gives the grade; null while no judge has scored (R13).", ge=0, le=1
    )
    grade_provisional: bool = optional(
        "True while trials of a judged group wait for their judge (R13).", False
    )
    uncertainty: Uncertainty | None = optional(
        "What may be concluded (docs/inference.md); null: a worker of before wrote it."
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
    pass_rate_variance: Number | None = Field(description="Variance of the tiers' median pass rates, >= 0.")
    impl_rate_variance: Number | None = Field(description="Variance of the tiers' median judge scores, >= 0.")
    cost_variance: Number | None = Field(
        description="Variance of the tiers' median costs, USD squared, >= 0."
    )
    cost_delta: Number | None = Field(description="Dearest minus cheapest median cost of a tier, USD, >= 0.")
    frontier_cost_of_pass: Number | None = Field(
        description="Lowest cost of pass among the tiers, USD, >= 0."
    )
    frontier_tier: str | None = Field(description="Tier with that cost of pass; null: no tier passes.")


class Parts(Message):
    """The parts of a run (R34)."""

    seen: int = Field(ge=1, description="Parts that an event named.")
    planned: int = Field(ge=1, description="Parts that there are; as many as were seen if nobody said.")


class Progress(Message):
    """Progress of the run."""

    done: int = Field(ge=0, description="Slots filled.")
    planned: int | None = Field(
        ge=0, description="Slots planned; null: nobody said, or the plan is not complete yet."
    )
    plan_complete: bool = optional(
        "False while the plan is still being read, or names only a part, and the run has not "
        "finished; `planned` is then null. True also if nobody said anything of a plan.",
        True,
    )
    parts: Parts | None = optional(
        "The parts of the run; left out where it has none.", exclude_if=lambda parts: parts is None
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
    provenance: dict[str, str] = optional(
        "What the results are made with, field by field, from the plan (R36).", {}
    )
    varies: list[str] = optional("Fields of `provenance` that the run tries out, from the plan (R36).", [])
    metrics: dict[str, MetricReading] = optional(
        "The named metrics that have a board, and how to read them (R30).", {}
    )
    primary_metric: str = optional(
        "What boards are ordered by: one of their metrics, or `metrics/NAME`.", PRIMARY_METRIC
    )
    ledger: LedgerEntry | None = optional("The ledger that the run belongs to, from the plan; null: none.")
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
SUMMARY: TypeAdapter[AnySummary] = TypeAdapter(
    Annotated[AnySummary, Field(discriminator="type")], config=ConfigDict(defer_build=True)
)
"""Validator of one message, built at its first use: no command needs it."""
SUMMARY_TYPES: tuple[type[Message], ...] = get_args(AnySummary)


# -----------------------------------------------------------------------------
# A trial in flight, as Redis holds it and readers get it.


class TrialInFlight(InSlot):
    """A trial with a start and no result (inference 3)."""

    started_at: Instant | None = Field(
        description="The earliest start reported, RFC 3339 in UTC; null: no time is known."
    )
    position: int | None = Field(
        ge=0, description="How many trials the run had started before; null: not counted."
    )


# -----------------------------------------------------------------------------
# The leader of a run, as lists of runs name it.


class Leader(Message):
    """The agent:model that leads a run by its primary metric; if several tie, the first by name."""

    agent_model: AgentModel
    value: Number = Field(description="Its value of the run's `primary_metric`.")


# -----------------------------------------------------------------------------
# The state of a run in one word, the same word on every surface.
#
# docs/viewer.md shows the table. The word follows from the run's summary and the time of asking. Times are
# event times, so a replay of an old run reads `stalled` until its plan is fulfilled.


State = Literal["complete", "finished", "running", "stalled", "unfinished"]

SILENT_AFTER = timedelta(minutes=10)

PLAN_INCOMPLETE = "plan not complete yet"
NO_PLAN = "no plan known"

UNNAMED = "finished"


def state_of(run: RunSummary | Mapping[str, Any], now: datetime | None) -> State:
    """The state of a run at a moment.

    | plan fulfilled | `run_finished` came | silent | plan known | state |
    |---|---|---|---|---|
    | yes | | | | complete |
    | no | yes | | | finished |
    | no | no | no | | running |
    | no | no | yes | yes | stalled |
    | no | no | yes | no | unfinished |

    Args:
        now: the time of asking; an event ahead of it counts as heard just now. None, as for a line of
          a file: the run is not silent.
    """
    summary = run if isinstance(run, RunSummary) else RunSummary.model_validate(run)
    if is_fulfilled(summary):
        return "complete"
    if summary.status is not None:
        return "finished"
    heard = summary.last_event_at
    if now is None or (heard is not None and now - heard <= SILENT_AFTER):
        return "running"
    return "stalled" if summary.progress.planned else "unfinished"


def plan_words(run: RunSummary | Mapping[str, Any]) -> str:
    """The reason why the number of planned trials is unknown; "" if it is known.

    >>> progress = {"done": 12, "planned": None, "plan_complete": False}
    >>> [plan_words({"progress": progress | more}) for more in ({}, {"plan_complete": True}, {"planned": 80})]
    ['plan not complete yet', 'no plan known', '']
    >>> plan_words({"progress": progress | {"parts": {"seen": 1, "planned": 2}}})
    '1 of 2 parts seen'
    """
    progress = Progress.model_validate(run["progress"]) if isinstance(run, Mapping) else run.progress
    if progress.planned is not None or progress.plan_complete:
        return NO_PLAN if progress.planned is None else ""
    if (parts := progress.parts) and parts.seen < parts.planned:
        return f"{parts.seen} of {parts.planned} parts seen"
    return PLAN_INCOMPLETE


def is_fulfilled(run: RunSummary) -> bool:
    """Whether every planned slot is filled. A plan without trials does not count."""
    return 0 < (run.progress.planned or 0) <= run.progress.done


def is_over(run: RunSummary) -> bool:
    return run.status is not None or is_fulfilled(run)


def with_state(run: RunSummary, now: datetime) -> dict[str, Any]:
    """The JSON of a run for readers: the published summary, and its `state` at this moment."""
    return run.model_dump(mode="json") | {"state": state_of(run, now)}


def state_and_status(state: str, status: str | None) -> str:
    """The state, followed by the harness's own word for the end in parentheses unless it is the same.

    >>> state_and_status("finished", "aborted"), state_and_status("complete", None)
    ('finished (aborted)', 'complete')
    >>> state_and_status("finished", "finished"), state_and_status("complete", "Completed")
    ('finished', 'complete')
    """
    same = status is None or status.lower() in (UNNAMED, state, f"{state}d")
    return state if same else f"{state} ({status})"
