"""One metric of one group: exact sums of its values, and the values in order."""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from math import frexp, inf, isfinite, isnan, nan
from operator import mul
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamer.schemas.base import JsonNumber, json_number
from streamer.statistics.exact import (
    FLOAT_BITS,
    LARGEST_EXPONENT,
    StatsError,
    middle_of,
    quotient,
    root_of_quotient,
)

# -----------------------------------------------------------------------------
# Count, sum, mean, variance and standard deviation without intermediate rounding.


class ExactSum:
    """Sum and sum of squares of finite floats, as integers over a common power of two (R18).

    Every finite float is an integer over a power of two, so both sums are exact, and removing undoes
    adding. One correctly rounded division gives the answer.

    With the sum S and the sum of squares Q of n values:

    - mean = S / n
    - variance = (n Q - S^2) / (n (n - ddof)); ddof is 0 for a population, 1 for a sample
    - std_dev = the root of the variance

    >>> total = ExactSum()
    >>> for value in (0.1, 0.2, 0.3, 1e300, -1e300):
    ...     total.add(value)
    ...     print(total.total(), total.mean())
    0.1 0.1
    0.30000000000000004 0.15000000000000002
    0.6 0.2
    1e+300 2.5e+299
    0.6 0.12
    >>> total.remove(1e300)
    >>> total.remove(-1e300)
    >>> total.variance(), total.std_dev(), total.std_dev(ddof=1)
    (0.006666666666666665, 0.0816496580927726, 0.09999999999999999)
    """

    __slots__ = ("_scale", "_shift", "_squares", "_sum", "count")

    def __init__(self) -> None:
        self.count = 0
        self._reset()

    @classmethod
    def of(cls, values: Sequence[float]) -> ExactSum:
        """The sums of finite values; raises StatsError for an infinite one or NaN.

        >>> ExactSum.of([0.1, 0.2]).total()
        0.30000000000000004
        """
        sums = cls()
        sums.extend(values)
        return sums

    def _reset(self) -> None:
        self._sum = 0  # over 2 ** shift
        self._squares = 0  # over 2 ** (2 * shift)
        self._shift = 0
        self._scale = 1.0  # 2.0 ** shift; inf beyond the range of floats

    def add(self, value: float) -> None:
        """Add a finite value; raises StatsError for an infinite one or NaN."""
        self.extend((value,))

    def extend(self, values: Sequence[float]) -> None:
        if len(values) > 1 and self._extend_in_units(values):
            return
        for value in values:
            if not isfinite(value):
                raise StatsError.unfit("ExactSum", value, "finite floats")
        for value in values:
            self._extend_with_one(value)

    def remove(self, value: float) -> None:
        """Undo one `add` of the value. The values are not kept, so only some mistakes raise StatsError."""
        self.unmerge(ExactSum.of((value,)))

    def merge(self, *others: ExactSum) -> None:
        for total, squares, shift, count in [
            (o._sum, o._squares, o._shift, o.count) for o in others if o.count
        ]:
            self._refine(shift)
            finer = self._shift - shift
            self._sum += total << finer
            self._squares += squares << 2 * finer
            self.count += count

    def unmerge(self, *others: ExactSum) -> None:
        """Undo one `merge` of the others; raises StatsError if removing their values does."""
        removed = ExactSum()
        removed.merge(*others)
        if not removed.count:
            return
        self._refine(removed._shift)
        finer = self._shift - removed._shift
        left, rest = self.count - removed.count, self._sum - (removed._sum << finer)
        squares = self._squares - (removed._squares << 2 * finer)
        if left < 0 or squares < 0 or left * squares < rest * rest or (left == 0 and squares):
            raise StatsError.absent("ExactSum", removed.summary())
        self._sum, self._squares, self.count = rest, squares, left
        if left == 0:
            self._reset()

    def total(self) -> float:
        """The sum, correctly rounded: 0.0 when empty, infinite beyond the range of floats."""
        return quotient(self._sum, 1 << self._shift)

    def whole(self) -> tuple[int, int, int]:
        """Exact sum in multiples of 1 / unit, sum of squares in multiples of 1 / unit^2, and the unit.

        >>> ExactSum.of([2, 3]).whole()
        (5, 13, 1)
        """
        return self._sum, self._squares, 1 << self._shift

    def total_over(self, parts: int) -> float:
        """The exact sum over a positive count, rounded once (R18); infinite beyond the range of floats.

        >>> costs = ExactSum.of([0.1, 0.2, 0.3, 0.7, 0.9])
        >>> costs.total_over(5), costs.total() / 5
        (0.44, 0.44000000000000006)
        """
        return quotient(self._sum, parts << self._shift)

    def mean(self) -> float | None:
        """The arithmetic mean, correctly rounded; None when empty (R16)."""
        return quotient(self._sum, self.count << self._shift) if self.count else None

    def variance(self, ddof: int = 0) -> float | None:
        """The variance, correctly rounded; None when empty, 0.0 for one value (S3), inf beyond the range."""
        return quotient(*self._spread(ddof)) if self.count else None

    def std_dev(self, ddof: int = 0) -> float | None:
        """The root of the exact variance, correctly rounded; None when empty, 0.0 for one value (S3)."""
        return root_of_quotient(*self._spread(ddof)) if self.count else None

    def mean_and_std_dev(self, ddof: int) -> tuple[float | None, float | None]:
        if not self.count:
            return None, None
        spread = self._spread(ddof)
        return quotient(self._sum, self.count << self._shift), root_of_quotient(*spread)

    def summary(self, ddof: int = 0) -> dict[str, JsonNumber]:
        return {
            "sum": json_number(self.total()),
            "mean": json_number(self.mean()),
            "variance": json_number(self.variance(ddof)),
            "std_dev": json_number(self.std_dev(ddof)),
            "count": self.count,
        }

    def _spread(self, ddof: int) -> tuple[int, int]:
        if self.count <= max(ddof, 1):
            return 0, 1
        numerator = self.count * self._squares - self._sum * self._sum
        return numerator, self.count * (self.count - ddof) << 2 * self._shift

    def _extend_with_one(self, value: float) -> None:
        numerator, denominator = float(value).as_integer_ratio()
        shift = denominator.bit_length() - 1
        self._refine(shift)
        units = numerator << self._shift - shift
        self._sum += units
        self._squares += units * units
        self.count += 1

    def _extend_in_units(self, values: Sequence[float]) -> bool:
        smallest = min(map(abs, filter(None, values)), default=1)
        finer = 0 if isinstance(smallest, int) else FLOAT_BITS - frexp(smallest)[1]
        if finer > LARGEST_EXPONENT:
            return False
        try:
            scale = self._scale if finer <= self._shift else 2.0**finer
            scaled = [value * scale for value in values]
            units = list(map(int, scaled))
        except (OverflowError, ValueError):
            return False
        if units != scaled:
            return False
        self._refine(finer)
        self._sum += sum(units)
        self._squares += sum(map(mul, units, units))
        self.count += len(units)
        return True

    def _refine(self, shift: int) -> None:
        finer = shift - self._shift
        if finer > 0:
            self._sum <<= finer
            self._squares <<= 2 * finer
            self._shift = shift
            self._scale = 2.0**shift if shift <= LARGEST_EXPONENT else inf


