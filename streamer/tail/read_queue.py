"""Which parts of a directory are to be read again, and when; none of them alone keeps the machine busy."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

AGAIN_SECONDS = 0.5
"""A part is read once more so long after a change: the system may not tell of a new directory's files."""

REST = 4.0
"""A part that keeps changing is not read again before so many times as long as reading it took: one file
may hold thousands of results."""

_LONG_AGO = -math.inf


@dataclass(slots=True)
class _QueuedPart:
    """A part that waits.

    Attributes:
        changed: when; long ago for one that was found rather than changed.
        due: when to read it.
        rested: not before this.
        last: after all others.
    """

    changed: float
    due: float
    rested: float
    last: bool


class ReadQueue:
    """Parts that wait to be read.

    Args:
        clock: seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._entries: dict[Path, _QueuedPart] = {}

    def changed(self, part: Path, *, last: bool = False) -> None:
        """Something in it changed just now. `last`: it says what is better said after all the rest."""
        now = self._clock()
        held = self._entries.get(part)
        rested = held.rested if held else _LONG_AGO
        self._entries[part] = _QueuedPart(now, max(now, rested), rested, last)

    def found(self, part: Path) -> None:
        """Queue a path that is there: read it as soon as there is nothing better to do."""
        now = self._clock()
        held = self._entries.setdefault(part, _QueuedPart(_LONG_AGO, now, _LONG_AGO, last=False))
        held.due = min(held.due, max(now, held.rested))

    def ready(self) -> list[Path]:
        """The paths that are due: changed ones first, the earliest change before others."""
        now = self._clock()
        due = [(part, entry) for part, entry in self._entries.items() if entry.due <= now]
        due.sort(key=lambda item: (item[1].last, item[1].changed == _LONG_AGO, item[1].due))
        return [part for part, _ in due]

    def is_quiet(self, part: Path) -> bool:
        """Whether it has not changed for a while."""
        return self._clock() - self._entries[part].changed >= AGAIN_SECONDS

    def was_read(self, part: Path, begun: float, *, again: bool) -> None:
        """Note that a path was read just now, from that moment on. `again`: another reading may find more."""
        now = self._clock()
        entry = self._entries[part]
        if again or begun - entry.changed < AGAIN_SECONDS:
            entry.rested = now + REST * (now - begun)
            entry.due = max(now + AGAIN_SECONDS, entry.rested)
        else:
            del self._entries[part]
