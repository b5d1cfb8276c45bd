"""The common part of the summaries of agents and tiers; breakdowns by subtest and label have it too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamer.aggregate.group import COMPOSITE, GroupState, accuracies
from streamer.aggregate.plan import GroupPlan, Plan
from streamer.aggregate.roster import MEANS
from streamer.aggregate.run_state import RunState
from streamer.aggregate.run_summary import most_frequent, planned_metrics, reading
from streamer.aggregate.uncertainty import Evidence
from streamer.inference.ability import Clusters, Interval, mean_interval
from streamer.schemas.canonical import json_count, json_number
from streamer.schemas.details import NAMED, MetricPlan
from streamer.stats.distribution import Distribution
from streamer.stats.exact_sum import ExactSum

MOST_NAMED = 100
"""Named metrics that a summary has, 400 bytes each, and texts of the plan of 2 KiB for 65 of them."""

NO_ERROR: dict[str, Any] = dict.fromkeys(("standard_error", "low", "high"))
"""The fields of an error and its interval where there is none; to be read only."""


def group_body(
    run: RunState, group: GroupState, plan: GroupPlan, evidence: Evidence | None = None
) -> dict[str, Any]:
    """Everything that the summaries of all groups have in common, cut to the limits.

    Args:
        evidence: for the errors of means; None for groups that are on no board, whose errors are null.
    """
    profile = run.rules.profile
    statistics = {
        metric: held.summary(profile.ddof) | mean_error(evidence, metric)
        for metric, held in group.distributions.items()
    }
    score, basis = group.grade_score(plan.judged), group.grade_basis(plan.judged)
    awaited = basis == "composite_median" and group.distributions[COMPOSITE].count < group.trials
    return {
        "trials": group.trials,
        "tasks": group.pass_at_k.tasks,
        "resolved": group.resolved,
        "unresolved": group.trials - group.resolved,
        "no_verdict": group.no_verdict,
        "runs_planned": plan.trials,
        "provisional": plan.incomplete or (plan.trials is not None and group.trials < plan.trials),
        **headline(group),
        "pass_at_k": group.pass_at_k.summary(plan.attempts, plan.tasks) if len(group.owners) <= 1 else None,
        "tokens": _tokens(group),
        "mean_trajectory_length": json_number(group.sums["trajectory_length"].mean()),
        "statistics": statistics,
        "metrics": named_body(group.named, run.plan, profile.ddof, evidence),
        "coverage": _coverage(group),
        "failure_modes": most_frequent(group.failure_modes),
        "grade": profile.grade(score),
        "grade_basis": basis,
        "grade_score": score,
        "grade_provisional": awaited and not plan.finished,
        "grading_profile": profile.name,
    }


def _coverage(group: GroupState) -> dict[str, int]:
    """How many trials had each metric (R1)."""
    held = {metric: distribution.count for metric, distribution in group.distributions.items()}
    return held | {metric: total.count for metric, total in group.sums.items()}


def _tokens(group: GroupState) -> dict[str, int | float | None]:
    """Token totals; None where no trial reports that kind."""
    return {
        "input": _whole(group.distributions["input_tokens"]),
        "output": _whole(group.distributions["output_tokens"]),
        "cache_read": _whole(group.sums["cache_read_tokens"]),
        "cache_write": _whole(group.sums["cache_write_tokens"]),
    }


def _whole(held: Distribution | ExactSum) -> int | float | None:
    return json_count(held.total()) if held.count else None


def headline(group: GroupState) -> dict[str, Any]:
    """The numbers of a group that are neither statistics of a metric nor FormulaCode's."""
    cost = group.distributions["cost_usd"]
    return accuracies(group.resolved, group.trials, group.infrastructure_failures) | {
        "total_cost": json_number(cost.total()) if cost.count else None,
        "mean_cost": json_number(cost.mean()),
        "cost_of_pass": json_number(group.cost_of_pass()),
    }


def named_body(
    held: Mapping[str, Distribution], plan: Plan, ddof: int, evidence: Evidence | None
) -> dict[str, Any]:
    """Metric to its statistics and how to read them: the planned ones, then by number of trials.

    Args:
        evidence: for the errors of means; None for groups that are on no board, whose errors are null.
    """
    planned = planned_metrics(plan)
    others = sorted(held.keys() - planned, key=lambda name: (-held[name].count, name))
    nothing = Distribution()
    return {
        name: held.get(name, nothing).summary(ddof)
        | error_body(evidence.means(NAMED + name) if evidence else None)
        | reading(planned.get(name, MetricPlan()))
        | {"planned": name in planned}
        for name in [*planned, *others][:MOST_NAMED]
    }


def mean_error(evidence: Evidence | None, metric: str) -> dict[str, Any]:
    """Error and interval of a metric's mean; None of fewer than two tasks, and of metrics without a board."""
    if evidence is None or metric not in ("pass_rate", *MEANS):
        return NO_ERROR
    if metric == "pass_rate":
        return _error_body(evidence.pass_rate, evidence.pass_rate_interval)
    return error_body(evidence.means(metric))


def error_body(values: Clusters | None) -> dict[str, Any]:
    """Error and t interval of a mean: `standard_error`, `low`, `high`; None of fewer than two tasks."""
    return _error_body(values, mean_interval(values)) if values else NO_ERROR


def _error_body(values: Clusters, interval: Interval | None) -> dict[str, Any]:
    if interval is None:
        return NO_ERROR
    numbers = values.standard_error(), *interval
    return dict(zip(NO_ERROR, map(json_number, numbers), strict=True))
