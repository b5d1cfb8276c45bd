"""One slot's result with the specification's numbers, as published."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from streamer.schemas.base import Number
from streamer.schemas.details import Metrics
from streamer.schemas.events import Measurements
from streamer.schemas.formulacode import FormulaCodePayload
from streamer.schemas.summary_fields import (
    AgentModel,
    CostSource,
    Digest,
    Grade,
    InSlot,
    InStream,
    VerdictSource,
    kind,
)


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
    metrics: Metrics | None = Field(
        default=None, description="Metrics by name, as reported (R30); null: none."
    )


class ScoredTrial(TrialScore, InSlot, InStream):
    """The specification's per-run numbers of one slot's winner."""

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
