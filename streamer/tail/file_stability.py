"""Whether what a reading complained of is still so: files are written in place, moved and deleted meanwhile.

A reading takes a while, and what it found wrong with a file may be out of date when it ends. So each path
that it complained of is looked at again after it. Where the path looks as it did before the reading began,
the reading saw what is there now; anything else waits for the next reading.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from streamer.sources.files import FileError, read_json

STILL_SECONDS = 5.0
"""A file that does not parse and did not change for so long is not being written: it is broken."""

STAMP_SECONDS = 0.02
"""File systems stamp changes with a clock that ticks more than 100 times a second: two changes of a file
within one tick may look like one."""

Signature = tuple[int, int, int, int]
"""Kind, inode, time of the last change in Unix nanoseconds (no program can set it), size in bytes.

The last two are 0 for all but regular files: a directory changes with all that comes into it.
"""


class Stability(Enum):
    """The worth of a complaint about a path after the scan that made it."""

    GONE = auto()
    """There is no such path any more."""

    CHANGED = auto()
    """The file may have changed since it was read: only the next reading knows."""

    WRITING = auto()
    """The file is no JSON yet, and changed a moment ago."""

    FRESH = auto()
    """The reading saw it as it is, but it changed a moment ago, and may again."""

    STANDS = auto()
    """The file is as the scan saw it, and has been for long."""


def unstable_paths(stabilities: Mapping[Path, Stability]) -> set[Path]:
    """Paths of which the next reading may find something else: nothing that depends on them is published."""
    return {
        path for path, verdict in stabilities.items() if verdict not in (Stability.FRESH, Stability.STANDS)
    }


@dataclass(slots=True)
class _Sighting:
    """How a path looks, when that was seen first and last, and since when it has been so."""

    signature: Signature
    first: float
    last: float
    since: float


class FileStability:
    """Remembers since when each path that was complained of has been as it is.

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
        self._held: dict[Path, _Sighting] = {}

    def begin(self) -> float:
        """The moment at which a reading begins, by the clock."""
        return self._clock()

    def judge(self, suspects: Iterable[Path], begun: float) -> dict[Path, Stability]:
        """The state of the paths that a scan, begun then, complained of."""
        return {path: self._verdict(path, begun) for path in set(suspects)}

    def forget(self, before: float) -> None:
        """Forget the paths that no reading complained of since then."""
        self._held = {path: held for path, held in self._held.items() if held.last >= before}

    def _verdict(self, path: Path, begun: float) -> Stability:
        found = _look(path)
        if found is None:
            self._held.pop(path, None)
            return Stability.GONE
        held = self._noted(path, *found, begun)
        seen_before = begun - held.first > STAMP_SECONDS
        still = held.last - held.since >= self._still or not _is_file(held)
        if not seen_before and held.since == held.first:
            return Stability.CHANGED
        if not still and not _parses(path):
            return Stability.WRITING
        return Stability.STANDS if seen_before and still else Stability.FRESH

    def _noted(self, path: Path, signature: Signature, changed: float, begun: float) -> _Sighting:
        """The path as it was held, if it looks as it did; a file that is new and old has long been so."""
        now = self._clock()
        held = self._held.get(path)
        if held is None or held.signature != signature:
            is_old = held is None and self._wall() - (now - begun) - changed >= self._still
            held = _Sighting(signature, now, now, now - self._still if is_old else now)
            self._held[path] = held
        held.last = now
        return held


def _look(path: Path) -> tuple[Signature, float] | None:
    """How a path looks and when it changed, in Unix seconds; None if it is known not to be there."""
    try:
        found = _stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:  # not allowed to look, or a disk that fails: it may be there
        return (0, error.errno or 0, 0, 0), 0.0
    kind = stat.S_IFMT(found.st_mode)
    if kind != stat.S_IFREG:
        return (kind, found.st_ino, 0, 0), 0.0
    return (kind, found.st_ino, found.st_ctime_ns, found.st_size), found.st_ctime


def _stat(path: Path) -> os.stat_result:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return os.lstat(path)  # a link to nowhere is there


def _is_file(held: _Sighting) -> bool:
    return held.signature[0] == stat.S_IFREG


def _parses(path: Path) -> bool:
    try:
        read_json(path)
    except FileError:
        return False
    return True
