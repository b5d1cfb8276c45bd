"""The common parts of summaries and news: their fields, described once, and the shapes inside them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from streamer.schemas.base import Instant, Message, Number, Total
from streamer.schemas.details import Direction
from streamer.schemas.metrics import PRIMARY_METRIC

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
InFlight = Annotated[
    int,
    Field(
        default=0,
        ge=0,
        description="Trials that have started and have no result, until the run has finished (inference 3).",
    ),
]
Superseded = Annotated[int, Field(ge=0, description="Results that lost their slot (R17); not digested.")]
Conflicts = Annotated[
    int, Field(ge=0, description="Slots decided by the fingerprint alone (R17); not digested.")
]


def kind(what: str) -> Any:
    """The field `type` of a message."""
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
    standard_error: Number | None = Field(
        default=None,
        description="Of the mean, clustered by task, in the metric's unit; of metrics with a board, for an "
        "agent:model over the run. Null: fewer than two tasks (inference 6).",
    )
    low: Number | None = Field(default=None, description="Lower end of the mean's interval, 95 %.")
    high: Number | None = Field(default=None, description="Upper end of the mean's interval, 95 %.")


class MetricReading(Message):
    """How to read a named metric, as the plan says (R30)."""

    direction: Direction = Field(description="Which way is better.")
    unit: str | None = Field(description="Unit of the number; null: not said.")
    label: str | None = Field(description="Heading for people; null: the name.")


class NamedStatistics(Statistics, MetricReading):
    """Statistics of a metric that harnesses name themselves, over the trials that have it (R30)."""

    planned: bool = Field(description="The plan names it, so it has a board.")


NamedMetrics = Annotated[
    dict[str, NamedStatistics],
    Field(
        default={},
        description="Named metric to its statistics (R30): the planned ones, then those of the most trials, "
        "100 in all. `count` says how many trials have it.",
    ),
]
PlannedMetrics = Annotated[
    dict[str, MetricReading],
    Field(default={}, description="The named metrics that have a board, and how to read them (R30)."),
]
PrimaryMetric = Annotated[
    str,
    Field(
        default=PRIMARY_METRIC,
        description="What boards are ordered by: one of their metrics, or `metrics/NAME`.",
    ),
]


class PassAtK(Message):
    """Probability that at least one of k attempts passes (R11)."""

    value: float | None = Field(ge=0, le=1, description="Mean over the tasks covered.")
    tasks_covered: int = Field(ge=0, description="Tasks with at least k attempts.")
    partial: bool = Field(description="True until all planned tasks cover this k.")


PassAtKs = Annotated[
    dict[str, PassAtK] | None,
    Field(
        description="k, from 1, as text, to pass@k; baselines left out of the run's (R4). Null where trials "
        "of several agent:models or tiers are mixed (R11)."
    ),
]


class Tokens(Message):
    """Token totals over the trials that report them; null: no trial does."""

    input: Total | None = Field(ge=0, description="Fresh input tokens.")
    output: Total | None = Field(ge=0, description="Output tokens.")
    cache_read: Total | None = Field(ge=0, description="Input tokens read from a cache.")
    cache_write: Total | None = Field(ge=0, description="Input tokens written to a cache.")


class InSlot(Message):
    """The slot that a trial fills, as it is published (R17)."""

    shard: str = Field(description='Original run inside a pooled one; "" otherwise.')
    task_id: str = Field(description="The problem.")
    attempt: int = Field(ge=1, description="n-th repeat of the task, from 1.")
    agent: Agent
    model: Model
    tier: str | None = Field(description="Prompt tier; null where there is none.")
    subtest: str | None = Field(description="Variant inside the tier; null where there is none.")


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
