"""Count, sum, mean, variance and standard deviation without any rounding on the way."""

from __future__ import annotations

from collections.abc import Sequence
from math import frexp, inf, isfinite
from operator import mul

from streamer.schemas.canonical import JsonNumber, json_number
from streamer.stats.errors import StatsError
from streamer.stats.rounding import FLOAT_BITS, LARGEST_EXPONENT, quotient, root_of_quotient


class ExactSum:
    """Sum and sum of squares of finite floats, as integers over a common power of two (R18).

    Every finite float is an integer over a power of two, so both sums are exact. Adding and removing are
    inverse to the last bit. One correctly rounded division at the end gives the answer. The common power
    is the greatest that any value so far has needed, or any column that values came with. It grows when
    a finer one comes, and starts again at 1 when the last value leaves.

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
        """Values held."""
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
        """Count a finite value in; raises StatsError for an infinite one or NaN."""
        self.extend((value,))

    def extend(self, values: Sequence[float]) -> None:
        """Count several finite values in; raises StatsError for an infinite one or NaN."""
        if self._extend_in_units(values):
            return
        for value in values:
            if not isfinite(value):
                raise StatsError.unfit("ExactSum", value, "finite floats")
        for value in values:
            self._extend_with_one(value)

    def remove(self, value: float) -> None:
        """Undo one `add` of the value.

        No values are kept, so that only some mistakes show: taking from nothing, and what leaves a
        remainder that no values have. Those raise StatsError.
        """
        self.unmerge(ExactSum.of((value,)))

    def merge(self, *others: ExactSum) -> None:
        """Count in all that the others hold; they stay as they are."""
        for total, squares, shift, count in [(o._sum, o._squares, o._shift, o.count) for o in others]:
            self._refine(shift)
            finer = self._shift - shift
            self._sum += total << finer
            self._squares += squares << 2 * finer
            self.count += count

    def unmerge(self, *others: ExactSum) -> None:
        """Undo one `merge` of the others; raises StatsError where `remove` of their values would."""
        gone = ExactSum()
        gone.merge(*others)
        self._refine(gone._shift)
        finer = self._shift - gone._shift
        left, rest = self.count - gone.count, self._sum - (gone._sum << finer)
        squares = self._squares - (gone._squares << 2 * finer)
        if left < 0 or squares < 0 or left * squares < rest * rest or (left == 0 and squares):
            raise StatsError.absent("ExactSum", gone.summary())
        self._sum, self._squares, self.count = rest, squares, left
        if left == 0:
            self._reset()

    def total(self) -> float:
        """The sum, correctly rounded: 0.0 of nothing, infinite beyond the range of floats."""
        return quotient(self._sum, 1 << self._shift)

    def whole(self) -> tuple[int, int, int]:
        """Sum in multiples of 1 / unit, sum of squares in multiples of 1 / unit^2, and the unit; all exact.

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
        """The arithmetic mean, correctly rounded; None of nothing (R16)."""
        return quotient(self._sum, self.count << self._shift) if self.count else None

    def variance(self, ddof: int = 0) -> float | None:
        """The variance, correctly rounded; None of nothing, 0.0 of one value (S3), inf beyond the range."""
        return quotient(*self._spread(ddof)) if self.count else None

    def std_dev(self, ddof: int = 0) -> float | None:
        """The root of the exact variance, correctly rounded; None of nothing, 0.0 of one value (S3)."""
        return root_of_quotient(*self._spread(ddof)) if self.count else None

    def summary(self, ddof: int = 0) -> dict[str, JsonNumber]:
        """Sum, mean, variance, std_dev and count, as they travel in JSON."""
        return {
            "sum": json_number(self.total()),
            "mean": json_number(self.mean()),
            "variance": json_number(self.variance(ddof)),
            "std_dev": json_number(self.std_dev(ddof)),
            "count": self.count,
        }

    def _spread(self, ddof: int) -> tuple[int, int]:
        """The variance as numerator and denominator."""
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
        """Count the values in, in units so fine that the smallest is whole; False: they lie too far apart.

        Floats multiply by a power of two without rounding, so the units are exact.
        """
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
