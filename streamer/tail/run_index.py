"""The runs in a directory: those that the last reading of the whole found, and those that came since."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from streamer.sources.base import ConvertOptions
from streamer.sources.discover import FoundRun, outermost_run
from streamer.sources.files import is_file
from streamer.sources.registry import sources_for


class RunIndex:
    """Which run a path belongs to.

    Args:
        root: the directory that is followed.
        options: as for `convert`.
    """

    def __init__(self, root: Path, options: ConvertOptions) -> None:
        self._root = root
        self._options = options
        self._known: dict[Path, FoundRun] = {}
        self._new: dict[Path, tuple[FoundRun, float]] = {}

    def __iter__(self) -> Iterator[FoundRun]:
        yield from self._known.values()
        yield from (run for run, _ in self._new.values())

    def at(self, path: Path) -> FoundRun | None:
        """The run whose directory, or file, a path is."""
        new = self._new.get(path)
        return new[0] if new else self._known.get(path)

    def around(self, path: Path) -> FoundRun | None:
        """The innermost run that a path lies in or is."""
        return next(filter(None, map(self.at, (path, *path.parents))), None)

    def is_new(self, run: FoundRun) -> bool:
        """Whether no reading of the whole found it yet."""
        return run.path in self._new

    def stands_alone(self, run: FoundRun) -> bool:
        """Whether its name is its own, and nothing says that it may be a copy: else only the whole knows."""
        if run.nested or not run.is_itself or is_file(run.path):
            return False
        others = (other for other in self if other.path != run.path)
        return not any(
            other.plan.run_id == run.plan.run_id or other.plan.uuids & run.plan.uuids for other in others
        )

    def look_for(self, places: Iterable[Path]) -> Sequence[FoundRun]:
        """Runs on the way down to places that lie in none; taken in if they stand alone."""
        found: list[FoundRun] = []
        no_runs: set[Path] = set()
        root, sources = self._root.resolve(), sources_for(self._options.harness)
        for place in places:
            if self.around(place) is None:
                run = outermost_run(root, place, sources, self._options, no_runs)
                if run is not None and self.stands_alone(run):
                    self._new[run.path] = (run, time.monotonic())
                    found.append(run)
        return found

    def is_still(self, run: FoundRun) -> bool:
        """Whether its connector would be chosen again, now that more of it is there; else it is forgotten."""
        again = outermost_run(run.path, run.path, sources_for(self._options.harness), self._options, set())
        if again is None or again.source.name != run.source.name:
            self._new.pop(run.path, None)
            return False
        return True

    def replace(self, runs: Iterable[FoundRun], begun: float) -> None:
        """A reading of the whole, begun then, found these. What it could not find yet stays."""
        self._known = {run.path: run for run in runs}
        self._new = {
            path: (run, at)
            for path, (run, at) in self._new.items()
            if at >= begun and path not in self._known
        }
