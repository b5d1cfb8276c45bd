"""The statistics of a few values, worked out anew each time: faster than keeping them, up to some dozens."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nan
from statistics import mode
from typing import NamedTuple

from streamer.stats.exact_sum import ExactSum
from streamer.stats.numbers import middle_of

FEW = 64
"""So many values at most, infinite ones included, are few."""


class Numbers(NamedTuple):
    """Statistics of a few values, as :class:`~streamer.stats.Distribution` defines them."""

    median: float | None
    mean: float | None
    mode: float | None
    min: float | None
    max: float | None
    std_dev: float | None


NOTHING = Numbers(None, None, None, None, None, None)


def numbers_of_few(values: Sequence[float], ddof: int) -> tuple[Numbers, float]:
    """All statistics of some values, none of them NaN, and their sum.

    >>> numbers_of_few([3.0, 1.0, 2.0, 2.0], ddof=0)
    (Numbers(median=2.0, mean=2.0, mode=2.0, min=1.0, max=3.0, std_dev=0.7071067811865476), 8.0)
    """
    if not values:
        return NOTHING, 0.0
    ordered = sorted([value + 0.0 for value in values])
    low, high = ordered[0], ordered[-1]
    if low == high:
        spread = None if low in (inf, -inf) else 0.0
        return Numbers(low, low, low, low, high, spread), low * len(values)
    if low == -inf or high == inf:
        mean = nan if low == -inf and high == inf else high if high == inf else low
        return Numbers(median_of_few(ordered), mean, mode(ordered), low, high, None), mean
    sums = ExactSum.of(values)
    spread = sums.std_dev(ddof)
    return Numbers(median_of_few(ordered), sums.mean(), mode(ordered), low, high, spread), sums.total()


def median_of_few(ordered: Sequence[float]) -> float:
    """The median of at least one value in ascending order."""
    half, odd = divmod(len(ordered), 2)
    return ordered[half] if odd else middle_of(ordered[half - 1], ordered[half])
