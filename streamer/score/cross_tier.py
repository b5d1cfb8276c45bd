"""Comparisons between tiers: uplift over the baseline tier, variance and spread of medians."""

from __future__ import annotations

import math
from collections.abc import Iterable

from streamer.stats import ExactSum


def tier_uplift(score: float | None, baseline: float | None) -> float | None:
    """Relative gain of a tier's grade score over the baseline tier's: 0.2 is 20 % better.

    None where either is missing or the baseline is not above 0 (R23).

    >>> tier_uplift(0.9, 0.75), tier_uplift(0.9, 0.0)
    (0.20000000000000004, None)
    """
    if score is None or baseline is None or not baseline > 0:
        return None
    return (score - baseline) / baseline


def tier_delta(score: float | None, baseline: float | None) -> float | None:
    """Grade score minus the baseline tier's, -1 to 1 (R23). None where either is missing.

    >>> tier_delta(0.5, 0.0)
    0.5
    """
    return None if score is None or baseline is None else score - baseline


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
    finite = ExactSum()
    for median in medians:
        if math.isfinite(median):
            finite.add(median)
    return finite.variance(ddof)


def cost_delta(median_costs: Iterable[float]) -> float | None:
    """Dearest minus cheapest median cost in USD (S8). None: no tier has a cost (R16). Finite values only.

    >>> cost_delta([0.5, 0.25, 2.0]), cost_delta([])
    (1.75, None)
    """
    finite = [c for c in median_costs if math.isfinite(c)]
    return max(finite) - min(finite) if finite else None
