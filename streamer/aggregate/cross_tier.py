"""The specification's comparison of the tiers of a run, from the tiers' medians (S6-S8, R23)."""

from __future__ import annotations

from typing import Any

from streamer.aggregate.group import GroupState
from streamer.score import cost_delta, tier_delta, tier_uplift, variance_of_medians
from streamer.stats import json_number


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
        "tier_uplift": {t: json_number(uplift(g, baseline, judged)) for t, g in others.items()},
        "tier_delta": {t: json_number(delta(g, baseline, judged)) for t, g in others.items()},
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
    """The grade's score minus the baseline tier's; None if either is missing, or they rest on other bases."""
    pair = _grade_scores(group, baseline, judged)
    return tier_delta(*pair) if pair else None


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
