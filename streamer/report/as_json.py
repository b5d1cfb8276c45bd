"""A run as one JSON document, of the same objects as in the topics, in Redis and from `query`."""

from __future__ import annotations

from typing import Any

from streamer.report.data import RunData
from streamer.schemas.canonical import canonical_json


def _comparison(data: RunData) -> dict[str, Any] | None:
    if data.compared is None or data.compared.comparison is None:
        return None
    return data.compared.comparison.model_dump(mode="json")


def as_json(data: RunData) -> bytes:
    """The whole run as one canonical JSON object and a line end.

    Its fields: `run` (run_summary), `state` (of the run, when it was read), `agents`
    (agent_model_summary), `tiers` (tier_summary), `trials` (scored_trial; null: not asked for), `history`
    (as `/api/runs/{run}/history`), `by_label` (as `streamer query run --by label:KEY --json`).
    And `comparison`: a run_comparison, or null with fewer than two agents.
    """
    document = {
        "run": data.run,
        "state": data.state,
        "agents": data.agents,
        "tiers": data.tiers,
        "trials": data.trials,
        "history": data.history,
        "by_label": data.by_label,
        "comparison": _comparison(data),
    }
    return canonical_json(document) + b"\n"
