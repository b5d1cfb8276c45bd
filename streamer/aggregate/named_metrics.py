"""Named metrics in a group's summary, and what the plan says of them (R30)."""

from __future__ import annotations

from typing import Any

from streamer.aggregate.evidence import Evidence
from streamer.aggregate.named_values import NamedMetrics
from streamer.aggregate.plan import Plan
from streamer.aggregate.uncertainty import error_body
from streamer.schemas.details import NAMED, MetricPlan
from streamer.schemas.metrics import PRIMARY_METRIC
from streamer.stats.distribution import Distribution

MOST_NAMED = 100
"""Named metrics that a summary has, 400 bytes each, and texts of the plan of 2 KiB for 65 of them."""

_UNREAD = MetricPlan()


def primary_metric(plan: Plan) -> str:
    """What boards are ordered by: one of their metrics, or `metrics/NAME`."""
    return plan.get("primary_metric") or PRIMARY_METRIC


def planned_metrics(plan: Plan) -> dict[str, MetricPlan]:
    """The named metrics that get a board, by name: those that the plan reads, and the primary one."""
    planned: dict[str, MetricPlan] = dict(plan.get("metrics") or {})
    primary = primary_metric(plan)
    if primary.startswith(NAMED):
        planned.setdefault(primary.removeprefix(NAMED), _UNREAD)
    return dict(sorted(planned.items()))


def named_body(held: NamedMetrics, plan: Plan, ddof: int, evidence: Evidence | None) -> dict[str, Any]:
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
        | reading(planned.get(name, _UNREAD))
        | {"planned": name in planned}
        for name in [*planned, *others][:MOST_NAMED]
    }


def reading(plan: MetricPlan) -> dict[str, Any]:
    """How to read a metric: higher is better unless the plan says otherwise."""
    return {"direction": plan.direction or "higher", "unit": plan.unit, "label": plan.label}
