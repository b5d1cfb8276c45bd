"""A multiset of floats in order, for minimum, median and maximum."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from math import isinf

import numpy as np

from streamer.stats.errors import StatsError
from streamer.stats.numbers import JsonNumber, json_number

_BLOCK = 1024
"""Values of a block after a rebuild; a block splits at twice that. Inserting moves 8 KiB on average."""

_FEW = 8
"""Up to so many new values are inserted one by one, whatever the size."""

_REBUILD_SHARE = 32
"""More new values than one in so many of the old ones: sorting all again is faster than inserting."""


class OrderedMultiset:
    """Floats, infinite ones included, in ascending order: 8 bytes a value.

    The values lie in sorted blocks of doubles. New values wait unsorted until somebody asks; then few are
    inserted and many are sorted in together. A cursor follows the middle, so that a change and a
    median together cost O(log n) comparisons, amortised, and the move of one block's bytes.
    -0.0 counts as 0.0.

    >>> values = OrderedMultiset()
    >>> for value in (3.0, 1.0, 10.0, 2.0):
    ...     values.add(value)
    ...     print(values.min(), values.median(), values.max())
    3.0 3.0 3.0
    1.0 2.0 3.0
    1.0 3.0 10.0
    1.0 2.5 10.0
    >>> values.remove(1.0)
    >>> list(values)
    [2.0, 3.0, 10.0]
    """

    __slots__ = ("_before", "_blocks", "_fresh", "_middle", "_settled", "_tops")

    def __init__(self, values: Iterable[float] = ()) -> None:
        self._fresh: array[float] = array("d")
        self._rebuild(array("d"))
        self.extend(values)

    @classmethod
    def of_ascending(cls, doubles: bytes) -> OrderedMultiset:
        """The multiset of values that are in ascending order already, as the bytes of doubles."""
        ordered: array[float] = array("d")
        ordered.frombytes(doubles)
        multiset = cls()
        multiset._rebuild(ordered)
        return multiset

    def add(self, value: float) -> None:
        """Count a value in; raises StatsError for NaN, which has no place in an order."""
        if value != value:
            raise StatsError.unfit("OrderedMultiset", value, "floats that are not NaN")
        self._fresh.append(value + 0.0)

    def extend(self, values: Iterable[float]) -> None:
        """Count several values in."""
        for value in values:
            self.add(value)

    def remove(self, value: float) -> None:
        """Undo one `add` of the value; raises StatsError if it is not there."""
        if not self.discard(value):
            raise StatsError.absent("OrderedMultiset", value)

    def discard(self, value: float) -> bool:
        """Take one such value out if there is one, and tell whether there was."""
        found = self._find(value)
        if found is None:
            return False
        index, place = found
        block = self._blocks[index]
        del block[place]
        self._settled -= 1
        if index < self._middle:
            self._before -= 1
        if block:
            self._tops[index] = block[-1]
        else:
            del self._blocks[index], self._tops[index]
            if index < self._middle:
                self._middle -= 1
        if len(self._blocks) > 4 + 8 * self._settled // _BLOCK:
            self._rebuild(self._joined())
        return True

    def merge(self, *others: OrderedMultiset) -> None:
        """Count in all that the others hold; they stay as they are."""
        for other in others:
            self._fresh.extend(other._joined())

    def __len__(self) -> int:
        return self._settled + len(self._fresh)

    def __contains__(self, value: float) -> bool:
        return self._find(value) is not None

    def __iter__(self) -> Iterator[float]:
        """The values in ascending order."""
        self._settle()
        for block in self._blocks:
            yield from block

    def to_array(self) -> array[float]:
        """A copy of the values, ascending, as doubles."""
        self._settle()
        return self._joined()

    def min(self) -> float | None:
        """The smallest value; None of nothing."""
        self._settle()
        return self._blocks[0][0] if self._blocks else None

    def max(self) -> float | None:
        """The largest value; None of nothing."""
        self._settle()
        return self._tops[-1] if self._tops else None

    def median(self) -> float | None:
        """The middle value, or the correctly rounded mean of the two middle ones (S5); None of nothing.

        Between -inf and inf there is no middle: NaN.
        """
        self._settle()
        if not self._settled:
            return None
        half, odd = divmod(self._settled, 2)
        upper = self._at(half)
        return upper if odd else _middle_of(self._at(half - 1), upper)

    def summary(self) -> dict[str, JsonNumber]:
        """Minimum, median, maximum and count, as they travel in JSON."""
        return {
            "min": json_number(self.min()),
            "median": json_number(self.median()),
            "max": json_number(self.max()),
            "count": len(self),
        }

    def _at(self, rank: int) -> float:
        """The value of that rank, from 0; the cursor moves there."""
        blocks = self._blocks
        while rank < self._before:
            self._middle -= 1
            self._before -= len(blocks[self._middle])
        while rank >= self._before + len(blocks[self._middle]):
            self._before += len(blocks[self._middle])
            self._middle += 1
        return blocks[self._middle][rank - self._before]

    def _find(self, value: float) -> tuple[int, int] | None:
        """Block and place of one such value."""
        self._settle()
        index = bisect_left(self._tops, value)
        if index == len(self._blocks):
            return None
        block = self._blocks[index]
        place = bisect_left(block, value)
        return (index, place) if place < len(block) and block[place] == value else None

    def _settle(self) -> None:
        """Bring the waiting values into order."""
        fresh = self._fresh
        if not fresh:
            return
        if not self._settled or len(fresh) > max(_FEW, self._settled // _REBUILD_SHARE):
            everything = self._joined()
            np.frombuffer(everything, dtype=np.float64).sort()
            self._rebuild(everything)
        else:
            for value in fresh:
                self._insert(value)
        self._fresh = array("d")

    def _insert(self, value: float) -> None:
        index = min(bisect_right(self._tops, value), len(self._blocks) - 1)
        block = self._blocks[index]
        block.insert(bisect_right(block, value), value)
        self._settled += 1
        if index < self._middle:
            self._before += 1
        if len(block) > 2 * _BLOCK:
            self._blocks[index : index + 1] = block[:_BLOCK], block[_BLOCK:]
            self._tops[index : index + 1] = block[_BLOCK - 1], block[-1]
            if index < self._middle:
                self._middle += 1
        else:
            self._tops[index] = block[-1]

    def _joined(self) -> array[float]:
        """The sorted blocks, then the waiting values, in one copy."""
        everything: array[float] = array("d")
        for block in self._blocks:
            everything.extend(block)
        everything.extend(self._fresh)
        return everything

    def _rebuild(self, ordered: array[float]) -> None:
        """Start again from values in ascending order."""
        self._settled = len(ordered)
        self._blocks = [ordered[start : start + _BLOCK] for start in range(0, len(ordered), _BLOCK)]
        self._tops = [block[-1] for block in self._blocks]
        self._middle = 0  # index of the block that the cursor is at
        self._before = 0  # how many values lie in the blocks before it


def _middle_of(lower: float, upper: float) -> float:
    """The correctly rounded mean of two values.

    Halving a sum is exact or, among the subnormals, the only rounding; where the sum overflows, both are
    large and halving them first is exact.

    >>> _middle_of(1.5e308, 1.7e308), _middle_of(5e-324, 1e-323), _middle_of(float("-inf"), float("inf"))
    (1.6e+308, 1e-323, nan)
    """
    total = lower + upper
    if isinf(total) and not isinf(lower) and not isinf(upper):
        return lower / 2 + upper / 2
    return total / 2 + 0.0
