"""Builders of events for the tests of scoring."""

from __future__ import annotations

import json
from typing import Any

from schemas.events import EVENT, TrialResult


def a_trial(**fields: Any) -> TrialResult:
    """A trial result of run r, task t; read from JSON, like one from the topic."""
    content = {"type": "trial_result", "run_id": "r", "task_id": "t", **fields}
    event = EVENT.validate_json(json.dumps(content))
    assert isinstance(event, TrialResult)
    return event


def counts(failed: int | None = None, error: int | None = None, status: str = "ok") -> dict[str, Any]:
    """A tests section."""
    return {"status": status, "failed": failed, "error": error}


def is_baseline(agent: str) -> bool:
    """The default baselines (R10)."""
    return agent in ("nop", "oracle")
