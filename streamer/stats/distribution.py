"""All that one metric of one group keeps."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite, nan
from typing import Any

from streamer.stats.digits import MANY
from streamer.stats.errors import StatsError
from streamer.stats.exact_sum import ExactSum
from streamer.stats.few import FEW, Numbers, median_of_few, numbers_of_few
from streamer.stats.numbers import json_number
from streamer.stats.ordered import OrderedMultiset
from streamer.stats.values import Values


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

    __slots__ = (
        "_few",
        "_finite",
        "_infinite",
        "_median_of_few",
        "_negative_infinite",
        "_ordered",
        "_said",
        "_total",
        "nans",
    )

    _finite: ExactSum
    _ordered: OrderedMultiset

    def __init__(self) -> None:
        self._few: list[float] | None = []  # all values, until they are many
        self._infinite = 0
        self._negative_infinite = 0
        self._forget()
        self.nans = 0
        """NaN values seen; they are in no other number."""

    def _forget(self) -> None:
        """What was worked out no longer holds."""
        self._said: tuple[int, dict[str, Any]] | None = None
        self._total: float | None = None
        self._median_of_few: float | None = None

    @property
    def count(self) -> int:
        """Values held, infinite ones included, NaN not."""
        return len(self._ordered if self._few is None else self._few)

    def add(self, value: float) -> None:
        """Count a value in."""
        self.extend((value,))

    def extend(self, values: Sequence[float] | Values) -> None:
        """Count several values in, which is much faster than one by one."""
        self._forget()
        if not isinstance(values, Values):
            values = Values(values)
        self.nans += values.nans
        if self._few is not None:
            if len(self._few) + values.size <= FEW:
                self._few.extend(values.kept)
                return
            held, self._few = self._few, None
            self._finite, self._ordered = ExactSum(), OrderedMultiset()
            if held:
                self._count_in(Values(held))
        self._count_in(values)

    def remove(self, value: float) -> None:
        """Undo one `add` of the value; raises StatsError if it is not there."""
        self.withdraw((value,))

    def withdraw(self, values: Sequence[float] | Values) -> None:
        """Undo one `extend` of the values; raises StatsError if one is not there, and changes nothing."""
        if not isinstance(values, Values):
            values = Values(values)
        if values.nans > self.nans:
            raise StatsError.absent("Distribution", nan)
        if self._few is None:
            self._ordered.unmerge(OrderedMultiset(values.kept))
            self._finite.unmerge(values.sums)
            self._infinite -= values.infinite
            self._negative_infinite -= values.negative_infinite
        else:
            self._few = _without(self._few, values.kept)
        self.nans -= values.nans
        self._forget()

    def merge(self, *others: Distribution) -> None:
        """Count in all that the others hold; they stay as they are."""
        parts = [(other._values(), other.nans) for other in others]
        for values, nans in parts:
            self.extend(values)
            self.nans += nans

    def unmerge(self, *others: Distribution) -> None:
        """Undo one `merge` of the others; raises StatsError if a value is not there."""
        values = [value for other in others for value in other._values()]
        self.withdraw(values + [nan] * sum(other.nans for other in others))

    def total(self) -> float:
        """The sum, correctly rounded; 0.0 of nothing; infinite or NaN with infinite values."""
        if self._total is None:
            if self._few is None:
                self._total = self._finite.total() + self._infinities()
            else:
                self._total = numbers_of_few(self._few, 0)[1]
        return self._total

    def mean(self) -> float | None:
        """The mean, correctly rounded; None of nothing; infinite or NaN with infinite values."""
        if self._few is not None:
            return numbers_of_few(self._few, 0)[0].mean
        if self._infinite or self._negative_infinite:
            return self._infinities()
        return self._finite.mean()

    def median(self) -> float | None:
        """The middle value, or the mean of the two middle ones (S5); None of nothing."""
        if self._few is None:
            return self._ordered.median()
        if self._median_of_few is None and self._few:
            self._median_of_few = median_of_few(sorted([value + 0.0 for value in self._few]))
        return self._median_of_few

    def mode(self) -> float | None:
        """The most frequent value, compared as it is; of several the smallest (R15)."""
        return self._ordered.mode() if self._few is None else numbers_of_few(self._few, 0)[0].mode

    def min(self) -> float | None:
        """The smallest value; None of nothing."""
        return self._ordered.min() if self._few is None else numbers_of_few(self._few, 0)[0].min

    def max(self) -> float | None:
        """The largest value; None of nothing."""
        return self._ordered.max() if self._few is None else numbers_of_few(self._few, 0)[0].max

    def std_dev(self, ddof: int = 0) -> float | None:
        """The standard deviation (ddof 1: of a sample); None of nothing or with infinite values (R14)."""
        if self._few is not None:
            return numbers_of_few(self._few, ddof)[0].std_dev
        if self._infinite or self._negative_infinite:
            return None
        return self._finite.std_dev(ddof)

    def variance(self, ddof: int = 0) -> float | None:
        """The variance (ddof 1: of a sample); None of nothing or with infinite values (R14)."""
        if self._few is not None:
            return ExactSum.of(self._few).variance(ddof) if all(map(isfinite, self._few)) else None
        if self._infinite or self._negative_infinite:
            return None
        return self._finite.variance(ddof)

    def summary(self, ddof: int = 0) -> dict[str, Any]:
        """The statistics as they travel in JSON (R14); of nothing: count 0, the rest None (R16).

        To be read only: asked again without a change, it is the same object.
        """
        if self._said is not None and self._said[0] == ddof:
            return self._said[1]
        if self._few is None:
            numbers = self._numbers(ddof)
        else:
            numbers, self._total = numbers_of_few(self._few, ddof)
        says: dict[str, Any] = dict(zip(Numbers._fields, numbers, strict=True))
        if numbers.std_dev is None or not isfinite(numbers.std_dev):
            says = {name: json_number(value) for name, value in says.items()}
        says["count"] = self.count
        self._said = (ddof, says)
        return says

    def _numbers(self, ddof: int) -> Numbers:
        return Numbers(self.median(), self.mean(), self.mode(), self.min(), self.max(), self.std_dev(ddof))

    def _values(self) -> list[float]:
        """All values, in no order."""
        return self._ordered.to_list() if self._few is None else self._few.copy()

    def _count_in(self, values: Values) -> None:
        """Count values in where there are many."""
        if values.size < MANY:
            self._ordered.extend(values.kept)
        else:
            self._ordered.extend_with_array(values.array)
        self._infinite += values.infinite
        self._negative_infinite += values.negative_infinite
        if values.finite:
            self._finite.merge(values.sums)

    def _infinities(self) -> float:
        """The sum of the infinite values; 0.0 if there are none."""
        if self._infinite and self._negative_infinite:
            return nan
        if self._infinite:
            return inf
        return -inf if self._negative_infinite else 0.0


def _without(held: list[float], gone: Sequence[float]) -> list[float]:
    left = held.copy()
    for value in gone:
        if value not in left:
            raise StatsError.absent("Distribution", value)
        left.remove(value)
    return left
