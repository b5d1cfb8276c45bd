"""The run's summary: totals, plan, the comparison of its tiers (S6-S8, R23), and what limits its size.

A run can have many failure modes, agents, labels and tiers. What is beyond a limit is left out when the
summary is made; the state keeps everything, so taking trials back is exact. Every summary stays below
:data:`MAX_SUMMARY_BYTES`, which is far below the largest message (4 MiB). Worst cases of a run's summary:

======================== =======
100 failure modes, other  80 KiB  128 characters of 6 bytes (escaped), and a count
cost_by_agent_model      224 KiB  1,200 agents with labels of 160 bytes
labels                    96 KiB
tier_uplift, tier_delta   64 KiB  32 KiB each
metrics                  104 KiB  65 named metrics, each with texts of 128 characters
all other fields          32 KiB  texts of 1,024 characters among them
======================== =======
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar

import orjson

from streamer.aggregate.group import GroupState
from streamer.aggregate.keys import RUN, GroupId, microseconds, rfc3339
from streamer.aggregate.plan import Denominators, Plan
from streamer.aggregate.roster import HELD, STARTED
from streamer.aggregate.run_state import RunState
from streamer.schemas.canonical import JsonNumber, json_number
from streamer.schemas.details import NAMED, MetricPlan
from streamer.schemas.metrics import PRIMARY_METRIC
from streamer.stats.exact_sum import ExactSum

MAX_SUMMARY_BYTES = 512 * 1024
MAX_FAILURE_MODES = 100
OTHER = "other"
"""Stands for the failure modes, or the costs, that have no entry of their own."""

_COST_BYTES = 224 * 1024
_LABEL_BYTES = 96 * 1024
_TIER_BYTES = 32 * 1024

T = TypeVar("T")


def run_body(run: RunState, planned: Denominators) -> dict[str, Any]:
    """What the run's summary says; the run is counted up to date."""
    plan = run.plan
    pooled = {g.tier: group for g, group in run.groups.items() if g.tier and not g.agent}
    tiers = dict(sorted(pooled.items()))
    agents = {g.agent_model or "": group for g, group in run.groups.items() if g.tier is None}
    total = planned.run()
    finished = plan.finished
    missing = [run.groups[GroupId(tier)].trials < (planned.tier(tier) or 0) for tier in tiers]
    body: dict[str, Any] = {
        **{name: plan.get(name) for name in ("harness", "project", "benchmark", "benchmark_version")},
        "display_name": plan.get("display_name"),
        "metrics": {name: reading(of) for name, of in planned_metrics(plan).items()},
        "primary_metric": primary_metric(plan),
        "labels": first_by_name(plan.labels, _LABEL_BYTES),
        "status": finished and (finished.status or "finished"),
        "started_at": _instant(plan.get("started_at")),
        "finished_at": _instant(finished.finished_at) if finished else None,
        "grading_profile": run.rules.profile.name,
        "cost_by_agent_model": costs_by_agent_model(agents),
        "agent_models": len(agents),
        "tiers": len(tiers),
        "cross_tier": cross_tier(tiers, plan.baseline_tier, run.rules.profile.ddof, plan.judged),
        "progress": {"done": run.totals.slots, "planned": total, "plan_complete": not planned.incomplete},
        "in_flight": 0 if finished else run.scores.roster.lineup(RUN).count(STARTED, STARTED | HELD),
        "provisional": planned.incomplete or (any(missing) if total is None else run.totals.slots < total),
    }
    totals = run.totals.body(plan.attempts, plan.task_count)
    return totals | body | {"failure_modes": most_frequent(totals["failure_modes"])}


def primary_metric(plan: Plan) -> str:
    """What boards are ordered by: one of their metrics, or `metrics/NAME`."""
    return plan.get("primary_metric") or PRIMARY_METRIC


def planned_metrics(plan: Plan) -> dict[str, MetricPlan]:
    """The named metrics that get a board, by name: those that the plan reads, and the primary one."""
    planned: dict[str, MetricPlan] = dict(plan.get("metrics") or {})
    primary = primary_metric(plan)
    if primary.startswith(NAMED):
        planned.setdefault(primary.removeprefix(NAMED), MetricPlan())
    return dict(sorted(planned.items()))


def reading(plan: MetricPlan) -> dict[str, Any]:
    """How to read a metric: higher is better unless the plan says otherwise."""
    return {"direction": plan.direction or "higher", "unit": plan.unit, "label": plan.label}


def cross_tier(
    tiers: dict[str, GroupState], baseline_tier: str, ddof: int, judged: bool | None
) -> dict[str, Any] | None:
    """Cross-tier numbers of the pooled tiers; None where there is no tier.

    Args:
        judged: whether the plan says that trials get a judge's score; None: as seen (R13).
    """
    if not tiers:
        return None
    baseline = tiers.get(baseline_tier)
    others = {tier: group for tier, group in tiers.items() if tier != baseline_tier}
    costs = _medians(tiers, "cost_usd")
    frontier = _frontier(tiers)
    return {
        "tier_uplift": _limited({t: uplift(g, baseline, judged) for t, g in others.items()}),
        "tier_delta": _limited({t: delta(g, baseline, judged) for t, g in others.items()}),
        "pass_rate_variance": json_number(variance_of_medians(_medians(tiers, "pass_rate"), ddof)),
        "impl_rate_variance": json_number(variance_of_medians(_medians(tiers, "impl_rate"), ddof)),
        "cost_variance": json_number(variance_of_medians(costs, ddof)),
        "cost_delta": json_number(cost_delta(costs)),
        "frontier_cost_of_pass": json_number(frontier[0]) if frontier else None,
        "frontier_tier": frontier[1] if frontier else None,
    }


