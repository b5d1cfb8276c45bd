"""All that one metric of one group keeps: its values in order, and their exact sums."""

from __future__ import annotations

from array import array
from bisect import insort_right
from collections.abc import Iterable
from math import inf, isfinite, nan
from typing import Any, Self

import numpy as np

from streamer.schemas.canonical import json_number
from streamer.stats.errors import StatsError
from streamer.stats.exact_sum import ExactSum
from streamer.stats.rounding import middle_of

_ONE_BY_ONE = 8
"""Up to so many values are put in their places one by one; more are merged in together."""


class Distribution:
    """Median, mean, mode, minimum, maximum, standard deviation and count of one metric of one group.

    It keeps the values as doubles in ascending order, 8 bytes each, and their :class:`ExactSum`.

    Infinite values have their place in the order and can be the mode. They enter no sum: the mean is then
    infinite, NaN between inf and -inf, and the standard deviation is unknown (R14, R18, S9). NaN enters
    nothing, not even `count`; `nans` tells how many there were. -0.0 counts as 0.0.

    >>> cost = Distribution()
    >>> for value in (0.2, 0.4, 0.4, float("inf")):
    ...     cost.add(value)
    ...     print(cost.median(), cost.mean(), cost.mode(), cost.std_dev())
    0.2 0.2 0.2 0.0
    0.30000000000000004 0.30000000000000004 0.2 0.1
    0.4 0.33333333333333337 0.4 0.09428090415820634
    0.4 inf 0.4 None
    >>> cost.remove(float("inf"))
    >>> cost.summary()["mean"]
    0.33333333333333337
    """

    __slots__ = ("_ordered", "_said", "finite", "nans")

    def __init__(self) -> None:
        self._ordered = array("d")
        self._said: tuple[int, dict[str, Any]] | None = None
        self.finite = ExactSum()
        """The exact sums of the finite values, to be read only."""
        self.nans = 0
        """NaN values seen; they are in no other number."""

    @classmethod
    def of(cls, values: Iterable[float]) -> Self:
        """The distribution of some values.

        >>> Distribution.of([3.0, 1.0, float("nan")]).ascending()
        [1.0, 3.0]
        """
        held = cls()
        held.extend(values)
        return held

    @property
    def count(self) -> int:
        """Values held, infinite ones included, NaN not."""
        return len(self._ordered)

    def ascending(self) -> list[float]:
        """The values in ascending order, infinite ones included, NaN not."""
        return self._ordered.tolist()

    def add(self, value: float) -> None:
        """Count a value in."""
        self.extend((value,))

    def extend(self, values: Iterable[float]) -> None:
        """Count several values in."""
        known = [value + 0.0 for value in values]  # never -0.0
        finite = known
        if not isfinite(sum(known)):  # or their sum overflows
            every, known = known, [value for value in known if value == value]
            self.nans += len(every) - len(known)
            finite = [value for value in known if isfinite(value)]
        self.finite.extend(finite)
        known.sort()
        self._insert(array("d", known))

    def merge(self, *others: Distribution) -> None:
        """Count in all that the others hold; they stay as they are."""
        for other in others:
            self.nans += other.nans
            self.finite.merge(other.finite)
            self._insert(other._ordered[:])

    def remove(self, value: float) -> None:
        """Undo one `add` of the value; raises StatsError if it is not there."""
        self.unmerge(Distribution.of((value,)))

    def unmerge(self, *others: Distribution) -> None:
        """Undo one `merge` of the others; raises StatsError, and changes nothing, if a value is not there."""
        gone = Distribution()
        gone.merge(*others)
        if gone.nans > self.nans:
            raise StatsError.absent("Distribution", nan)
        held, leaving = np.array(self._ordered), np.array(gone._ordered)
        places = held.searchsorted(leaving) + np.arange(len(leaving)) - leaving.searchsorted(leaving)
        if len(places) and (places[-1] >= len(held) or (held[places] != leaving).any()):
            raise StatsError.absent("Distribution", leaving.tolist())
        self.finite.unmerge(gone.finite)
        self.nans -= gone.nans
        self._ordered = array("d", np.delete(held, places).tobytes())
        self._said = None

    def total(self) -> float:
        """The sum, correctly rounded: 0.0 of nothing, infinite or NaN with infinite values."""
        return self.finite.total() + self._infinities()

    def total_over(self, parts: int) -> float:
        """The exact sum over a positive count, rounded once (R18); infinite or NaN with infinite values."""
        return self.finite.total_over(parts) + self._infinities()

    def mean(self) -> float | None:
        """The mean, correctly rounded: None of nothing, infinite or NaN with infinite values."""
        return self._infinities() or self.finite.mean()

    def min(self) -> float | None:
        """The smallest value; None of nothing."""
        return self._ordered[0] if self._ordered else None

    def max(self) -> float | None:
        """The largest value; None of nothing."""
        return self._ordered[-1] if self._ordered else None

    def median(self) -> float | None:
        """The middle value, or the correctly rounded mean of the two middle ones (S5); None of nothing.

        Between -inf and inf there is no middle: NaN.
        """
        if not self._ordered:
            return None
        half, odd = divmod(len(self._ordered), 2)
        upper = self._ordered[half]
        return upper if odd else middle_of(self._ordered[half - 1], upper)

    def mode(self) -> float | None:
        """The most frequent value, compared as it is; of several the smallest (R15).

        With all values distinct it is the smallest one. Infinite values count like others. Of nothing it is
        None.
        """
        if not self._ordered:
            return None
        values = np.frombuffer(self._ordered)
        last = np.flatnonzero(values[1:] != values[:-1])  # where each value stands for the last time
        if len(last) == len(values) - 1:
            return self._ordered[0]
        ends = np.concatenate(([-1], last, [len(values) - 1]))
        most_frequent = int(np.argmax(ends[1:] - ends[:-1]))  # the first one of the greatest
        return self._ordered[int(ends[most_frequent]) + 1]

    def std_dev(self, ddof: int = 0) -> float | None:
        """The standard deviation (ddof 1: of a sample); None of nothing or with infinite values (R14)."""
        return None if self._infinities() else self.finite.std_dev(ddof)

    def variance(self, ddof: int = 0) -> float | None:
        """The variance (ddof 1: of a sample); None of nothing or with infinite values (R14)."""
        return None if self._infinities() else self.finite.variance(ddof)

    def summary(self, ddof: int = 0) -> dict[str, Any]:
        """The statistics as they travel in JSON (R14); of nothing: count 0, the rest None (R16).

        To be read only: asked again without a change, it is the same object.
        """
        if self._said is None or self._said[0] != ddof:
            self._said = (ddof, self._numbers(ddof))
        return self._said[1]

    def _numbers(self, ddof: int) -> dict[str, Any]:
        spread = self.std_dev(ddof)
        says: dict[str, Any] = {
            "median": self.median(),
            "mean": self.mean(),
            "mode": self.mode(),
            "min": self.min(),
            "max": self.max(),
            "std_dev": spread,
        }
        if spread is None or not isfinite(spread):
            says = {name: json_number(value) for name, value in says.items()}
        return says | {"count": self.count}

    def _infinities(self) -> float:
        """The sum of the infinite values; 0.0 if there are none."""
        if not self._ordered:
            return 0.0
        most, least = self._ordered[-1], self._ordered[0]
        return (most if most == inf else 0.0) + (least if least == -inf else 0.0)

    def _insert(self, values: array[float]) -> None:
        """Put values that are in order, none of them NaN, in their places."""
        self._said = None
        if not self._ordered:
            self._ordered = values
        elif len(values) <= _ONE_BY_ONE:
            for value in values:
                insort_right(self._ordered, value)
        else:
            both = np.concatenate((np.frombuffer(self._ordered), np.frombuffer(values)))
            both.sort(kind="stable")  # which merges what is in order already
            self._ordered = array("d", both.tobytes())
