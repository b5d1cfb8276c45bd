"""Values on their way into several distributions: what each of those needs of them is worked out once."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite, nan

import numpy as np
from numpy.typing import NDArray

from streamer.stats.digits import MANY
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
