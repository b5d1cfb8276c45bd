"""The most frequent value."""

from __future__ import annotations

from array import array
from heapq import heapify, heappop, heappush

import numpy as np

from streamer.stats.errors import StatsError
from streamer.stats.numbers import JsonNumber, json_number
from streamer.stats.ordered import OrderedMultiset

DECIMALS = 6
"""Values that agree to so many decimals count as the same one (S4)."""

_POWER = 10.0**DECIMALS
_SAFE = 2.0**43 / _POWER
"""Below that, value * 10^6 is off by less than 0.001."""

_WAITING = 4096
"""New values that may wait to be counted: as many Python floats, 128 KiB."""

_FEW = 64
"""Up to so many new distinct values are looked up one by one, whatever the size."""

_SORT_SHARE = 16
"""More new distinct values than one in so many of the old ones: sorting all again is faster."""


def round_to_6(value: float) -> float:
    """The value rounded to 6 decimals, half to even, as `round(value, 6)` does it; never -0.0.

    Python's way through decimal text takes 0.5 microseconds. An integer is its own rounding, and away from
    the half between two candidates a product with 10^6 shows which is nearer.

    >>> round_to_6(0.1234565), round(0.1234565, 6)
    (0.123456, 0.123456)
    """
    if -_SAFE < value < _SAFE:
        scaled = value * _POWER
        nearest = round(scaled)
        if -0.499 < scaled - nearest < 0.499:
            return nearest / _POWER
    return round(value, DECIMALS) + 0.0


class ModeCounter:
    """The most frequent value after rounding to 6 decimals; of several, the smallest (R15, S4).

    With all values distinct it is the smallest one, rounded, so that it can lie outside of [min, max] by
    half a millionth. Values that occur once, usually most of them, lie in an ordered multiset at 8 bytes
    each; only those that occur again have a counter. Removing the top one builds a heap of the others,
    which lives on until it is mostly stale. Infinite values count like others.

    >>> mode = ModeCounter()
    >>> for value in (0.9, 0.5, 0.9000001, 0.5, 0.5):
    ...     mode.add(value)
    ...     print(mode.mode())
    0.9
    0.5
    0.9
    0.5
    0.5
    >>> mode.remove(0.5)
    >>> mode.remove(0.5)
    >>> mode.mode()
    0.9
    """

    __slots__ = ("_counts", "_fresh", "_heap", "_once", "_top", "_top_count")

    def __init__(self) -> None:
        self._counts: dict[float, int] = {}  # values that occur twice or more
        self._once = OrderedMultiset()  # values that occur once
        self._fresh: list[float] = []  # rounded, not yet counted
        self._heap: list[tuple[int, float]] | None = None  # (-count, value), stale entries among them
        self._top = 0.0  # the most frequent of _counts
        self._top_count = 0  # 0: not known

    def add(self, value: float) -> None:
        """Count a value in; raises StatsError for NaN."""
        if value != value:
            raise StatsError.unfit("ModeCounter", value, "floats that are not NaN")
        fresh = self._fresh
        fresh.append(round_to_6(value))
        if len(fresh) >= _WAITING:
            self._settle()

    def remove(self, value: float) -> None:
        """Undo one `add` of the value; raises StatsError if no value with its rounding is there."""
        self._settle()
        rounded = round_to_6(value)
        count = self._counts.get(rounded, 1)
        if count == 1:
            if not self._once.discard(rounded):
                raise StatsError.absent("ModeCounter", value)
            return
        if count == 2:
            del self._counts[rounded]
            self._once.add(rounded)
        else:
            self._counts[rounded] = count - 1
            self._note(rounded, count - 1)
        if rounded == self._top:
            self._top_count = 0

    def merge(self, *others: ModeCounter) -> None:
        """Count in all that the others hold; they stay as they are. Several at once is faster."""
        self._settle()
        repeated: list[tuple[float, int]] = []
        once: array[float] = array("d")
        for other in others:
            other._settle()
            repeated.extend(other._counts.items())
            once.extend(other._once.to_array())
        for value, count in repeated:
            self._raise(value, count)
        if len(once) < _WAITING:
            self._fresh.extend(once)
            return
        distinct, counts = np.unique(np.frombuffer(once, dtype=np.float64), return_counts=True)
        again = counts > 1
        for value, count in zip(distinct[again].tolist(), counts[again].tolist(), strict=True):
            self._raise(value, count)
        self._raise_each(distinct[~again].tolist())

    def mode(self) -> float | None:
        """The most frequent rounded value, of several the smallest; None of nothing."""
        self._settle()
        if not self._counts:
            return self._once.min()
        if not self._top_count:
            self._find_top()
        return self._top

    def summary(self) -> dict[str, JsonNumber]:
        """The mode, as it travels in JSON."""
        return {"mode": json_number(self.mode())}

    def _settle(self) -> None:
        """Count the waiting values."""
        if not self._fresh:
            return
        counts: dict[float, int] = {}
        for value in self._fresh:
            counts[value] = counts.get(value, 0) + 1
        self._fresh = []
        for value, count in counts.items():
            if count > 1:
                self._raise(value, count)
        self._raise_each([value for value, count in counts.items() if count == 1])

    def _raise(self, value: float, by: int) -> None:
        """Count a value that comes twice or more."""
        count = self._counts.get(value, 0)
        if not count and self._once.discard(value):
            count = 1
        self._set(value, count + by)

    def _raise_each(self, values: list[float]) -> None:
        """Count distinct values, each once."""
        counts, unknown = self._counts, []
        for value in values:
            if value in counts:
                self._set(value, counts[value] + 1)
            else:
                unknown.append(value)
        many = len(unknown) > max(_FEW, len(self._once) // _SORT_SHARE)
        for value in self._admit_many(unknown) if many else self._admit_few(unknown):
            self._set(value, 2)

    def _admit_few(self, values: list[float]) -> list[float]:
        """Move values into those that occur once; hand back, taken out, what was among them before."""
        again: list[float] = []
        new: list[float] = []
        for value in values:
            (again if self._once.discard(value) else new).append(value)
        self._once.extend(new)
        return again

    def _admit_many(self, values: list[float]) -> list[float]:
        """The same as `_admit_few` by sorting everything."""
        together = self._once.to_array()
        together.extend(values)
        ordered = np.frombuffer(together, dtype=np.float64)
        ordered.sort()
        twice = ordered[1:] == ordered[:-1]
        again: list[float] = ordered[1:][twice].tolist()
        once = np.ones(len(ordered), dtype=np.bool_)
        once[1:][twice] = False
        once[:-1][twice] = False
        self._once = OrderedMultiset.of_ascending(ordered[once].tobytes())
        return again

    def _set(self, value: float, count: int) -> None:
        self._counts[value] = count
        self._note(value, count)
        known = self._top_count
        if (count > known and (known or len(self._counts) == 1)) or (count == known and value < self._top):
            self._top, self._top_count = value, count

    def _note(self, value: float, count: int) -> None:
        """Keep the heap, if there is one, up to date."""
        if self._heap is not None:
            heappush(self._heap, (-count, value))
            if len(self._heap) > 64 + 2 * len(self._counts):
                self._heap = None

    def _find_top(self) -> None:
        if self._heap is None:
            self._heap = [(-count, value) for value, count in self._counts.items()]
            heapify(self._heap)
        while self._counts.get(self._heap[0][1]) != -self._heap[0][0]:
            heappop(self._heap)
        self._top_count, self._top = -self._heap[0][0], self._heap[0][1]
