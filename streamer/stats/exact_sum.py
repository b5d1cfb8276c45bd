"""Count, sum, mean, variance and standard deviation without any rounding on the way."""

from __future__ import annotations

from math import inf, isfinite

from streamer.stats.errors import StatsError
from streamer.stats.numbers import JsonNumber, json_number, quotient, root_of_quotient


class ExactSum:
    """Sum and sum of squares of finite floats, as integers over a common power of two (R18).

    Every finite float is an integer over a power of two, so both sums are exact, adding and removing are
    inverse to the last bit, and one correctly rounded division at the end gives the answer. The common
    power is the greatest that any value has needed so far: it grows when a finer value comes and starts
    again at 1 when the last value leaves.

    mean = S / n; variance = (n Q - S^2) / (n (n - ddof)); std_dev = its root, where S is the sum and Q the
    sum of squares. ddof 0 is the population's, 1 the sample's.

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

    def _reset(self) -> None:
        self._sum = 0  # over 2 ** shift
        self._squares = 0  # over 2 ** (2 * shift)
        self._shift = 0
        self._scale = 1.0  # 2.0 ** shift; inf beyond the range of floats

    def add(self, value: float) -> None:
        """Count a finite value in; raises StatsError for an infinite one or NaN."""
        scaled = value * self._scale  # exact, as the scale is a power of two, or overflows
        try:
            units = int(scaled)
            if units != scaled:
                units = self._units(value)
        except (OverflowError, ValueError):
            units = self._units(value)
        self._sum += units
        self._squares += units * units
        self.count += 1

    def remove(self, value: float) -> None:
        """Undo one `add` of the value.

        No values are kept, so that only some mistakes show: taking from nothing, and what leaves a
        remainder that no values have. Those raise StatsError.
        """
        units = self._units(value)
        left, rest, squares = self.count - 1, self._sum - units, self._squares - units * units
        if left < 0 or squares < 0 or left * squares < rest * rest:
            raise StatsError.absent("ExactSum", value)
        if left == 0:
            if squares:
                raise StatsError.absent("ExactSum", value)
            self._reset()
        else:
            self._sum, self._squares = rest, squares
        self.count = left

    def merge(self, *others: ExactSum) -> None:
        """Count in all that the others hold; they stay as they are."""
        for other in others:
            self._refine(other._shift)
            finer = self._shift - other._shift
            self._sum += other._sum << finer
            self._squares += other._squares << 2 * finer
            self.count += other.count

    def total(self) -> float:
        """The sum, correctly rounded; 0.0 of nothing; infinite beyond the range of floats."""
        return quotient(self._sum, 1 << self._shift)

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

    def _units(self, value: float) -> int:
        """The value in units of the common power of two, which is refined where the value needs it."""
        if not isfinite(value):
            raise StatsError.unfit("ExactSum", value, "finite floats")
        numerator, denominator = float(value).as_integer_ratio()
        shift = denominator.bit_length() - 1
        self._refine(shift)
        return numerator << self._shift - shift

    def _refine(self, shift: int) -> None:
        finer = shift - self._shift
        if finer > 0:
            self._sum <<= finer
            self._squares <<= 2 * finer
            self._shift = shift
            self._scale = 2.0**shift if shift < 1024 else inf
