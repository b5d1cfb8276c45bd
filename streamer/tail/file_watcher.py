"""Which paths changed. Where the system does not say, the whole is read more often instead."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from watchfiles import watch

TICK_SECONDS = 0.1
GROUP_MS = 200
"""Changes are grouped for at most this long."""

QUIET_MS = 30
"""A group is complete when nothing more came for so long."""


class Watcher:
    """Changes below a directory, which need not exist yet, and may be replaced by another at any time.

    Attributes:
        problem: why the system does not tell of changes, None if it does.
    """

    def __init__(self, root: Path, stop: threading.Event) -> None:
        self.problem: str | None = None
        self._root = root
        self._stop = stop
        self._watched: tuple[int, int] | None = None
        self._changes: Iterator[set[Path]] | None = None

    @property
    def watching(self) -> bool:
        """Whether changes will be announced."""
        return self._changes is not None

    def changes(self) -> set[Path]:
        """The paths that changed since the last call; waits a tick. The root itself: everything may have."""
        found: set[Path] = set()
        identity = _identity(self._root)
        if identity != self._watched:
            self.close()
            self._watched = identity
            self._changes = self._watch() if identity is not None else None
            found = {self._root}
        if self._changes is None:
            self._stop.wait(0.0 if found else TICK_SECONDS)
            return found
        try:
            return next(self._changes, set()) | found
        except (OSError, RuntimeError) as error:  # too many directories, one unreadable, watchfiles' own
            self.problem = " ".join(str(error).split())
            self._changes = None
            return {self._root}

    def close(self) -> None:
        """Stop watching."""
        if self._changes is not None:
            with suppress(OSError, RuntimeError):
                self._changes.close()  # type: ignore[attr-defined]
        self._changes = None

    def _watch(self) -> Iterator[set[Path]]:
        for found in watch(
            self._root.resolve(),
            watch_filter=None,
            debounce=GROUP_MS,
            step=QUIET_MS,
            rust_timeout=int(TICK_SECONDS * 1000),
            yield_on_timeout=True,
            stop_event=self._stop,
            raise_interrupt=False,
            ignore_permission_denied=False,  # else it also keeps quiet about too many directories
        ):
            yield {Path(path) for _, path in found}


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
