"""A multiset of floats in order, for minimum, median, maximum and mode."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from streamer.schemas.canonical import JsonNumber, json_number
from streamer.stats.errors import StatsError
from streamer.stats.ranked import Ranked, most_frequent, precedes, runs_of

_BLOCK = 1024
"""Values of a block after a rebuild; a block splits at twice that. Inserting moves 8 KiB on average."""

_FEW = 8
"""Up to so many values are inserted or taken out one by one, whatever the size."""

_SMALL = 256
"""Up to so many values in all, Python's sort is faster than numpy's calls."""

_REBUILD_SHARE = 256
"""More changes than one in so many of the values held: merging all again is faster, at 3 ns a value."""


class OrderedMultiset(Ranked):
    """Floats, infinite ones included, in ascending order: 8 bytes a value.

    The values lie in sorted blocks of doubles. New values wait unsorted until somebody asks; then few are
    inserted and many are merged in together. A cursor follows the middle, so that a change and a median
    together cost O(log n) comparisons, amortised, and the move of one block's bytes. The mode follows
    single changes; after many it is looked for again when somebody asks. -0.0 counts as 0.0.

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

    __slots__ = (
        "_before",
        "_blocks",
        "_fresh",
        "_fresh_parts",
        "_middle",
        "_settled",
        "_top",
        "_top_count",
        "_tops",
    )

    def __init__(self, values: Iterable[float] = ()) -> None:
        self._fresh: list[float] = []
        self._fresh_parts: list[NDArray[np.float64]] = []
        self._top, self._top_count = 0.0, 0  # the mode, and how often it occurs; 0: not known
        self._rebuild(array("d"))
        for value in values:
            self.add(value)

    def add(self, value: float) -> None:
        """Count a value in; raises StatsError for NaN, which has no place in an order."""
        if value != value:
            raise StatsError.unfit("OrderedMultiset", value, "floats that are not NaN")
        self._fresh.append(value)

    def extend(self, values: Iterable[float]) -> None:
        """Count several values in, none of them NaN."""
        self._fresh.extend(values)

    def extend_with_array(self, values: NDArray[np.float64]) -> None:
        """Likewise; the array is kept until somebody asks, and must not change until then."""
        self._fresh_parts.append(values)

    def remove(self, value: float) -> None:
        """Undo one `add` of the value; raises StatsError if it is not there."""
        found = self._find(value)
        if found is None:
            raise StatsError.absent("OrderedMultiset", value)
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
        if self._top_count and value == self._top:
            self._top_count = 0
        if len(self._blocks) > 4 + 8 * self._settled // _BLOCK:
            self._rebuild(_doubles(self._joined()))

    def merge(self, *others: OrderedMultiset) -> None:
        """Count in all that the others hold; they stay as they are."""
        for values in [other.to_list() for other in others]:
            self._fresh.extend(values)

    def unmerge(self, *others: OrderedMultiset) -> None:
        """Undo one `merge` of the others; raises StatsError, and changes nothing, if a value is not there."""
        gone = np.array([value for other in others for value in other.to_list()], dtype=np.float64)
        self._settle()
        if len(gone) <= max(_FEW, self._settled // _REBUILD_SHARE) and len(others) == 1:
            self._unmerge_few(gone.tolist())
            return
        gone += 0.0
        gone.sort()
        held = self._joined()
        places = held.searchsorted(gone) + np.arange(len(gone)) - gone.searchsorted(gone)
        if len(gone) and (places[-1] >= len(held) or (held[places] != gone).any()):
            raise StatsError.absent("OrderedMultiset", gone.tolist())
        self._rebuild(_doubles(np.delete(held, places)))

    def __len__(self) -> int:
        return self._settled + len(self._fresh) + sum(map(len, self._fresh_parts))

    def __contains__(self, value: float) -> bool:
        return self._find(value) is not None

    def __iter__(self) -> Iterator[float]:
        """The values in ascending order."""
        self._settle()
        yield from chain.from_iterable(self._blocks)

    def to_list(self) -> list[float]:
        """The values, in no order."""
        fresh = (part.tolist() for part in self._fresh_parts)
        return [*self._fresh, *chain.from_iterable(fresh), *chain.from_iterable(self._blocks)]

    def summary(self) -> dict[str, JsonNumber]:
        """Minimum, median, maximum, mode and count, as they travel in JSON."""
        return {
            "min": json_number(self.min()),
            "median": json_number(self.median()),
            "max": json_number(self.max()),
            "mode": json_number(self.mode()),
            "count": len(self),
        }

    def at(self, rank: int) -> float:
        """The value of that rank, from 0; unless it is the first or the last, the cursor moves there."""
        if self._fresh or self._fresh_parts:
            self._settle()
        if rank == 0:
            return self._blocks[0][0]
        if rank == self._settled - 1:
            return self._tops[-1]
        blocks = self._blocks
        while rank < self._before:
            self._middle -= 1
            self._before -= len(blocks[self._middle])
        while rank >= self._before + len(blocks[self._middle]):
            self._before += len(blocks[self._middle])
            self._middle += 1
        return blocks[self._middle][rank - self._before]

    def _find_mode(self) -> float:
        self._settle()
        if not self._top_count:
            self._top, self._top_count = most_frequent(*runs_of(self._joined()))
        return self._top

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
        fresh, parts = self._fresh, self._fresh_parts
        if not fresh and not parts:
            return
        self._fresh, self._fresh_parts = [], []
        count = len(fresh) + sum(map(len, parts))
        if self._settled and count <= max(_FEW, self._settled // _REBUILD_SHARE):
            for value in chain(fresh, *(part.tolist() for part in parts)):
                self._insert(value + 0.0)
        elif not parts and self._settled + count <= _SMALL:
            self._rebuild(array("d", sorted(chain(*self._blocks, [value + 0.0 for value in fresh]))))
        else:
            if fresh:
                parts.append(np.array(fresh, dtype=np.float64) + 0.0)
            new = np.concatenate(parts)
            new.sort()
            if self._settled:
                new = np.concatenate([*map(np.frombuffer, self._blocks), new])
                new.sort(kind="stable")  # which merges what is in order already
            self._rebuild(_doubles(new))

    def _insert(self, value: float) -> None:
        index = min(bisect_right(self._tops, value), len(self._blocks) - 1)
        block = self._blocks[index]
        place = bisect_right(block, value)
        block.insert(place, value)
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
        if self._top_count:
            self._raise_top(block, place)

    def _raise_top(self, block: array[float], place: int) -> None:
        """The mode after an insertion; unknown (0) where equal values reach over the block's end."""
        value = block[place]
        first, end = bisect_left(block, value), bisect_right(block, value)
        if (first == 0 or end == len(block)) and len(self._blocks) > 1:
            self._top_count = 0
        elif precedes(value, end - first, self._top, self._top_count):
            self._top, self._top_count = value, end - first

    def _unmerge_few(self, values: list[float]) -> None:
        for done, value in enumerate(values):
            try:
                self.remove(value)
            except StatsError:
                self._fresh.extend(values[:done])
                raise

    def _joined(self) -> NDArray[np.float64]:
        """The sorted blocks in one; to be let go before anything changes."""
        if len(self._blocks) == 1:
            return np.frombuffer(self._blocks[0], dtype=np.float64)
        return np.concatenate([np.empty(0), *map(np.frombuffer, self._blocks)])

    def _rebuild(self, ordered: array[float]) -> None:
        """Start again from values in ascending order."""
        self._settled = len(ordered)
        if self._settled <= _BLOCK:
            self._blocks = [ordered] if ordered else []
        else:
            self._blocks = [ordered[start : start + _BLOCK] for start in range(0, self._settled, _BLOCK)]
        self._tops = [block[-1] for block in self._blocks]
        self._middle = 0  # index of the block that the cursor is at
        self._before = 0  # how many values lie in the blocks before it
        self._top_count = 0


def _doubles(values: NDArray[np.float64]) -> array[float]:
    doubles: array[float] = array("d")
    doubles.frombytes(values.tobytes())
    return doubles
