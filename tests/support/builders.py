"""Small builders of summaries as the core cuts them: valid, canonical, with the numbers a test names."""

from __future__ import annotations

from typing import Any, TypeVar

from streamer.folding.slots import RunUpdate, SummaryChange
from streamer.folding.summaries import MARKS
from streamer.schemas.base import (
    RUN,
    SEMANTICS_VERSION,
    GroupId,
    SummaryKind,
    agent_model_label,
    canonical_json,
    digest_of,
)
from streamer.schemas.events import FormulaCodeCoverage, FormulaCodeSummary
from streamer.schemas.summaries import SUMMARY, AgentModelSummary, Published, RunSummary, TierSummary
from streamer.views.models import TrialRow
from streamer.views.tables import Table

METRICS = (
    "pass_rate",
    "impl_rate",
    "composite_score",
    "cost_usd",
    "cost_of_pass",
    "duration_seconds",
    "input_tokens",
    "output_tokens",
)
LAST_EVENT_AT = "2026-01-02T03:04:05Z"

Value = TypeVar("Value")


MODELS: dict[SummaryKind, type[Published]] = {
    "agent_model": AgentModelSummary,
    "tier": TierSummary,
    "run": RunSummary,
}
"""What a test does not name is null, wherever null is allowed."""


def statistics_of(value: float | str | None) -> dict[str, Any]:
    """Statistics of one value; of None: of nothing."""
    names = ("median", "mean", "mode", "min", "max", "std_dev")
    return dict.fromkeys(names, value) | {"count": 0 if value is None else 1}


def a_formulacode_summary(**fields: Any) -> dict[str, Any]:
    """FormulaCode's block of an agent:model summary."""
    counts = dict.fromkeys(("num_benchmarks", "num_valid_benchmarks", "missing", "fallbacks", "claimed"), 0)
    coverage = dict.fromkeys(FormulaCodeCoverage.model_fields, 1)
    return dict.fromkeys(FormulaCodeSummary.model_fields) | counts | {"coverage": coverage, **fields}


def an_agent_model_change(
    run: str = "r1",
    agent: str = "claude",
    model: str = "opus",
    *,
    version: int = 0,
    epoch: int = 1,
    means: dict[str, Any] | None = None,
    deleted: bool = False,
    **fields: Any,
) -> SummaryChange:
    """An agent:model's summary; `means` sets statistics by metric, `fields` any field of the summary."""
    summary = _group(means) | {
        "type": "agent_model_summary",
        "agent_model": agent_model_label(agent, model),
        "agent": agent,
        "model": model,
        "baseline": agent in ("nop", "oracle"),
        **fields,
    }
    return _change(run, GroupId(None, agent, model), None if deleted else summary, epoch, version)


def a_tier_change(
    run: str = "r1",
    tier: str = "T0",
    agent: str | None = None,
    model: str | None = None,
    *,
    version: int = 0,
    epoch: int = 1,
    means: dict[str, Any] | None = None,
    deleted: bool = False,
    **fields: Any,
) -> SummaryChange:
    """A tier's summary; with agent and model: of that agent:model within the tier."""
    within = agent is not None and model is not None
    summary = _group(means) | {
        "type": "tier_summary",
        "tier": tier,
        "agent_model": agent_model_label(agent, model) if agent and model else None,
        "runs_completed": 1,
        "baseline_tier": "T0",
        **fields,
    }
    group = GroupId(tier, agent, model) if within else GroupId(tier)
    return _change(run, group, None if deleted else summary, epoch, version)


def a_run_change(
    run: str = "r1", *, version: int = 0, epoch: int = 1, deleted: bool = False, **fields: Any
) -> SummaryChange:
    """A run's summary."""
    summary = _counts() | {
        "type": "run_summary",
        "labels": {},
        "provenance": {},
        "varies": [],
        "cost_by_agent_model": {},
        "primary_metric": "pass_rate",
        "agent_models": 1,
        "tiers": 0,
        "progress": {"done": 1, "planned": None},
        **fields,
    }
    return _change(run, RUN, None if deleted else summary, epoch, version)


def an_update(*summaries: SummaryChange) -> RunUpdate:
    """A cut of these summaries, all of one run."""
    return RunUpdate(summaries[0].run_id, list(summaries))


def _counts() -> dict[str, Any]:
    return {
        "semantics_version": SEMANTICS_VERSION,
        "made_with": "0123456789abcdef",
        "degraded": None,
        "last_event_at": LAST_EVENT_AT,
        "trials": 1,
        "tasks": 1,
        "resolved": 1,
        "unresolved": 0,
        "no_verdict": 0,
        "accuracy": 1.0,
        "accuracy_excluding_infrastructure": 1.0,
        "infrastructure_failures": 0,
        "in_flight": 0,
        "pass_at_k": {"1": {"value": 1.0, "tasks_covered": 1, "partial": False}},
        "tokens": dict.fromkeys(("input", "output", "cache_read", "cache_write")),
        "failure_modes": {},
        "metrics": {},
        "coverage": {},
        "grading_profile": "specified",
        "provisional": False,
        **dict.fromkeys((*MARKS, "score_out_of_range"), 0),
    }


def _group(means: dict[str, Any] | None) -> dict[str, Any]:
    statistics = {metric: statistics_of((means or {}).get(metric)) for metric in METRICS}
    return _counts() | {"statistics": statistics, "grade_provisional": False}


def _change(
    run: str, group: GroupId, summary: dict[str, Any] | None, epoch: int, version: int
) -> SummaryChange:
    if summary is None:
        return SummaryChange.tombstone(run, group, epoch, version)
    nulls = dict.fromkeys(MODELS[group.kind].model_fields)
    summary = nulls | summary | {"run_id": run, "epoch": epoch, "state_version": version}
    summary["digest"] = digest_of(summary)
    value = canonical_json(summary)
    SUMMARY.validate_json(value, extra="forbid")
    return SummaryChange(run, group, value, summary, epoch, version, summary["digest"])


def a_row(**fields: Any) -> TrialRow:
    """A passed trial."""
    nulls = dict.fromkeys(TrialRow.model_fields)
    basic = {"id": "0" * 24, "shard": "", "task_id": "t", "attempt": 1, "agent_model": "a:m", "metrics": {}}
    return TrialRow(**nulls | basic | {"success": True, "resolved": True, "outcome": "passed"} | fields)


def present(value: Value | None) -> Value:
    """The value, which must be there."""
    assert value is not None
    return value


def by_head(table: Table) -> list[dict[str, str]]:
    """The rows of a table; each cell by its head."""
    return [dict(zip(table.heads, row, strict=True)) for row in table.rows]
