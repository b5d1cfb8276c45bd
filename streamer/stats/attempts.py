"""Attempts at tasks on their way into several counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Sequence

ATTEMPT = 1 << 32
"""One attempt, beside the passes: both counts of a task in one integer."""

_PASSED = ATTEMPT + 1


class Attempts:
    """Some attempts, none of which changes any more.

    >>> tasks = Counter()
    >>> Attempts.of([("a", True), ("b", False), ("a", False)]).tally(tasks, 1)
    >>> tasks
    Counter({'a': 2, 'b': 1})
    """

    __slots__ = ("_held",)

    def __init__(self, held: Sequence[tuple[Hashable, int]] = ()) -> None:
        self._held = held

    @classmethod
    def of(cls, attempts: Iterable[tuple[Hashable, bool]]) -> Attempts:
        """The attempts at some tasks: each task, and whether the attempt passed."""
        return cls([(task, _PASSED if passed else ATTEMPT) for task, passed in attempts])

    @classmethod
    def together(cls, parts: Sequence[Attempts]) -> Attempts:
        """All attempts of some parts."""
        return parts[0] if len(parts) == 1 else cls([held for part in parts for held in part._held])

    def items(self) -> Collection[tuple[Hashable, int]]:
        """Tasks, and attempts * 2^32 + passes of each; the same task may come more than once."""
        return self._held

    def tally(self, tasks: Counter[Hashable], sign: int) -> None:
        """Count the attempts at each task (`sign` 1) or take them back (-1); nothing is kept at zero."""
        if sign > 0:
            tasks.update([task for task, _ in self._held])
            return
        for task, held in self._held:
            tasks[task] -= held // ATTEMPT
            if not tasks[task]:
                del tasks[task]
