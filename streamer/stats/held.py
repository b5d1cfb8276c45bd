"""How a distribution keeps its values: few as a list, many in order, zeros and ones as two counts.

A store knows the order of its values and their exact sums. The statistics are worked out from these two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import inf, isfinite, nan
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from streamer.stats.digits import MANY
from streamer.stats.errors import StatsError
from streamer.stats.exact_sum import ExactSum
from streamer.stats.ordered import OrderedMultiset
from streamer.stats.ranked import Ranked, most_frequent


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
        """The values kept, with 0.0 for -0.0; to be read only."""
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


FEW = 64
"""Up to so many values, infinite ones included, a list is smaller and faster."""


class Held(Protocol):
    """A store of values, none of them NaN."""

    @property
    def ordered(self) -> Ranked:
        """The values by rank."""

    @property
    def finite(self) -> ExactSum:
        """The exact sums of the finite values; to be read only."""

    @property
    def infinite(self) -> int:
        """How many values are inf."""

    @property
    def negative_infinite(self) -> int:
        """How many values are -inf."""

    def with_more(self, values: Values) -> Held:
        """The store of these values too, which need not be another one; it leaves out NaN."""

    def take_out(self, values: Values) -> None:
        """Take the values out; raises StatsError, and changes nothing, if one is not there."""

    def to_list(self) -> list[float]:
        """All values, in no order."""


class FewValues(Ranked):
    """A list, put in order when somebody asks; sums are worked out each time."""

    __slots__ = ("_is_ordered", "_values")

    def __init__(self) -> None:
        self._values: list[float] = []
        self._is_ordered = True

    def __len__(self) -> int:
        return len(self._values)

    def at(self, rank: int) -> float:
        """See :class:`~streamer.stats.ranked.Ranked`."""
        self._order()
        return self._values[rank]

    def _find_mode(self) -> float:
        self._order()
        counts = Counter(self._values)
        return most_frequent([*counts], [*counts.values()])[0]

    def _order(self) -> None:
        if not self._is_ordered:
            self._values = sorted([value + 0.0 for value in self._values])
            self._is_ordered = True

    @property
    def ordered(self) -> Ranked:
        """Itself."""
        return self

    @property
    def finite(self) -> ExactSum:
        """See :class:`Held`."""
        if self.infinite or self.negative_infinite:
            return ExactSum.of([value for value in self._values if isfinite(value)])
        return ExactSum.of(self._values)

    @property
    def infinite(self) -> int:
        """See :class:`Held`."""
        return self._values.count(inf)

    @property
    def negative_infinite(self) -> int:
        """See :class:`Held`."""
        return self._values.count(-inf)

    def with_more(self, values: Values) -> Held:
        """See :class:`Held`; it is another store when the values become many."""
        if len(self._values) + values.size <= FEW:
            self._values.extend(values.kept)
            self._is_ordered = False
            return self
        many = ManyValues()
        return many.with_more(Values(self._values)).with_more(values)

    def take_out(self, values: Values) -> None:
        """See :class:`Held`."""
        left = self._values.copy()
        for value in values.kept:
            if value not in left:
                raise StatsError.absent("Distribution", value)
            left.remove(value)
        self._values = left

    def to_list(self) -> list[float]:
        """See :class:`Held`."""
        return self._values.copy()


class ManyValues:
    """Values in order, and their sums kept up to date."""

    __slots__ = ("finite", "infinite", "negative_infinite", "ordered")

    def __init__(self) -> None:
        self.ordered = OrderedMultiset()
        self.finite = ExactSum()
        self.infinite = self.negative_infinite = 0

    def with_more(self, values: Values) -> Held:
        """See :class:`Held`."""
        if values.size < MANY:
            self.ordered.extend(values.kept)
        else:
            self.ordered.extend_with_array(values.array)
        self.infinite += values.infinite
        self.negative_infinite += values.negative_infinite
        if values.finite:
            self.finite.merge(values.sums)
        return self

    def take_out(self, values: Values) -> None:
        """See :class:`Held`."""
        self.ordered.unmerge(OrderedMultiset(values.kept))
        self.finite.unmerge(values.sums)
        self.infinite -= values.infinite
        self.negative_infinite -= values.negative_infinite

    def to_list(self) -> list[float]:
        """See :class:`Held`."""
        return self.ordered.to_list()


class ZerosAndOnes(Ranked):
    """Values that are all 0 or 1: two counts hold everything."""

    __slots__ = ("ones", "zeros")

    infinite = negative_infinite = 0

    def __init__(self) -> None:
        self.zeros = self.ones = 0

    def __len__(self) -> int:
        return self.zeros + self.ones

    def at(self, rank: int) -> float:
        """See :class:`~streamer.stats.ranked.Ranked`."""
        return float(rank >= self.zeros)

    def _find_mode(self) -> float:
        return most_frequent((0.0, 1.0), (self.zeros, self.ones))[0]

    @property
    def ordered(self) -> Ranked:
        """Itself."""
        return self

    @property
    def finite(self) -> ExactSum:
        """See :class:`Held`."""
        return ExactSum.of_zeros_and_ones(self.zeros, self.ones)

    def with_more(self, values: Values) -> Held:
        """See :class:`Held`; raises StatsError, and changes nothing, if a value is neither 0 nor 1."""
        zeros, ones = _zeros_and_ones(values)
        self.zeros += zeros
        self.ones += ones
        return self

    def take_out(self, values: Values) -> None:
        """See :class:`Held`."""
        zeros, ones = _zeros_and_ones(values)
        if zeros > self.zeros or ones > self.ones:
            raise StatsError.absent("Shares", {"zeros": zeros, "ones": ones})
        self.zeros -= zeros
        self.ones -= ones

    def to_list(self) -> list[float]:
        """See :class:`Held`."""
        return [0.0] * self.zeros + [1.0] * self.ones


def _zeros_and_ones(values: Values) -> tuple[int, int]:
    zeros, ones = values.zeros_and_ones
    if zeros + ones != len(values):
        raise StatsError.unfit("Shares", [*values.kept, *[nan] * values.nans], "0 and 1")
    return zeros, ones