def uplift(group: GroupState, baseline: GroupState | None, judged: bool | None) -> float | None:
    """Relative gain of the grade's score over the baseline tier's; None without one above 0 (R23)."""
    pair = _grade_scores(group, baseline, judged)
    return tier_uplift(*pair) if pair else None


def delta(group: GroupState, baseline: GroupState | None, judged: bool | None) -> float | None:
    """The grade's score minus the baseline tier's, -1 to 1 (R23).

    None if either is missing, or they rest on other bases.
    """
    pair = _grade_scores(group, baseline, judged)
    return pair[0] - pair[1] if pair else None


def _grade_scores(
    group: GroupState, baseline: GroupState | None, judged: bool | None
) -> tuple[float, float] | None:
    if baseline is None or group.grade_basis(judged) != baseline.grade_basis(judged):
        return None
    ours, theirs = group.grade_score(judged), baseline.grade_score(judged)
    return None if ours is None or theirs is None else (ours, theirs)


def _medians(tiers: dict[str, GroupState], metric: str) -> list[float]:
    medians = (group.distributions[metric].median() for group in tiers.values())
    return [median for median in medians if median is not None]


def _frontier(tiers: dict[str, GroupState]) -> tuple[float, str] | None:
    """The lowest cost of pass and its tier; ties to the first name."""
    known = ((group.cost_of_pass(), tier) for tier, group in tiers.items())
    return min(((cost, tier) for cost, tier in known if cost is not None), default=None)


def tier_uplift(score: float, baseline: float) -> float | None:
    """Relative gain of a tier's grade score over the baseline tier's: 0.2 is 20 % better.

    None where the baseline is not above 0 (R23).

    >>> tier_uplift(0.9, 0.75), tier_uplift(0.9, 0.0)
    (0.20000000000000004, None)
    """
    return (score - baseline) / baseline if baseline > 0 else None


def variance_of_medians(medians: Iterable[float], ddof: int) -> float | None:
    """Variance of the tiers' medians (S6), exact and rounded once (R18).

    None: no median at all (R16). One: 0.0. Values that are not finite enter no sum (R18).
    A variance beyond the largest float is Infinity.

    Args:
        medians: one per tier that has one.
        ddof: 0 divides by n (population), 1 by n - 1 (sample).

    >>> variance_of_medians([0.25, 0.5, 1.0], ddof=1)
    0.14583333333333334
    >>> variance_of_medians([0.5], ddof=1), variance_of_medians([], ddof=0)
    (0.0, None)
    """
    return ExactSum.of([median for median in medians if math.isfinite(median)]).variance(ddof)


def cost_delta(median_costs: Iterable[float]) -> float | None:
    """Dearest minus cheapest median cost in USD (S8). None: no tier has a cost (R16). Finite values only.

    >>> cost_delta([0.5, 0.25, 2.0]), cost_delta([])
    (1.75, None)
    """
    finite = [c for c in median_costs if math.isfinite(c)]
    return max(finite) - min(finite) if finite else None


def most_frequent(failure_modes: Mapping[str, int]) -> dict[str, int]:
    """The 100 most frequent failure modes, ties by name, and all others counted as `other`.

    >>> modes = most_frequent({f"mode {n}": 1 for n in range(200)} | {"timeout": 7})
    >>> len(modes), modes["timeout"], modes["other"]
    (101, 7, 101)
    """
    if len(failure_modes) <= MAX_FAILURE_MODES:
        return dict(failure_modes)
    ranked = sorted(failure_modes.items(), key=lambda item: (-item[1], item[0]))
    kept = dict(ranked[:MAX_FAILURE_MODES])
    kept[OTHER] = kept.get(OTHER, 0) + sum(count for _, count in ranked[MAX_FAILURE_MODES:])
    return kept


def first_by_name(values: dict[str, T], most_bytes: int) -> dict[str, T]:
    """The entries, or the first by name whose JSON has `most_bytes` at most.

    >>> first_by_name({"b": 1, "a": 2}, 8)
    {'a': 2}
    """
    if _fits(values, most_bytes):
        return values
    return _fitting(sorted(values.items()), most_bytes)


def costs_by_agent_model(groups: Mapping[str, GroupState]) -> dict[str, Any]:
    """Label of an agent:model to its known cost in USD, None for none.

    Where those are more than fit, the dearest have entries, ties by label; the others' sum is `other`.
    """
    sums = {label: group.distributions["cost_usd"].finite for label, group in groups.items()}
    costs = {label: json_number(known.total()) if known.count else None for label, known in sums.items()}
    if _fits(costs, _COST_BYTES):
        return costs
    dearest = sorted(sums, key=lambda label: (not sums[label].count, -sums[label].total(), label))
    kept: dict[str, Any] = _fitting([(label, costs[label]) for label in dearest], _COST_BYTES)
    rest = ExactSum()
    rest.merge(*(known for label, known in sums.items() if label not in kept))
    return kept | {OTHER: json_number(rest.total()) if rest.count else None}


def _limited(by_tier: dict[str, float | None]) -> dict[str, JsonNumber]:
    return first_by_name({tier: json_number(value) for tier, value in by_tier.items()}, _TIER_BYTES)


def _fits(values: Mapping[str, Any], most_bytes: int) -> bool:
    return len(orjson.dumps(values)) <= most_bytes


def _fitting(ranked: Iterable[tuple[str, T]], most_bytes: int) -> dict[str, T]:
    """The leading entries whose JSON has `most_bytes` at most."""
    kept, left = {}, most_bytes - len("{}")
    for name, value in ranked:
        left -= len(orjson.dumps({name: value})) - len("{}") + len(",")
        if left < 0:
            break
        kept[name] = value
    return kept


def _instant(moment: datetime | None) -> str | None:
    return rfc3339(microseconds(moment)) if moment is not None else None
