"""Values on their way into several distributions: what each of those needs of them is worked out once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from math import inf, isfinite, nan

import numpy as np
from numpy.typing import NDArray

from streamer.stats.digits import LARGE, MANY, Digits
from streamer.stats.exact_sum import ExactSum


class Values:
    """Some values, none of which changes any more.

    Attributes:
        kept: all but NaN, in the order given; a zero may have lost its sign.
        size: how many those are.
        finite: how many of them are finite.
        nans, infinite, negative_infinite: how many of each there are.

    >>> values = Values([0.5, float("nan"), float("inf"), 1.5])
    >>> values.kept, values.finite, values.nans, values.infinite, values.sums.total()
    ([0.5, inf, 1.5], 2, 1, 1, 2.0)
    """

    __slots__ = (
        "_array",
        "_sums",
        "_zeros_and_ones",
        "finite",
        "infinite",
        "kept",
        "nans",
        "negative_infinite",
        "size",
    )

    def __init__(self, values: Sequence[float]) -> None:
        self.kept = values
        self.nans = self.infinite = self.negative_infinite = 0
        self.size = self.finite = len(values)
        self._sums: ExactSum | None = None
        self._array: NDArray[np.float64] | None = None
        self._zeros_and_ones: tuple[int, int] | None = None
        if not isfinite(sum(values)):  # or their sum overflows
            self.kept = kept = [value for value in values if value == value]
            self.size = len(kept)
            self.nans = len(values) - self.size
            self.infinite, self.negative_infinite = kept.count(inf), kept.count(-inf)
            self.finite = self.size - self.infinite - self.negative_infinite

    @staticmethod
    def parts(column: NDArray[np.float64], bounds: Sequence[int]) -> list[Values]:
        """The values in each part of a column, but NaN, which stands for what is not known.

        Args:
            column: of any length.
            bounds: of the parts, in order: each reaches from one to before the next.

        >>> [part.kept for part in Values.parts(np.array([1.0, np.nan, 2.0]), [0, 2, 3])]
        [[1.0], [2.0]]
        """
        unknown = np.isnan(column)
        if unknown.any():
            known = ~unknown
            places = np.concatenate(([0], known.cumsum()))
            column, bounds = column[known], places[list(bounds)].tolist()
        whole = _Column(column + 0.0)
        return [
            _Part(whole, first, end) if end - first >= LARGE else Values(whole.listed[first:end])
            for first, end in pairwise(bounds)
        ]

    @classmethod
    def together(cls, parts: Sequence[Values]) -> Values:
        """All values of at least one part."""
        kept = [value for part in parts for value in part.kept]
        kept += [nan] * sum(part.nans for part in parts)
        return cls(kept)

    def __len__(self) -> int:
        """How many there are, NaN included."""
        return self.size + self.nans

    @property
    def array(self) -> NDArray[np.float64]:
        """Those kept, with 0.0 for -0.0; to be read only."""
        if self._array is None:
            self._array = np.array(self.kept, dtype=np.float64) + 0.0
        return self._array

    @property
    def zeros_and_ones(self) -> tuple[int, int]:
        """How many are 0.0, and how many are 1.0."""
        if self._zeros_and_ones is None:
            self._zeros_and_ones = self.kept.count(0.0), self.kept.count(1.0)
        return self._zeros_and_ones

    @property
    def sums(self) -> ExactSum:
        """The exact sums of the finite ones; to be read only."""
        if self._sums is None:
            if self.finite == self.size:
                self._sums = ExactSum.of(self.kept if self.size < MANY else self.array)
            else:
                self._sums = ExactSum.of([value for value in self.kept if isfinite(value)])
        return self._sums


class _Column:
    """The values of several parts, none of them NaN."""

    def __init__(self, values: NDArray[np.float64]) -> None:
        self.values = values
        self.is_finite = bool(np.isfinite(values).all())

    @cached_property
    def listed(self) -> list[float]:
        """They, as a list."""
        listed: list[float] = self.values.tolist()
        return listed

    @cached_property
    def digits(self) -> Digits | None:
        """Those that are finite, and 0 for the others; None if they lie too far apart."""
        if self.is_finite:
            return Digits.of(self.values)
        return Digits.of(np.where(np.isfinite(self.values), self.values, 0.0))


class _Part(Values):
    """The values in a part of a column."""

    __slots__ = ("_listed", "_whole")

    def __init__(self, whole: _Column, first: int, end: int) -> None:
        self._whole = (whole, first, end)
        self._listed: list[float] | None = None
        self._sums = self._zeros_and_ones = None
        part = self._array = whole.values[first:end]
        self.nans = self.infinite = self.negative_infinite = 0
        self.size = self.finite = end - first
        if not whole.is_finite:
            self.infinite = int(np.count_nonzero(part == inf))
            self.negative_infinite = int(np.count_nonzero(part == -inf))
            self.finite = self.size - self.infinite - self.negative_infinite

    @property
    def kept(self) -> Sequence[float]:  # type: ignore[override]  # few ask a part for it
        """As of any values."""
        if self._listed is None:
            self._listed = self.array.tolist()
        return self._listed

    @property
    def zeros_and_ones(self) -> tuple[int, int]:
        """As of any values."""
        if self._zeros_and_ones is None:
            others, ones = np.count_nonzero(self.array), np.count_nonzero(self.array == 1.0)
            self._zeros_and_ones = self.size - int(others), int(ones)
        return self._zeros_and_ones

    @property
    def sums(self) -> ExactSum:
        """As of any values; those of all parts are in digits already."""
        whole, first, end = self._whole
        if self._sums is None and whole.digits is not None:
            self._sums = ExactSum()
            self._sums.add_digits(whole.digits, first, end, self.finite)
        return super().sums
