"""Which published results and starts a directory no longer holds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

from streamer.tail.ledger import ResultKey
from streamer.tail.scan import Scan

GONE_SECONDS = 10.0
"""A result is withdrawn when its file has been gone for so long, and the run is still there."""


class Deletions:
    """Remembers since when each file has been gone.

    Args:
        seconds: see :data:`GONE_SECONDS`.
        keep_deleted: no result goes because its file is gone.

    Attributes:
        waiting: whether a result may go soon.
        doubtful: whether the next reading decides about one whose file is there and says something else.
    """

    def __init__(self, seconds: float = GONE_SECONDS, *, keep_deleted: bool = False) -> None:
        self.waiting = self.doubtful = False
        self._seconds = seconds
        self._keep_deleted = keep_deleted
        self._since: dict[ResultKey, float] = {}
        self._elsewhere: set[ResultKey] = set()

    def find(
        self,
        missing: Iterable[tuple[ResultKey, Path]],
        scan: Scan,
        undecided: Callable[[Path], bool],
    ) -> list[ResultKey]:
        """The slots to withdraw now. Nothing of a run that is gone as a whole, or holds no trial any more.

        One whose file is there and says something else goes when a second reading finds the same: the first
        may have looked while the file was elsewhere.

        Args:
            missing: slots of which the directory does not say what was published, and the file that it was
                read from; for a start the trial's directory.
            scan: what the directory says.
            undecided: whether a file is being written, so that its contents are not known yet.
        """
        homes = {run.path for run in scan.runs}
        populated = _above({path for path, _ in (*scan.trials, *scan.starts)}, homes)
        broken = {place for path, _ in scan.report.unreadable for place in (path, path.parent)}
        now = time.monotonic()
        since: dict[ResultKey, float] = {}
        elsewhere: set[ResultKey] = set()
        found = []
        for key, path in missing:
            home = next((place for place in (path, *path.parents) if place in homes), None)
            if home not in populated or path in broken or undecided(path):
                continue
            there = _is_there(path)
            if there:
                elsewhere.add(key)
            elif there is False and not self._keep_deleted:
                since[key] = self._since.get(key, now)
            if key in elsewhere & self._elsewhere or (key in since and now - since[key] >= self._seconds):
                found.append(key)
        self._since = {key: at for key, at in since.items() if key not in found}
        self._elsewhere = elsewhere.difference(found)
        self.doubtful = bool(self._elsewhere)
        self.waiting = self.doubtful or bool(self._since)
        return found


def _above(paths: set[Path], homes: set[Path]) -> set[Path]:
    """The homes above the given paths, or equal to one; level by level, since thousands share parents."""
    found: set[Path] = set()
    while paths:
        found |= paths & homes
        paths = {path.parent for path in paths if path.parent != path}
    return found


def _is_there(path: Path) -> bool | None:
    """Whether there is such a file; None where one may not look, or a disk fails."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return None
    return True
