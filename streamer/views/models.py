"""The data of several surfaces besides the summaries: trials in a list, points of a chart, comparisons.

The API of the page answers with these models.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from streamer.client.lifecycle import State, state_of
from streamer.schemas.base import Instant, Message, Number
from streamer.schemas.summaries import RunSummary
from streamer.schemas.summary_fields import Grade

Label = Annotated[str, Field(description="Label `agent:model`.")]
TrialOutcome = Literal["passed", "failed", "fell_back", "no_verdict"]


class RunNow(RunSummary):
    """One run as published, and its state when it was asked for."""

    state: State = Field(
        description="As of the moment of asking: complete (all planned trials are in), finished (the harness "
        "ended it short of its plan or without one), running, or without an event for 10 minutes stalled "
        "(a plan is open) or unfinished (there is no plan)."
    )

    @classmethod
    def of(cls, run: RunSummary, now: datetime) -> RunNow:
        """The run as it stands at a moment."""
        return cls.model_construct(**dict(run), state=state_of(run, now))


class HistoryPoint(Message):
    """One emission: the headline numbers of a group at an event time. Unknown values are null."""

    id: str = Field(description="Entry of the stream; grows.")
    kind: Literal["run", "agent_model", "tier"] = Field(description="What the group is.")
    agent_model: Label | None = Field(description="Null for the run, and for a tier pooled over agents.")
    tier: str | None = Field(description="Null for the run and for an agent:model over the run.")
    epoch: int = Field(description="Rebuild that it belongs to.")
    state_version: int = Field(description="Offset of the last event folded into the run.")
    last_event_at: Instant | None = Field(description="Event time.")
    deleted: bool = Field(description="The group emptied.")
    trials: int | None = Field(description="Slots filled.")
    accuracy: Number | None = Field(description="resolved / trials.")
    pass_rate: Number | None = Field(description="Mean pass rate.")
    composite_score: Number | None = Field(description="Median composite score; null without a judge.")
    grade: Grade | None = Field(description="Grade.")
    total_cost: Number | None = Field(description="Sum of the known costs in USD.")
    cost_of_pass: Number | None = Field(description="Known cost over passes in USD.")
    mean_speedup: Number | None = Field(description="FormulaCode: mean task speedup, ratio.")
    agent_advantage: Number | None = Field(description="FormulaCode: mean advantage, level 4.")
    provisional: bool | None = Field(description="Planned trials are missing.")
    done: int | None = Field(description="Run only: slots filled.")
    planned: int | None = Field(description="Run only: slots planned.")


class TrialRow(Message):
    """One scored trial in a list; the whole of it is at `/api/runs/{run}/trials/{trial}`."""

    id: str = Field(description="Names the slot within the run, 24 hexadecimal digits.")
    shard: str = Field(description='Original run inside a pooled one; "" otherwise.')
    task_id: str = Field(description="The problem.")
    attempt: int = Field(ge=1, description="n-th repeat of the task.")
    agent_model: Label
    tier: str | None = Field(description="Prompt tier.")
    subtest: str | None = Field(description="Variant inside the tier.")
    resolved: bool | None = Field(description="The harness's verdict; null: none.")
    success: bool = Field(description="From tests and snapshot where present, else the verdict (R20).")
    outcome: TrialOutcome = Field(description="In one word; `fell_back` before `failed` (C1).")
    failure_mode: str | None = Field(description="Why it ended early, as the harness says.")
    composite_score: float | None = Field(description="0 to 1; null without a judge (R13).")
    grade: Grade | None = Field(description="From the composite score; null without one.")
    cost_usd: float | None = Field(description="In US dollars.")
    duration_seconds: float | None = Field(description="Wall time in seconds.")
    task_speedup: float | None = Field(description="FormulaCode: geometric mean speedup.")
    agent_advantage: float | None = Field(description="FormulaCode: advantage over the human solution.")


class Side(Message):
    """One side of a comparison on one task: means over its attempts."""

    trials: int = Field(ge=1, description="Trials of this task.")
    pass_rate: float = Field(ge=0, le=1, description="Share of successes.")
    composite_score: float | None = Field(description="Mean over the trials that have one.")
    cost_usd: float | None = Field(description="Mean known cost in USD.")
    duration_seconds: float | None = Field(description="Mean known duration in seconds.")
    task_speedup: float | None = Field(description="FormulaCode: mean known speedup, ratio.")
    agent_advantage: float | None = Field(description="FormulaCode: mean known advantage.")


class TaskPair(Message):
    """A task that both sides have done."""

    task_id: str = Field(description="The problem.")
    tier: str | None = Field(description="Tiers are compared like with like.")
    a: Side = Field(description="First side.")
    b: Side = Field(description="Second side.")


class SideTotals(Message):
    """One side over the tasks that both have done; each task counts once, whatever its attempts."""

    run: str = Field(description="Run id.")
    agent_model: Label | None = Field(description="Null: all agents of the run but baselines.")
    trials: int = Field(ge=0, description="Trials of the tasks that both have done.")
    only_here: int = Field(ge=0, description="Tasks that the other side has not done.")
    pass_rate: float | None = Field(description="Mean over tasks; null: no task in common.")
    composite_score: float | None = Field(description="Mean over the tasks where both have one.")
    cost_usd: float | None = Field(description="Mean over the tasks where both have a known cost, USD.")
    duration_seconds: float | None = Field(description="Mean over the tasks where both have one, seconds.")
    task_speedup: float | None = Field(description="Mean over the tasks where both have one, ratio.")
    agent_advantage: float | None = Field(description="Mean over the tasks where both have one.")


class Difference(Message):
    """How the second side differs from the first in one metric, over the tasks where both know it."""

    tasks: int = Field(ge=0, description="Tasks where both know it.")
    mean: float | None = Field(description="Mean of second minus first, in the unit of the metric.")
    higher_is_better: bool = Field(description="Direction of the metric.")
    a_better: int = Field(ge=0, description="Tasks where the first side is better.")
    b_better: int = Field(ge=0, description="Tasks where the second side is better.")
    equal: int = Field(ge=0, description="Tasks where they are equal.")
    p_value: float = Field(
        ge=0,
        le=1,
        description="Two-sided exact sign test over the tasks that differ; of pass rates with one trial per "
        "task and side: McNemar's exact test. 1: nothing differs.",
    )


class Comparison(Message):
    """Two runs, or two agents, on the tasks that both have done."""

    a: SideTotals = Field(description="First side.")
    b: SideTotals = Field(description="Second side.")
    tasks: int = Field(ge=0, description="Tasks that both have done (task and tier).")
    a_better: int = Field(ge=0, description="Tasks with a higher pass rate of the first side.")
    b_better: int = Field(ge=0, description="Tasks with a higher pass rate of the second side.")
    equal: int = Field(ge=0, description="Tasks with equal pass rates.")
    both_passed: int = Field(
        ge=0, description="Tasks that both pass: successes in more than half of a side's trials."
    )
    only_a: int = Field(ge=0, description="Tasks that the first side alone passes.")
    only_b: int = Field(ge=0, description="Tasks that the second side alone passes.")
    neither: int = Field(ge=0, description="Tasks that neither side passes.")
    differences: dict[str, Difference] = Field(
        description="Metric to its difference: pass_rate, composite_score, task_speedup, agent_advantage, "
        "cost_usd, duration_seconds."
    )
    pairs: list[TaskPair] = Field(description="The tasks, greatest difference of pass rates first; a page.")
