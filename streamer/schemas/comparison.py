"""The comparison of a run's agents, as it is published: counts of every two, and the rank of each."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from streamer.schemas.base import Message
from streamer.schemas.summary_fields import Agent, AgentModel, Model, Published, kind
from streamer.schemas.uncertainty import FinalMissing, Level, OrderKind

ComparisonMissing = Literal["no_plan", "plan_exceeded", "too_many_agents", "too_many_trials"]
Place = Annotated[int, Field(ge=1, description="A place, from 1, the first.")]


class Rank(Message):
    """The places that an agent may truly have: all agents' ranges hold at once, with 95 % (inference 7)."""

    best: Place
    worst: Place


class ComparedAgent(Message):
    """One of the compared agents."""

    agent_model: AgentModel
    agent: Agent
    model: Model
    rank: Rank | None = Field(description="Where it may truly stand; null: see `rank_missing`.")


class FinalDifference(Message):
    """Passes of `a` minus passes of `b` in the end, with 95 %, however often you look (inference 7)."""

    low: int = Field(description="The lowest, in pairs; divide by `pairs` for a difference of pass rates.")
    high: int = Field(description="The highest, in pairs.")


class ComparedPair(Message):
    """Two agents, pair by pair: the same attempt at the same task on both sides."""

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


class RunComparison(Published):
    """The agents of a run compared with each other, baselines left out (inference 7)."""

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


PairTrials = Annotated[int, Field(ge=0)]
TaskOutcomes = dict[str, tuple[PairTrials, PairTrials, PairTrials]]
"""The trials at one task: agent:model to how many are known, how many passed, how many are unknown."""

TASK_OUTCOMES: TypeAdapter[TaskOutcomes] = TypeAdapter(TaskOutcomes)
