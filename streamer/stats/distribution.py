"""All that one metric of one group keeps."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite, nan
from typing import Any

from streamer.stats.errors import StatsError
from streamer.stats.exact_sum import ExactSum
from streamer.stats.numbers import json_number
from streamer.stats.ordered import OrderedMultiset


class Distribution:
    """Median, mean, mode, minimum, maximum, standard deviation and count of one metric of one group.

    Infinite values have their place in the order and can be the mode, but enter no sum: they are counted
    apart, the mean is then infinite (NaN between inf and -inf) and the standard deviation unknown (R14,
    R18, S9). NaN enters nothing, not even `count`; `nans` tells how many there were. -0.0 counts as 0.0.

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

    __slots__ = ("_finite", "_infinite", "_negative_infinite", "_ordered", "_said", "nans")

    def __init__(self) -> None:
        self._finite = ExactSum()
        self._ordered = OrderedMultiset()
        self._infinite = 0
        self._negative_infinite = 0
        self._said: tuple[int, dict[str, Any]] | None = None
        self.nans = 0
        """NaN values seen; they are in no other number."""

    @property
    def count(self) -> int:
        """Values held, infinite ones included, NaN not."""
        return self._finite.count + self._infinite + self._negative_infinite

    def add(self, value: float) -> None:
        """Count a value in."""
        self._said = None
        if isfinite(value):
            self._finite.add(value)
        elif not self._count_apart(value, 1):
            return
        self._ordered.add(value)

    def extend(self, values: Sequence[float]) -> None:
        """Count several values in, which is much faster than one by one."""
        if not isfinite(sum(values)):
            for value in values:
                if not isfinite(value):
                    self.add(value)
            values = [value for value in values if isfinite(value)]
        self._said = None
        self._finite.extend(values)
        self._ordered.extend(values)

    def remove(self, value: float) -> None:
        """Undo one `add` of the value; raises StatsError if it is not there."""
        self._said = None
        if value != value:
            self._remove_nan(value)
            return
        self._ordered.remove(value)
        if isfinite(value):
            self._finite.remove(value)
        else:
            self._count_apart(value, -1)

    def merge(self, *others: Distribution) -> None:
        """Count in all that the others hold; they stay as they are. Several at once is faster."""
        infinite, negative, nans = _apart(others)
        self._said = None
        self._finite.merge(*(other._finite for other in others))
        self._ordered.merge(*(other._ordered for other in others))
        self._infinite += infinite
        self._negative_infinite += negative
        self.nans += nans

    def withdraw(self, values: Sequence[float]) -> None:
        """Undo one `extend` of the values; raises StatsError where `remove` of one would."""
        gone = Distribution()
        gone.extend(values)
        self.unmerge(gone)

    def unmerge(self, *others: Distribution) -> None:
        """Undo one `merge` of the others; raises StatsError if a value is not there."""
        infinite, negative, nans = _apart(others)
        if nans > self.nans:
            raise StatsError.absent("Distribution", nan)
        self._said = None
        self._ordered.unmerge(*(other._ordered for other in others))
        self._finite.unmerge(*(other._finite for other in others))
        self._infinite -= infinite
        self._negative_infinite -= negative
        self.nans -= nans

    def total(self) -> float:
        """The sum, correctly rounded; 0.0 of nothing; infinite or NaN with infinite values."""
        return self._finite.total() + self._infinities()

    def mean(self) -> float | None:
        """The mean, correctly rounded; None of nothing; infinite or NaN with infinite values."""
        if self._infinite or self._negative_infinite:
            return self._infinities()
        return self._finite.mean()

    def median(self) -> float | None:
        """The middle value, or the mean of the two middle ones (S5); None of nothing."""
        return self._ordered.median()

    def mode(self) -> float | None:
        """The most frequent value after rounding to 6 decimals, of several the smallest (R15)."""
        return self._ordered.mode()

    def min(self) -> float | None:
        """The smallest value; None of nothing."""
        return self._ordered.min()

    def max(self) -> float | None:
        """The largest value; None of nothing."""
        return self._ordered.max()

    def std_dev(self, ddof: int = 0) -> float | None:
        """The standard deviation (ddof 1: of a sample); None of nothing or with infinite values (R14)."""
        if self._infinite or self._negative_infinite:
            return None
        return self._finite.std_dev(ddof)

    def variance(self, ddof: int = 0) -> float | None:
        """The variance (ddof 1: of a sample); None of nothing or with infinite values (R14)."""
        if self._infinite or self._negative_infinite:
            return None
        return self._finite.variance(ddof)

    def summary(self, ddof: int = 0) -> dict[str, Any]:
        """The statistics as they travel in JSON (R14); of nothing: count 0, the rest None (R16).

        To be read only: asked again without a change, it is the same object.
        """
        if self._said is not None and self._said[0] == ddof:
            return self._said[1]
        says: dict[str, Any] = {
            "median": json_number(self.median()),
            "mean": json_number(self.mean()),
            "mode": json_number(self.mode()),
            "min": json_number(self.min()),
            "max": json_number(self.max()),
            "std_dev": json_number(self.std_dev(ddof)),
            "count": self.count,
        }
        self._said = (ddof, says)
        return says

    def _infinities(self) -> float:
        """The sum of the infinite values; 0.0 if there are none."""
        if self._infinite and self._negative_infinite:
            return nan
        if self._infinite:
            return inf
        return -inf if self._negative_infinite else 0.0

    def _count_apart(self, value: float, by: int) -> bool:
        """Count a value that is not finite; True if it still has a place in the order."""
        if value != value:
            self.nans += by
            return False
        if value > 0:
            self._infinite += by
        else:
            self._negative_infinite += by
        return True

    def _remove_nan(self, value: float) -> None:
        if not self.nans:
            raise StatsError.absent("Distribution", value)
        self.nans -= 1


def _apart(others: Sequence[Distribution]) -> tuple[int, int, int]:
    """How many values of the others are infinite, negative infinite, NaN."""
    return (
        sum(other._infinite for other in others),
        sum(other._negative_infinite for other in others),
        sum(other.nans for other in others),
    )