# -----------------------------------------------------------------------------
# The values in order, and what is asked of them.


_FEW = 8
"""Sums of fewer values are computed on demand; larger ones are kept up to date."""

_ONE_BY_ONE = 8
"""The most values that are inserted singly instead of merged; for a large distribution, a share of it."""

_FEW_TO_LOOK_AT = 64
"""The most values for which the mode is found by looking at each in turn."""

_BLOCK = 1024
"""Values of a new block, 8 KiB; at twice this size it is split.

Equal blocks let one distribution reuse memory that another one returned.
"""


class Distribution:
    """Median, mean, mode, minimum, maximum, standard deviation and count of one metric of one group.

    The values are kept in ascending order, 8 bytes each, with their :class:`ExactSum`.

    Infinite values have their place in the order and can be the mode, but are in no sum. With one, the mean
    is infinite (NaN between inf and -inf), and the standard deviation unknown (R14, R18, S9). NaN is counted
    only in `nans`. -0.0 counts as 0.0.

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

    __slots__ = ("_blocks", "_said", "_sums", "count", "nans")

    def __init__(self) -> None:
        self._blocks: list[array[float]] = []  # none of them empty
        self._said: tuple[int, dict[str, Any]] | None = None
        self.count = 0
        """The number of values, including infinite ones but not NaN."""
        self._sums: ExactSum | None = None  # None: to be worked out
        self.nans = 0

    @classmethod
    def of(cls, values: Iterable[float]) -> Self:
        """The distribution of these values.

        >>> Distribution.of([3.0, 1.0, float("nan")]).ascending()
        [1.0, 3.0]
        """
        instance = cls()
        instance.extend(values)
        return instance

    @classmethod
    def joined(cls, parts: Sequence[Distribution]) -> Self:
        """All values of the parts, whose sums are added instead of summed up again.

        >>> Distribution.joined([Distribution.of([1.0, 3.0]), Distribution.of([2.0])]).ascending()
        [1.0, 2.0, 3.0]
        """
        instance = cls()
        every = _concatenated([block for part in parts for block in part._blocks])
        every.sort(kind="stable")  # which merges sorted runs
        instance._hold(every, block=len(every))
        instance.nans = sum(part.nans for part in parts)
        if instance.count >= _FEW:
            instance._sums = ExactSum()
            instance._sums.merge(*(part.finite for part in parts))
        return instance

    def __bool__(self) -> bool:
        return bool(self.count or self.nans)

    @property
    def finite(self) -> ExactSum:
        if self._sums is None:
            self._sums = ExactSum.of(_finite(self.ascending()))
        return self._sums

    def ascending(self) -> list[float]:
        return list(chain.from_iterable(self._blocks))

    def add(self, value: float) -> None:
        self.extend((value,))

    def extend(self, values: Iterable[float]) -> None:
        numbers = [value + 0.0 for value in values]  # never -0.0
        if isnan(sum(numbers)):  # or infinite values cancel out
            every, numbers = numbers, [value for value in numbers if value == value]
            self.nans += len(every) - len(numbers)
        self._insert([array("d", numbers)])
        self._sum_up(ExactSum.extend, lambda: [_finite(numbers)])

    def merge(self, *others: Distribution) -> None:
        parts = [block for other in others for block in other._blocks]
        self.nans += sum([other.nans for other in others])
        if not parts:
            return
        self._insert(parts)
        self._sum_up(ExactSum.merge, lambda: [other.finite for other in others])

    def remove(self, value: float) -> None:
        """Undo one `add` of the value; raises StatsError if it is missing."""
        self.unmerge(Distribution.of((value,)))

    def unmerge(self, *others: Distribution) -> None:
        """Undo one `merge` of the others; raises StatsError, without any change, if a value is missing."""
        if not any(others):
            return
        removed = Distribution()
        removed.merge(*others)
        if removed.nans > self.nans:
            raise StatsError.absent("Distribution", nan)
        if self._are_few(removed.count):
            self._take_out_few(removed.ascending())
        else:
            self._take_out_many(removed._joined())
        self._sum_up(ExactSum.unmerge, lambda: [removed.finite])
        self.nans -= removed.nans
        self._said = None

    def total_over(self, parts: int) -> float:
        """The exact sum over a positive count, rounded once (R18); infinite or NaN with infinite values."""
        return self.finite.total_over(parts) + self._infinities()

    def mean(self) -> float | None:
        """The mean, correctly rounded: None when empty, infinite or NaN with infinite values."""
        return self._infinities() or self.finite.mean()

    def min(self) -> float | None:
        return self._blocks[0][0] if self._blocks else None

    def max(self) -> float | None:
        return self._blocks[-1][-1] if self._blocks else None

    def median(self) -> float | None:
        """The middle value, or the correctly rounded mean of the two middle ones (S5); None when empty.

        Between -inf and inf it is NaN.
        """
        if not self._blocks:
            return None
        half, odd = divmod(self.count, 2)
        upper = self._at(half)
        return upper if odd else middle_of(self._at(half - 1), upper)

    def mode(self) -> float | None:
        """The most frequent value, not rounded; the smallest if several tie (R15). None when empty."""
        if not self._blocks:
            return None
        if self.count <= _FEW_TO_LOOK_AT:
            return _mode_of_few(self.ascending())
        values = self._joined()
        (last,) = (values[1:] != values[:-1]).nonzero()  # the last position of each value
        if len(last) == len(values) - 1:
            return self.min()
        ends = np.concatenate(([-1], last, [len(values) - 1]))
        most_frequent = int(np.argmax(ends[1:] - ends[:-1]))  # the first one of the greatest
        return float(values[int(ends[most_frequent]) + 1])

    def std_dev(self, ddof: int = 0) -> float | None:
        """The standard deviation (ddof 1: of a sample); None when empty or with infinite values (R14)."""
        return None if self._infinities() else self.finite.std_dev(ddof)

    def summary(self, ddof: int = 0) -> dict[str, Any]:
        """The statistics as JSON shows them (R14). When empty, count is 0 and the rest None (R16).

        The object is shared until the next change, so it is read-only.
        """
        if self._said is None or self._said[0] != ddof:
            self._said = (ddof, self._numbers(ddof))
        return self._said[1]

    def _numbers(self, ddof: int) -> dict[str, Any]:
        if self.count <= 1 and not self._infinities():
            says = dict.fromkeys(("median", "mean", "mode", "min", "max"), self.min())
            return says | {"std_dev": 0.0 if self.count else None, "count": self.count}
        infinite = self._infinities()
        mean, spread = (infinite, None) if infinite else self.finite.mean_and_std_dev(ddof)
        says = {
            "median": self.median(),
            "mean": mean,
            "mode": self.mode(),
            "min": self.min(),
            "max": self.max(),
            "std_dev": spread,
        }
        if spread is None or not isfinite(spread):
            says = {name: json_number(value) for name, value in says.items()}
        return says | {"count": self.count}

    def _sum_up(self, change: Callable[..., None], by: Callable[[], list[Any]]) -> None:
        if self.count < _FEW:
            self._sums = None
        elif self._sums is not None:
            change(self._sums, *by())

    def _infinities(self) -> float:
        if not self._blocks:
            return 0.0
        least, most = self._blocks[0][0], self._blocks[-1][-1]
        if -inf < least and most < inf:
            return 0.0
        return (inf if most == inf else 0.0) + (-inf if least == -inf else 0.0)

    def _at(self, rank: int) -> float:
        for block in self._blocks:
            if rank < len(block):
                return block[rank]
            rank -= len(block)
        raise IndexError(rank)

    def _joined(self) -> NDArray[np.float64]:
        return _concatenated(self._blocks)

    def _are_few(self, changes: int) -> bool:
        return changes <= max(_ONE_BY_ONE, self.count // _BLOCK)

    def _insert(self, parts: list[array[float]]) -> None:
        self._said = None
        count = sum(map(len, parts))
        if self._are_few(count):
            for value in list(chain.from_iterable(parts)):
                self._insert_one(value)
            return
        every = _concatenated([*self._blocks, *parts])
        every.sort(kind="stable")
        self._hold(every)

    def _insert_one(self, value: float) -> None:
        self.count += 1
        if not self._blocks:
            self._blocks = [array("d", (value,))]
            return
        last = len(self._blocks) - 1
        number = last and min(self._number_of(value), last)
        block = self._blocks[number]
        insort_right(block, value)
        if len(block) > 2 * _BLOCK:
            self._blocks[number : number + 1] = block[:_BLOCK], block[_BLOCK:]

    def _take_out_few(self, values: list[float]) -> None:
        for done, value in enumerate(values):
            if not self._take_out_one(value):
                for taken in values[:done]:
                    self._insert_one(taken)
                raise StatsError.absent("Distribution", value)

    def _take_out_one(self, value: float) -> bool:
        number = self._number_of(value)
        if number == len(self._blocks):
            return False
        block = self._blocks[number]
        place = bisect_left(block, value)
        if block[place] != value:
            return False
        del block[place]
        if not block:
            del self._blocks[number]
        self.count -= 1
        return True

    def _take_out_many(self, leaving: NDArray[np.float64]) -> None:
        joined = self._joined()
        places = joined.searchsorted(leaving) + np.arange(len(leaving)) - leaving.searchsorted(leaving)
        absent = places >= len(joined)
        absent[~absent] = joined[places[~absent]] != leaving[~absent]
        if absent.any():
            raise StatsError.absent("Distribution", float(leaving[absent][0]))
        self._hold(np.delete(joined, places))

    def _number_of(self, value: float) -> int:
        return bisect_left([block[-1] for block in self._blocks], value)

    def _hold(self, ordered: NDArray[np.float64], block: int = _BLOCK) -> None:
        starts = range(0, len(ordered), block or 1)
        self._blocks = [array("d", ordered[start : start + block].tobytes()) for start in starts]
        self.count = len(ordered)


T = TypeVar("T", ExactSum, Distribution)


def join(totals: Mapping[str, T], parts: Mapping[str, T], sign: int) -> None:
    """Merge each part into the total with its name (`sign` 1), or undo that (-1)."""
    for name, part in parts.items():
        if sign > 0:
            totals[name].merge(part)
        else:
            totals[name].unmerge(part)


def _mode_of_few(ascending: list[float]) -> float:
    found, most, times, before = ascending[0], 1, 0, ascending[0]
    for value in ascending:
        times = times + 1 if value == before else 1
        if times > most:
            found, most = value, times
        before = value
    return found


def _finite(values: list[float]) -> list[float]:
    return values if isfinite(sum(values)) else [value for value in values if isfinite(value)]


def _concatenated(parts: list[array[float]]) -> NDArray[np.float64]:
    return np.concatenate(list(map(np.frombuffer, parts))) if parts else np.empty(0)
