"""What the summaries say may be concluded: bounds, intervals and errors (docs/inference.md)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from streamer.schemas.base import Message
from streamer.schemas.summary_fields import Grade

OrderKind = Literal["shuffled", "chosen", "unknown"]
FinalMissing = Literal[
    "no_plan",
    "plan_undeclared_tiers",
    "plan_exceeded",
    "order_chosen",
    "order_unknown_in_part",
    "attempts_together",
    "order_follows_difficulty",
    "order_follows_outcome",
    "nothing_yet",
    "empty",
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
    """What the run can still reach, with no assumption, unless results are corrected (inference 4)."""

    pass_rate: ShareRange = Field(description="The final pass rate lies here.")
    pass_at_k: dict[str, ShareRange] | None = Field(
        description="k, as text, to the range of the final pass@k; null where pass@k is, without planned "
        "tasks and attempts, and beyond 1,000 planned attempts at a task."
    )
    grade: GradeRange | None = Field(
        description="The final grade lies here, if `grade_basis` stays; null: there is no grade to come."
    )


class Decided(Message):
    """What can no longer change, unless results are corrected (inference 4)."""

    grade: bool = Field(description="True if both ends of the reachable grade are the same.")


class Final(Message):
    """The interval of the final pass rate: it may be looked at as often as one likes (inference 5)."""

    low: Share = Field(description="Lower end, 0 to 1.")
    high: Share = Field(description="Upper end, 0 to 1.")
    level: Level
    planned: int = Field(ge=1, description="Planned trials.")
    passes: int = Field(ge=0, description="Trials that passed for good.")
    unknown: int = Field(ge=0, description="Planned trials without a final value; counted both ways.")
    order_kind: OrderKind = Field(
        description="`shuffled`: declared. `unknown`: it holds if order and difficulty are unrelated."
    )
    method: Literal["finite-population"] = Field(description="How the interval was computed.")


class Ability(Message):
    """How good the agent is on tasks like these; the tasks are a sample (inference 6)."""

    standard_error: float = Field(ge=0, description="Of the pass rate, clustered by task.")
    low: Share = Field(description="Lower end, 0 to 1.")
    high: Share = Field(description="Upper end, 0 to 1.")
    level: Level
    method: Literal["wilson-clustered"] = Field(description="How the interval was computed.")
    tasks: int = Field(ge=2, description="Tasks with at least one trial.")


class Repeat(Message):
    """What several attempts at the same task say (inference 6); about tasks with at least two."""

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
    """What may be concluded from a group's results. Groups that mix agents have `ability` only."""

    reachable: Reachable | None = Field(description="Null without a plan, or beyond it.")
    decided: Decided | None = Field(description="Null where `reachable` is.")
    final: Final | None = Field(description="Null: `final_missing` says why.")
    final_missing: FinalMissing | None = Field(
        description="Why there is no `final`; null where there is one, or where agents are mixed."
    )
    ability: Ability | None = Field(description="Null with fewer than two tasks.")
    repeat: Repeat | None = Field(description="Null where no task has two attempts, or agents are mixed.")
