"""The directories of runs whose files may be shown: those that somebody named on this machine.

They are named by `serve --artifacts DIR`, and by `live` and `tail`, which keep a list of what they followed.
A directory may hold several runs; which one is whose is found out as `tail` does it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from streamer.settings import Settings
from streamer.sources.base import ConvertOptions
from streamer.sources.discover import discover
from streamer.sources.registry import SOURCES
from streamer.tail.ledger_file import followed

LOOK_AGAIN_SECONDS = 5.0
"""Directories are not searched for an unknown run more often than this."""


class RunDirectories:
    """Finds the directory of a run. Its methods take files' time: call them in a thread.

    Args:
        settings: of the deployment whose followed directories count.
        named: directories that the server was given.
        clock: seconds, monotonic.
    """

    def __init__(self, settings: Settings, named: Sequence[Path], clock: Callable[[], float]) -> None:
        self._settings = settings
        self._named = tuple(named)
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[str, Path] = {}
        self._looked_at = float("-inf")

    def of(self, run_id: str, shard: str) -> Path | None:
        """The directory that a trial's paths are relative to; None: no directory of the run was named.

        Args:
            run_id: the run of the trial's event.
            shard: its shard: the original run where several were pooled, and what more tells it apart.
        """
        found = self._match(run_id, shard)
        if found is None and self._lock.acquire(blocking=False):  # others get what the last search found
            try:
                if self._clock() - self._looked_at >= LOOK_AGAIN_SECONDS:
                    self._look()
            finally:
                self._lock.release()
            found = self._match(run_id, shard)
        return found

    def _match(self, run_id: str, shard: str) -> Path | None:
        parts = shard.split("/")
        names = [run_id, *("/".join(parts[:length]) for length in range(len(parts), 0, -1))]
        return next((self._known[name] for name in names if name in self._known), None)

    def _look(self) -> None:
        roots = dict.fromkeys([*self._named, *followed(self._settings)])
        known: dict[str, Path] = {}
        for root in roots:
            runs, _, _ = discover([root], SOURCES, ConvertOptions())
            for run in runs:
                home = run.path if run.path.is_dir() else run.path.parent
                known.setdefault(run.run_id, home)
        self._known = known
        self._looked_at = self._clock()
