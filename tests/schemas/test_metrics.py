"""Every board metric is a number of an agent:model summary."""

from __future__ import annotations

from streamer.schemas.events import BOARD_METRICS, board_values
from tests.support.builders import METRICS, a_formulacode_summary, an_agent_model_change


def test_every_metric_is_found_in_a_summary_that_knows_everything() -> None:
    summary = an_agent_model_change(
        means=dict.fromkeys(METRICS, 0.5),
        formulacode=a_formulacode_summary(mean_speedup=0.5, agent_advantage=0.5),
        **dict.fromkeys(("accuracy", "cost_of_pass", "mean_cost", "total_cost"), 0.5),
    ).summary
    assert summary
    assert board_values(summary) == dict.fromkeys(BOARD_METRICS, 0.5)


def test_a_baseline_and_what_is_unknown_have_no_value() -> None:
    nothing = an_agent_model_change(accuracy=None).summary
    baseline = an_agent_model_change(agent="nop", accuracy=1.0).summary
    assert nothing
    assert baseline
    assert board_values(nothing) == board_values(baseline) == dict.fromkeys(BOARD_METRICS)
