"""The row of each scored trial in a list. Pure."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from streamer.views.models import TrialOutcome, TrialRow


def row_of(trial_id: str, trial: Mapping[str, Any]) -> TrialRow:
    """The row of a scored trial (as parsed from JSON) in a list."""
    formulacode = trial["formulacode"] or {}
    return TrialRow(
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
        metrics=trial.get("metrics") or {},
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
