"""The verdict of a gate as `streamer gate` writes it: for CI, for a harness, for a comment."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from streamer.inference.comparisons import GateVerdict
from streamer.schemas.base import Message

Question = Literal["final", "ability"]
Basis = Literal["exact", "covered", "interval", "bounds", "nothing"]


class GateSide(Message):
    """One side: an agent of a run, as it stands."""

    source: str = Field(description="As it was given: a run, RUN/AGENT:MODEL, or a file.")
    run_id: str | None = Field(description="Its run; null: it has not begun.")
    agent_model: str | None = Field(description="Its agent:model; null: the run names none yet.")
    planned: int | None = Field(ge=0, description="Planned trials; null: not planned.")
    known: int = Field(ge=0, description="Trials with a final value.")
    passed: int = Field(ge=0, description="Known trials that passed.")
    over: bool = Field(description="True if nothing more is awaited.")


class GateEnds(Message):
    """A difference, candidate minus baseline, in the metric's unit: of pass rates -1 to 1."""

    low: float = Field(description="Lower end.")
    high: float = Field(description="Upper end.")


class FinalAnswer(Message):
    """Whether this run ends at most `max_drop` worse."""

    verdict: GateVerdict = Field(description="pass, fail or undecided.")
    basis: Basis = Field(
        description="What it rests on. `exact`: everything is in. `covered`: all trials are in, some lack "
        "the metric, see `missing`. `interval`: holds however often you look. `bounds`: what is still "
        "possible, with no assumption. `nothing`: see `missing`."
    )
    ends: GateEnds | None = Field(description="The final difference lies here; null: nothing is known.")
    unrelated: GateEnds | None = Field(
        description="Interval if order and difficulty are unrelated, which nobody declared; decides nothing."
    )
    missing: str | None = Field(
        description="Why there is no interval, or which part is covered; null: there is one, or no need."
    )


class AbilityAnswer(Message):
    """Whether the agent is at most `max_drop` worse on tasks like these."""

    verdict: GateVerdict = Field(description="pass, fail or undecided.")
    worse: float | None = Field(
        ge=0,
        description="e-value that the candidate is worse; null: of a mean or unequal attempts, or too early.",
    )
    needed: float = Field(gt=0, description="An e-value from here on fails the gate, whenever you look.")
    interval: GateEnds | None = Field(
        description="Clustered interval of the difference; null before the end, or of fewer than two tasks."
    )


class TargetAnswer(Message):
    """Whether the final pass rate reaches the target."""

    verdict: GateVerdict = Field(description="pass, fail or undecided.")
    target: float = Field(ge=0, le=1, description="The wanted pass rate.")
    low: float | None = Field(ge=0, le=1, description="The lowest that is still possible; null: no plan.")
    high: float | None = Field(ge=0, le=1, description="The highest that is still possible; null: no plan.")


class GateSaved(Message):
    """An estimate of what stopping the candidate now saves."""

    trials: int = Field(ge=0, description="Planned trials without a final value; some may be running.")
    cost_usd: float | None = Field(
        ge=0, description="Their cost, USD, if each costs the mean so far; null: no cost is known."
    )


class GatePairs(Message):
    """The common trials and tasks."""

    planned: int = Field(ge=0, description="Pairs; 0: nothing matches before the end.")
    wins: int = Field(ge=0, description="Pairs that only the candidate passed.")
    ties: int = Field(ge=0, description="Pairs that both passed, or neither.")
    losses: int = Field(ge=0, description="Pairs that only the baseline passed.")
    unknown: int = Field(ge=0, description="Pairs without a final value on one side or both.")
    tasks: int = Field(ge=0, description="Common tasks, with planned ones that have no name.")
    only_candidate: list[str] = Field(description="Tasks that the baseline does not have, if that is known.")
    only_baseline: list[str] = Field(description="Tasks that the candidate does not have, if that is known.")


class GateResult(Message):
    """What a gate says. `words` say it in sentences, whose names are not escaped."""

    type: Literal["gate_verdict"] = Field(default="gate_verdict", description="Always this.")
    verdict: GateVerdict = Field(description="Of the chosen question, and of the target if there is one.")
    question: Question = Field(description="Which answer decides: `final` or `ability`.")
    metric: str = Field(description="What is compared: pass_rate, another mean, or metrics/NAME.")
    higher_is_better: bool = Field(description="Direction of the metric.")
    max_drop: float = Field(ge=0, description="How much worse is allowed, in the metric's unit.")
    level: float = Field(gt=0, lt=1, description="Confidence of intervals; an e-value needs 1/(1 - level).")
    candidate: GateSide
    baseline: GateSide | None = Field(description="Null: only the target is judged.")
    pairs: GatePairs | None = Field(description="Null: there is no baseline, or a side has not begun.")
    final: FinalAnswer | None = Field(description="Null: there is no baseline, or a side has not begun.")
    ability: AbilityAnswer | None = Field(description="Null: there is no baseline, or a side has not begun.")
    target: TargetAnswer | None = Field(description="Null: no target was given, or nothing has begun.")
    over: bool = Field(description="True if nothing more is awaited on either side.")
    saved: GateSaved | None = Field(description="Null: nothing is saved, or nothing is decided.")
    words: list[str] = Field(description="What is known, one sentence each.")
