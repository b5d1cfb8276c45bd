"""One trial group to scored trials. Pure: no clock, no environment, no event loop."""

from streamer.score.columns import float_column, score_columns
from streamer.score.cross_tier import cost_delta, cost_of_pass, tier_delta, tier_uplift, variance_of_medians
from streamer.score.formulacode.payload import task_payload
from streamer.score.formulacode.score import ADVANTAGES, FormulaCodeScore
from streamer.score.made_with import made_with
from streamer.score.model_names import model_for_pricing, model_for_reporting
from streamer.score.prices import Price, PriceTable, PriceTableError
from streamer.score.profiles import GradingProfile, UnknownProfile, grading_profile
from streamer.score.trial import (
    Measured,
    Scored,
    deciding_sub_trial,
    group_resolved,
    measured,
    score_measured,
    score_trial,
    score_trial_group,
)

__all__ = [
    "ADVANTAGES",
    "FormulaCodeScore",
    "GradingProfile",
    "Measured",
    "Price",
    "PriceTable",
    "PriceTableError",
    "Scored",
    "UnknownProfile",
    "cost_delta",
    "cost_of_pass",
    "deciding_sub_trial",
    "float_column",
    "grading_profile",
    "group_resolved",
    "made_with",
    "measured",
    "model_for_pricing",
    "model_for_reporting",
    "score_columns",
    "score_measured",
    "score_trial",
    "score_trial_group",
    "task_payload",
    "tier_delta",
    "tier_uplift",
    "variance_of_medians",
]
