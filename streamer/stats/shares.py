"""The distribution of values that are all 0 or 1: two counts hold everything."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from typing import Any

from streamer.stats.errors import StatsError
from streamer.stats.few import NOTHING, Numbers
from streamer.stats.numbers import quotient, root_of_quotient
from streamer.stats.values import Values


class Shares:
    """What :class:`~streamer.stats.Distribution` says, of values 0.0 and 1.0 only.

    >>> shares = Shares()
    >>> shares.extend(Values([1.0, 1.0, 0.0]))
    >>> shares.median(), shares.mean(), shares.summary()["std_dev"]
    (1.0, 0.6666666666666666, 0.4714045207910317)
    """

    __slots__ = ("_said", "count", "ones")

    def __init__(self) -> None:
        self.count = 0
        """Values held."""
        self.ones = 0
        self._said: tuple[int, dict[str, Any]] | None = None

    def add(self, value: float) -> None:
        """Count a value in; raises StatsError if it is neither 0 nor 1."""
        self.extend((value,))

    def extend(self, values: Sequence[float] | Values) -> None:
        """Count several values in; raises StatsError, and changes nothing, if one is neither 0 nor 1."""
        self._shift(*_counts(values))

    def remove(self, value: float) -> None:
        """Undo one `add` of the value; raises StatsError if it is not there."""
        self.withdraw((value,))

    def withdraw(self, values: Sequence[float] | Values) -> None:
        """Undo one `extend` of the values; raises StatsError, and changes nothing, if one is not there."""
        count, ones = _counts(values)
        if not 0 <= self.ones - ones <= self.count - count:
            raise StatsError.absent("Shares", {"zeros": count - ones, "ones": ones})
        self._shift(-count, -ones)

    def merge(self, *others: Shares) -> None:
        """Count in all that the others hold; they stay as they are."""
        for count, ones in [(other.count, other.ones) for other in others]:
            self._shift(count, ones)

    def unmerge(self, *others: Shares) -> None:
        """Undo one `merge` of the others; raises StatsError if a value is not there."""
        ones = sum(other.ones for other in others)
        self.withdraw([1.0] * ones + [0.0] * (sum(other.count for other in others) - ones))

    def _shift(self, count: int, ones: int) -> None:
        self.count += count
        self.ones += ones
        self._said = None

    def total(self) -> float:
        """The sum."""
        return float(self.ones)

    def total_over(self, parts: int) -> float:
        """The sum over a positive count."""
        return self.ones / parts

    def mean(self) -> float | None:
        """The share of ones, correctly rounded; None of nothing."""
        return quotient(self.ones, self.count) if self.count else None

    def median(self) -> float | None:
        """The middle value, 0.5 where there are as many of both (S5); None of nothing."""
        if not self.count:
            return None
        zeros = self.count - self.ones
        return 0.5 if zeros == self.ones else 1.0 if self.ones > zeros else 0.0

    def summary(self, ddof: int = 0) -> dict[str, Any]:
        """As :meth:`Distribution.summary <streamer.stats.Distribution.summary>`: to be read only."""
        if self._said is None or self._said[0] != ddof:
            self._said = (ddof, self._numbers(ddof)._asdict() | {"count": self.count})
        return self._said[1]

    def _numbers(self, ddof: int) -> Numbers:
        count, ones = self.count, self.ones
        if not count:
            return NOTHING
        low, high = float(ones == count), float(ones > 0)
        spread = 0.0
        if count > max(ddof, 1):
            spread = root_of_quotient(ones * (count - ones), count * (count - ddof))
        return Numbers(self.median(), self.mean(), float(2 * ones > count), low, high, spread)


def _counts(values: Sequence[float] | Values) -> tuple[int, int]:
    """How many values there are, and how many of them are 1."""
    held = values if isinstance(values, Values) else Values(values)
    zeros, ones = held.zeros_and_ones
    if zeros + ones != len(held):
        raise StatsError.unfit("Shares", [*held.kept, *[nan] * held.nans], "0 and 1")
    return ones + zeros, ones
