"""Which files are still being written: those that do not parse yet and changed a moment ago."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from streamer.sources.files import FileError, read_json

STILL_SECONDS = 5.0
"""A file that does not parse and did not change for so long is not being written: it is broken."""

Signature = tuple[int, int, int]
"""Time of the last write in Unix nanoseconds, size in bytes, inode."""


class Settling:
    """Remembers since when each broken file has been as it is.

    Args:
        still_seconds: see :data:`STILL_SECONDS`.
        clock: seconds that only grow.
        wall: Unix seconds, as file systems stamp changes with.
    """

    def __init__(
        self,
        still_seconds: float = STILL_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._still = still_seconds
        self._clock = clock
        self._wall = wall
        self._since: dict[Path, tuple[Signature, float]] = {}

    def unsettled(self, suspects: Iterable[Path]) -> set[Path]:
        """Those of the files that may yet become readable. Files that parse, or are gone, are not."""
        return {path for path in set(suspects) if self._is_unsettled(path)}

    def fresh(self, suspects: Iterable[Path]) -> set[Path]:
        """Those that changed a moment ago, readable or not: what was said of them may be out of date."""
        return {path for path in set(suspects) if self._wall() - _changed_at(path) < self._still}

    def _is_unsettled(self, path: Path) -> bool:
        try:
            found = os.stat(path)
        except OSError:
            self._since.pop(path, None)
            return False
        if not os.path.isfile(path) or _parses(path):
            self._since.pop(path, None)
            return False
        signature = (found.st_mtime_ns, found.st_size, found.st_ino)
        now = self._clock()
        held = self._since.get(path)
        if held is None and self._wall() - found.st_ctime >= self._still:
            held = (signature, now - self._still)
        if held is None or held[0] != signature:
            held = (signature, now)
        self._since[path] = held
        return now - held[1] < self._still


def _changed_at(path: Path) -> float:
    """When a file changed last, in Unix seconds; long ago if it is none."""
    try:
        return os.stat(path).st_ctime if path.is_file() else 0.0
    except OSError:
        return 0.0


def _parses(path: Path) -> bool:
    try:
        read_json(path)
    except FileError:
        return False
    return True
