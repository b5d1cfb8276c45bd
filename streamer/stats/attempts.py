"""Attempts at tasks on their way into several counts: those at equal tasks are counted together once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from streamer.stats.digits import LARGE, MANY

ATTEMPT = 1 << 32
"""One attempt, beside the passes: both counts of a task in one integer."""

_PASSED = ATTEMPT + 1

_SCATTERED = 8
"""With fewer attempts than one for so many tasks, going through the attempts is faster than by task."""


class Attempts:
    """Some attempts, none of which changes any more.

    >>> tasks = Counter()
    >>> Attempts.of([("a", True), ("b", False), ("a", False)]).tally(tasks, 1)
    >>> tasks
    Counter({'a': 2, 'b': 1})
    """

    __slots__ = ("_counts", "_held", "_stretches")

    def __init__(
        self,
        held: Sequence[tuple[Hashable, int]] = (),
        stretches: Sequence[tuple[_Column, int, int]] = (),
    ) -> None:
        self._held = held
        self._stretches = stretches
        self._counts: dict[Hashable, int] | None = None

    @classmethod
    def of(cls, attempts: Iterable[tuple[Hashable, bool]]) -> Attempts:
        """Those: tasks, and whether they passed."""
        return cls([(task, _PASSED if passed else ATTEMPT) for task, passed in attempts])

    @classmethod
    def parts(
        cls, tasks: Sequence[Hashable], passed: Sequence[bool], bounds: Sequence[int]
    ) -> list[Attempts]:
        """The attempts in each part of a column; a part reaches from one bound to before the next."""
        column = _Column(tasks, passed)
        return [
            cls((), [(column, first, end)])
            if end - first >= LARGE
            else cls.of(zip(tasks[first:end], passed[first:end], strict=True))
            for first, end in pairwise(bounds)
        ]

    @classmethod
    def together(cls, parts: Sequence[Attempts]) -> Attempts:
        """All attempts of some parts."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            [held for part in parts for held in part._held],
            [stretch for part in parts for stretch in part._stretches],
        )

    def items(self) -> Collection[tuple[Hashable, int]]:
        """Tasks, and attempts * 2^32 + passes of each; the same task may come more than once."""
        return self._counted().items() if self._stretches else self._held

    def tally(self, tasks: Counter[Hashable], sign: int) -> None:
        """Count the attempts at each task (`sign` 1) or take them back (-1); nothing is kept at zero."""
        if sign > 0 and not self._stretches:
            tasks.update([task for task, _ in self._held])
            return
        for task, held in self.items():
            tasks[task] += sign * (held // ATTEMPT)
            if not tasks[task]:
                del tasks[task]

    def _counted(self) -> dict[Hashable, int]:
        if self._counts is None:
            counts = self._counts = {}
            for task, held in self._held:
                counts[task] = counts.get(task, 0) + held
            columns: dict[_Column, list[tuple[int, int]]] = {}
            for column, first, end in self._stretches:
                columns.setdefault(column, []).append((first, end))
            for column, stretches in columns.items():
                column.count(counts, stretches)
        return self._counts


class _Column:
    """Attempts in a row."""

    def __init__(self, tasks: Sequence[Hashable], passed: Sequence[bool]) -> None:
        self._tasks = tasks
        self._passed = passed

    def count(self, counts: dict[Hashable, int], stretches: Sequence[tuple[int, int]]) -> None:
        """Add the attempts in some stretches to counts by task."""
        get = counts.get
        number = sum(end - first for first, end in stretches)
        if number < MANY or number * _SCATTERED < len(self._names):
            for first, end in stretches:
                for task, passed in zip(self._tasks[first:end], self._passed[first:end], strict=True):
                    counts[task] = get(task, 0) + ATTEMPT + passed
            return
        places = np.concatenate([self._places[first:end] for first, end in stretches])
        passes = np.concatenate([self._passes[first:end] for first, end in stretches])
        attempts = np.bincount(places)
        held = attempts * ATTEMPT + np.bincount(places[passes], minlength=len(attempts))
        there = np.flatnonzero(attempts)
        for place, added in zip(there.tolist(), held[there].tolist(), strict=True):
            task = self._names[place]
            counts[task] = get(task, 0) + added

    @cached_property
    def _names(self) -> list[Hashable]:
        """Every task once."""
        return list(dict.fromkeys(self._tasks))

    @cached_property
    def _places(self) -> NDArray[np.int64]:
        """The place of each attempt's task among the names."""
        places = {task: place for place, task in enumerate(self._names)}
        return np.fromiter(map(places.__getitem__, self._tasks), np.int64, len(self._tasks))

    @cached_property
    def _passes(self) -> NDArray[np.bool_]:
        return np.array(self._passed, dtype=np.bool_)
