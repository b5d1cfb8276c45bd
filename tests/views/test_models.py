"""The row of a scored trial: its outcome in one word."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamer.views.models import TrialRow, outcome_of
from tests.support.events import a_trial, folded


@pytest.mark.parametrize(
    ("trial", "outcome"),
    [
        ({"success": True, "resolved": True, "formulacode": None}, "passed"),
        ({"success": False, "resolved": False, "formulacode": None}, "failed"),
        ({"success": False, "resolved": None, "formulacode": None}, "no_verdict"),
        ({"success": False, "resolved": None, "formulacode": {"task_speedup": 1.0}}, "failed"),
        ({"success": True, "resolved": True, "formulacode": {"fallback_to_baseline": True}}, "fell_back"),
    ],
)
def test_each_outcome_follows_from_verdict_success_and_fallback(trial: dict[str, Any], outcome: str) -> None:
    assert outcome_of(trial) == outcome


def test_a_row_has_what_the_scored_trial_says() -> None:
    [change] = (
        folded([a_trial(tier="T0", cost_usd=0.5, metrics={"reward": 0.5})])[0].run("run-1").take_scored()
    )
    row = TrialRow.of("0" * 24, json.loads(change.value or b""))
    assert (row.task_id, row.agent_model, row.tier, row.cost_usd) == ("task-1", "terminus:gpt-5", "T0", 0.5)
    assert (row.outcome, row.task_speedup, row.metrics) == ("passed", None, {"reward": 0.5})
