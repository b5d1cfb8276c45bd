"""All that one metric of one group keeps."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite, nan
from typing import Any

from streamer.schemas.canonical import json_number
from streamer.stats.errors import StatsError
from streamer.stats.exact_sum import ExactSum
from streamer.stats.held import FewValues, Held, Values, ZerosAndOnes


class Distribution:
    """Median, mean, mode, minimum, maximum, standard deviation and count of one metric of one group.

    Infinite values have their place in the order and can be the mode. They enter no sum and are counted
    apart: the mean is then infinite, NaN between inf and -inf, and the standard deviation is unknown (R14,
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

    __slots__ = ("_held", "_said", "_total", "nans")

    def __init__(self) -> None:
        self._held = self._empty()
        self._forget()
        self.nans = 0
        """NaN values seen; they are in no other number."""

    def _empty(self) -> Held:
        return FewValues()

    def _forget(self) -> None:
        """Drop what was worked out and no longer holds."""
        self._said: tuple[int, dict[str, Any]] | None = None
        self._total: float | None = None

    @property
    def count(self) -> int:
        """Values held, infinite ones included, NaN not."""
        return len(self._held.ordered)

    @property
    def finite(self) -> ExactSum:
        """The exact sums of the finite values, to be read only."""
        return self._held.finite

    def ascending(self) -> list[float]:
        """The values in ascending order, infinite ones included, NaN not."""
        return sorted(self._held.to_list())

    def add(self, value: float) -> None:
        """Count a value in."""
        self.extend((value,))

    def extend(self, values: Sequence[float] | Values) -> None:
        """Count several values in, which is much faster than one by one."""
        counted = values if isinstance(values, Values) else Values(values)
        self._held = self._held.with_more(counted)
        self.nans += counted.nans
        self._forget()

    def remove(self, value: float) -> None:
        """Undo one `add` of the value; raises StatsError if it is not there."""
        self.withdraw((value,))

    def withdraw(self, values: Sequence[float] | Values) -> None:
        """Undo one `extend` of the values; raises StatsError if one is not there, and changes nothing."""
        gone = values if isinstance(values, Values) else Values(values)
        if gone.nans > self.nans:
            raise StatsError.absent("Distribution", nan)
        self._held.take_out(gone)
        self.nans -= gone.nans
        self._forget()

    def merge(self, *others: Distribution) -> None:
        """Count in all that the others hold; they stay as they are."""
        parts = [(other._held.to_list(), other.nans) for other in others]
        for values, nans in parts:
            self.extend(values)
            self.nans += nans

    def unmerge(self, *others: Distribution) -> None:
        """Undo one `merge` of the others; raises StatsError if a value is not there."""
        values = [value for other in others for value in other._held.to_list()]
        self.withdraw(values + [nan] * sum(other.nans for other in others))

    def total(self) -> float:
        """The sum, correctly rounded: 0.0 of nothing, infinite or NaN with infinite values."""
        if self._total is None:
            self._total = self._held.finite.total() + self._infinities()
        return self._total

    def total_over(self, parts: int) -> float:
        """The exact sum over a positive count, rounded once (R18); infinite or NaN with infinite values."""
        return self._held.finite.total_over(parts) + self._infinities()

    def mean(self) -> float | None:
        """The mean, correctly rounded: None of nothing, infinite or NaN with infinite values."""
        return self._infinities() or self._held.finite.mean()

    def median(self) -> float | None:
        """The middle value, or the mean of the two middle ones (S5); None of nothing."""
        return self._held.ordered.median()

    def mode(self) -> float | None:
        """The most frequent value, compared as it is; of several the smallest (R15)."""
        return self._held.ordered.mode()

    def min(self) -> float | None:
        """The smallest value; None of nothing."""
        return self._held.ordered.min()

    def max(self) -> float | None:
        """The largest value; None of nothing."""
        return self._held.ordered.max()

    def std_dev(self, ddof: int = 0) -> float | None:
        """The standard deviation (ddof 1: of a sample); None of nothing or with infinite values (R14)."""
        return None if self._infinities() else self._held.finite.std_dev(ddof)

    def variance(self, ddof: int = 0) -> float | None:
        """The variance (ddof 1: of a sample); None of nothing or with infinite values (R14)."""
        return None if self._infinities() else self._held.finite.variance(ddof)

    def summary(self, ddof: int = 0) -> dict[str, Any]:
        """The statistics as they travel in JSON (R14); of nothing: count 0, the rest None (R16).

        To be read only: asked again without a change, it is the same object.
        """
        if self._said is None or self._said[0] != ddof:
            self._said = (ddof, self._numbers(ddof))
        return self._said[1]

    def _numbers(self, ddof: int) -> dict[str, Any]:
        """The summary, from sums that are worked out once."""
        ordered, finite, infinities = self._held.ordered, self._held.finite, self._infinities()
        self._total = finite.total() + infinities
        spread = None if infinities else finite.std_dev(ddof)
        says: dict[str, Any] = {
            "median": ordered.median(),
            "mean": infinities or finite.mean(),
            "mode": ordered.mode(),
            "min": ordered.min(),
            "max": ordered.max(),
            "std_dev": spread,
        }
        if spread is None or not isfinite(spread):
            says = {name: json_number(value) for name, value in says.items()}
        return says | {"count": len(ordered)}

    def _infinities(self) -> float:
        """The sum of the infinite values; 0.0 if there are none."""
        if self._held.infinite:
            return nan if self._held.negative_infinite else inf
        return -inf if self._held.negative_infinite else 0.0


class Shares(Distribution):
    """A :class:`~streamer.stats.Distribution` of 0 and 1 only; raises StatsError for other values.

    >>> shares = Shares()
    >>> shares.extend([1.0, 1.0, 0.0])
    >>> shares.median(), shares.mean(), shares.summary()["std_dev"]
    (1.0, 0.6666666666666666, 0.4714045207910317)
    """

    __slots__ = ()

    def _empty(self) -> Held:
        return ZerosAndOnes()
