"""The statistics of a few values, worked out anew each time: faster than keeping them, up to some dozens."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import inf, nan
from operator import gt
from typing import NamedTuple

from streamer.stats.exact_sum import ExactSum
from streamer.stats.mode import SURELY_APART, round_to_6
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


def numbers_of_few(values: Sequence[float], ddof: int) -> Numbers:
    """All statistics of some values, none of them NaN.

    >>> numbers_of_few([3.0, 1.0, 1.0], ddof=0)
    Numbers(median=1.0, mean=1.6666666666666667, mode=1.0, min=1.0, max=3.0, std_dev=0.9428090415820634)
    """
    if not values:
        return NOTHING
    ordered = sorted([value + 0.0 for value in values])
    low, high = ordered[0], ordered[-1]
    mode = round_to_6(low) if low == high else _mode(ordered)
    if low == -inf or high == inf:
        return Numbers(median_of_few(ordered), _infinite_mean(low, high), mode, low, high, None)
    if low == high:
        return Numbers(low, low, mode, low, high, 0.0)
    sums = sum_of_few(ordered)
    return Numbers(median_of_few(ordered), sums.mean(), mode, low, high, sums.std_dev(ddof))


def sum_of_few(values: Sequence[float]) -> ExactSum:
    """Their exact sum; they are finite."""
    sums = ExactSum()
    sums.extend(values)
    return sums


def median_of_few(ordered: Sequence[float]) -> float:
    """The median of at least one value in ascending order."""
    half, odd = divmod(len(ordered), 2)
    return ordered[half] if odd else middle_of(ordered[half - 1], ordered[half])


def _mode(ordered: list[float]) -> float:
    if all(map(gt, ordered[1:], [value + SURELY_APART for value in ordered])):
        return round_to_6(ordered[0])
    lengths = [(-sum(1 for _ in run), rounded) for rounded, run in groupby(map(round_to_6, ordered))]
    return min(lengths)[1]


def _infinite_mean(low: float, high: float) -> float:
    return nan if low == -inf and high == inf else high if high == inf else low
