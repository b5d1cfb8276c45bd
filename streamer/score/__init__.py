"""One trial group to scored trials. Pure: no clock, no environment, no event loop."""

from streamer.model_names import model_for_pricing, model_for_reporting, model_of_agent
from streamer.score.formulacode.payload import task_payload
from streamer.score.formulacode.score import FormulaCodeScore, missing_score
from streamer.score.infrastructure import INFRASTRUCTURE_FAILURES
from streamer.score.prices import Price, PriceTable, PriceTableError
from streamer.score.scoring_rules import (
    NOP,
    ORACLE,
    GradingProfile,
    ScoringRules,
    UnknownProfile,
    grading_profile,
    made_with,
)
from streamer.score.trial import (
    Scored,
    cost_of_pass,
    deciding_sub_trial,
    fields_of,
    score_trial,
    score_trial_group,
)

__all__ = [
    "INFRASTRUCTURE_FAILURES",
    "NOP",
    "ORACLE",
    "FormulaCodeScore",
    "GradingProfile",
    "Price",
    "PriceTable",
    "PriceTableError",
    "Scored",
    "ScoringRules",
    "UnknownProfile",
    "cost_of_pass",
    "deciding_sub_trial",
    "fields_of",
    "grading_profile",
    "made_with",
    "missing_score",
    "model_for_pricing",
    "model_for_reporting",
    "model_of_agent",
    "score_trial",
    "score_trial_group",
    "task_payload",
]
