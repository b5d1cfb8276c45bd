"""The specification's comparison of the tiers of a run, from the tiers' medians (S6-S8, R23)."""

from __future__ import annotations

from typing import Any

from streamer.aggregate.group import GroupState
from streamer.aggregate.trials import COMPOSITE
from streamer.score import cost_delta, tier_delta, tier_uplift, variance_of_medians
from streamer.stats import json_number


def cross_tier(tiers: dict[str, GroupState], baseline_tier: str, ddof: int) -> dict[str, Any] | None:
    """Cross-tier numbers of the pooled tiers; None where there is no tier."""
    if not tiers:
        return None
    baseline = tiers.get(baseline_tier)
    costs = _medians(tiers, "cost_usd")
    frontier = _frontier(tiers)
    return {
        "tier_uplift": {t: json_number(uplift(g, baseline)) for t, g in tiers.items() if t != baseline_tier},
        "tier_delta": {t: json_number(delta(g, baseline)) for t, g in tiers.items() if t != baseline_tier},
        "pass_rate_variance": json_number(variance_of_medians(_medians(tiers, "pass_rate"), ddof)),
        "impl_rate_variance": json_number(variance_of_medians(_medians(tiers, "impl_rate"), ddof)),
        "cost_variance": json_number(variance_of_medians(costs, ddof)),
        "cost_delta": json_number(cost_delta(costs)),
        "frontier_cost_of_pass": json_number(frontier[0]) if frontier else None,
        "frontier_tier": frontier[1] if frontier else None,
    }


def uplift(group: GroupState, baseline: GroupState | None) -> float | None:
    """Relative gain of the median composite over the baseline tier's; None without one above 0 (R23)."""
    pair = _composites(group, baseline)
    return tier_uplift(*pair) if pair else None


def delta(group: GroupState, baseline: GroupState | None) -> float | None:
    """Median composite minus the baseline tier's; None if either is missing."""
    pair = _composites(group, baseline)
    return tier_delta(*pair) if pair else None


def _composites(group: GroupState, baseline: GroupState | None) -> tuple[float, float] | None:
    if baseline is None:
        return None
    ours, theirs = group.median(COMPOSITE), baseline.median(COMPOSITE)
    return None if ours is None or theirs is None else (ours, theirs)


def _medians(tiers: dict[str, GroupState], metric: str) -> list[float]:
    medians = (group.median(metric) for group in tiers.values())
    return [median for median in medians if median is not None]


def _frontier(tiers: dict[str, GroupState]) -> tuple[float, str] | None:
    """The lowest cost of pass and its tier; ties to the first name."""
    known = ((group.cost_of_pass(), tier) for tier, group in tiers.items())
    return min(((cost, tier) for cost, tier in known if cost is not None), default=None)
