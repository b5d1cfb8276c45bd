"""The data of several surfaces besides the summaries: trials in a list, points of a chart, comparisons.

The API of the page answers with these models.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from streamer.client.lifecycle import State, state_of
from streamer.schemas.base import Instant, Message, Number
from streamer.schemas.formulacode import FormulaCodePayload, FormulaCodeSummary
from streamer.schemas.scored_trial import ScoredTrial
from streamer.schemas.summaries import AgentModelSummary, RunSummary
from streamer.schemas.summary_fields import Grade

Label = Annotated[str, Field(description="Label `agent:model`.")]
TrialOutcome = Literal["passed", "failed", "fell_back", "no_verdict"]


def described(model: type[BaseModel], name: str) -> Any:
    """A field with the description that it has in another model."""
    return Field(description=model.model_fields[name].description)


class RunNow(RunSummary):
    """One run as published, and its state when it was asked for."""

    state: State = Field(
        description="As of the moment of asking: complete (all planned trials are in), finished (the harness "
        "ended it short of its plan or without one), running, or without an event for 10 minutes stalled "
        "(a plan is open) or unfinished (there is no complete plan)."
    )

    @classmethod
    def of(cls, run: RunSummary, now: datetime) -> RunNow:
        """The run as it stands at a moment."""
        return cls.model_construct(**dict(run), state=state_of(run, now))


class AgentNow(AgentModelSummary):
    """One agent:model as published, and its place among the others."""

    place: str | None = Field(description="The places that it may truly have: `1`, `1-3`; null: not ranked.")

    @classmethod
    def of(cls, agent: AgentModelSummary, place: str | None) -> AgentNow:
        """The agent with its place."""
        return cls.model_construct(**dict(agent), place=place)


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
    trials: int | None = described(AgentModelSummary, "trials")
    accuracy: Number | None = described(AgentModelSummary, "accuracy")
    pass_rate: Number | None = Field(description="Mean pass rate.")
    composite_score: Number | None = Field(description="Median composite score; null without a judge.")
    grade: Grade | None = described(AgentModelSummary, "grade")
    total_cost: Number | None = described(AgentModelSummary, "total_cost")
    cost_of_pass: Number | None = described(AgentModelSummary, "cost_of_pass")
    mean_speedup: Number | None = described(FormulaCodeSummary, "mean_speedup")
    agent_advantage: Number | None = described(FormulaCodeSummary, "agent_advantage")
    metrics: dict[str, Number | None] = Field(
        default={},
        description="Named metric that the plan names to its mean (R30); unknown ones are left out.",
    )
    provisional: bool | None = Field(description="Planned trials are missing.")
    done: int | None = Field(description="Run only: slots filled.")
    planned: int | None = Field(description="Run only: slots planned.")


class TrialRow(Message):
    """One scored trial in a list; the whole of it is at `/api/runs/{run}/trials/{trial}`."""

    id: str = Field(description="Names the slot within the run, 24 hexadecimal digits.")
    shard: str = described(ScoredTrial, "shard")
    task_id: str = described(ScoredTrial, "task_id")
    attempt: int = Field(ge=1, description="n-th repeat of the task.")
    agent_model: Label
    tier: str | None = described(ScoredTrial, "tier")
    subtest: str | None = described(ScoredTrial, "subtest")
    resolved: bool | None = described(ScoredTrial, "resolved")
    success: bool = described(ScoredTrial, "success")
    outcome: TrialOutcome = Field(description="In one word; `fell_back` before `failed` (C1).")
    failure_mode: str | None = described(ScoredTrial, "failure_mode")
    composite_score: float | None = described(ScoredTrial, "composite_score")
    grade: Grade | None = described(ScoredTrial, "grade")
    cost_usd: float | None = described(ScoredTrial, "cost_usd")
    duration_seconds: float | None = described(ScoredTrial, "duration_seconds")
    task_speedup: float | None = described(FormulaCodePayload, "task_speedup")
    agent_advantage: float | None = described(FormulaCodePayload, "agent_advantage")
    metrics: dict[str, float] = Field(default={}, description="Named metric to its value (R30).")

    @classmethod
    def of(cls, trial_id: str, trial: Mapping[str, Any]) -> TrialRow:
        """The row of a scored trial (as parsed from JSON)."""
        formulacode = trial["formulacode"] or {}
        return cls(
            id=trial_id,
            shard=trial["shard"],
            task_id=sys.intern(trial["task_id"]),
            attempt=trial["attempt"],
            agent_model=sys.intern(trial["agent_model"]),
            tier=_interned(trial["tier"]),
            subtest=_interned(trial["subtest"]),
            resolved=trial["resolved"],
            success=trial["success"],
            outcome=outcome_of(trial),
            failure_mode=_interned(trial["failure_mode"]),
            composite_score=trial["composite_score"],
            grade=trial["grade"],
            cost_usd=trial["cost_usd"],
            duration_seconds=trial["duration_seconds"],
            task_speedup=formulacode.get("task_speedup"),
            agent_advantage=formulacode.get("agent_advantage"),
            metrics={sys.intern(name): value for name, value in (trial.get("metrics") or {}).items()},
        )


def outcome_of(trial: Mapping[str, Any]) -> TrialOutcome:
    """A trial that fell back to the baseline did not pass, whatever its numbers say (C1)."""
    if (trial["formulacode"] or {}).get("fallback_to_baseline"):
        return "fell_back"
    if trial["success"]:
        return "passed"
    return "no_verdict" if trial["resolved"] is None and trial["formulacode"] is None else "failed"


def _interned(text: str | None) -> str | None:
    return None if text is None else sys.intern(text)


class SideMeans(Message):
    """What a side of a comparison is measured by, as means; null: unknown, or no trial has it."""

    composite_score: float | None = Field(description="Mean composite score, 0 to 1.")
    cost_usd: float | None = Field(description="Mean known cost of a trial in USD.")
    duration_seconds: float | None = Field(description="Mean known duration of a trial in seconds.")
    task_speedup: float | None = Field(description="FormulaCode: mean known speedup, ratio.")
    agent_advantage: float | None = Field(description="FormulaCode: mean known advantage.")
    metrics: dict[str, float | None] = Field(
        default={}, description="Named metric to its mean over the trials that have it (R30)."
    )


class Side(SideMeans):
    """One side of a comparison on one task: means over its attempts."""

    trials: int = Field(ge=1, description="Trials of this task.")
    pass_rate: float = Field(ge=0, le=1, description="Share of successes.")


class TaskPair(Message):
    """A task that both sides have done."""

    task_id: str = Field(description="The problem.")
    tier: str | None = Field(description="Tiers are compared like with like.")
    a: Side = Field(description="First side.")
    b: Side = Field(description="Second side.")


class SideTotals(SideMeans):
    """One side over the tasks that both have done; each task counts once, whatever its attempts.

    Each mean is over the tasks where both sides know the value.
    """

    run: str = Field(description="Run id.")
    agent_model: Label | None = Field(description="Null: all agents of the run but baselines.")
    trials: int = Field(ge=0, description="Trials of the tasks that both have done.")
    only_here: int = Field(ge=0, description="Tasks that the other side has not done.")
    pass_rate: float | None = Field(description="Mean over tasks; null: no task in common.")


class Ends(Message):
    """Both ends of an interval, in the unit of what it is about."""

    low: float = Field(description="Lower end.")
    high: float = Field(description="Upper end.")


class Difference(Message):
    """How the second side differs from the first in one metric, over the tasks where both know it."""

    tasks: int = Field(ge=0, description="Tasks where both know it.")
    mean: float | None = Field(description="Mean of second minus first, in the unit of the metric.")
    interval: Ends | None = Field(
        description="Of the mean on tasks like these, 95 %, clustered by task. Null before the end, and with "
        "fewer than two tasks (inference 7)."
    )
    higher_is_better: bool = Field(description="Direction of the metric.")
    unit: str | None = Field(default=None, description="Named metric: its unit; null: not said.")
    label: str | None = Field(default=None, description="Named metric: heading for people; null: the name.")
    a_better: int = Field(ge=0, description="Tasks where the first side is better.")
    b_better: int = Field(ge=0, description="Tasks where the second side is better.")
    equal: int = Field(ge=0, description="Tasks where they are equal.")
    p_value: float | None = Field(
        ge=0,
        le=1,
        description="Two-sided exact sign test over the tasks that differ, of those with equal attempts; of "
        "pass rates with one trial per task and side: McNemar's exact test. 1: nothing differs. Null: tasks "
        "differ, and none of them has equal attempts. It holds at the end only, asked once.",
    )


class FlipGroup(Message):
    """Tasks that one side passes and the other does not, alike in tier and in how the other side failed."""

    passed_by: Literal["a", "b"] = Field(description="The side that passes them.")
    tier: str | None = Field(description="Null: tasks without a tier.")
    failure_mode: str | None = Field(
        description="Most frequent failure mode of the side that does not pass; null: none was named."
    )
    count: int = Field(ge=1, description="How many tasks.")
    tasks: list[str] = Field(description="The first of them, by name; at most `limit`.")


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
        "cost_usd, duration_seconds, and `metrics/NAME` of named metrics (R30)."
    )
    ended: bool = Field(
        default=False, description="No trial of either side is missing: intervals and p values hold."
    )
    flips: list[FlipGroup] = Field(
        default=[], description="The tasks that one side alone passes, in groups, the largest first."
    )
    pairs: list[TaskPair] = Field(description="The tasks, greatest difference of pass rates first; a page.")
    only_a_tasks: list[str] = Field(
        default=[], description="The tasks that the first side alone passes, by name; a page."
    )
    only_b_tasks: list[str] = Field(
        default=[], description="The tasks that the second side alone passes, by name; a page."
    )
    not_in_a: list[str] = Field(default=[], description="Tasks that only the second side has done; a page.")
    not_in_b: list[str] = Field(default=[], description="Tasks that only the first side has done; a page.")
    in_common: str = Field(default="", description="The counts of the common tasks as a sentence.")
    words: list[str] = Field(
        default=[],
        description="What may be said of two agents, one sentence each (inference 8). Names are not escaped.",
    )
