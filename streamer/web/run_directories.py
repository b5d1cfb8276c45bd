"""The directories of runs whose files may be shown: those that somebody named on this machine.

They are named by `serve --artifacts DIR`, and by `live` and `tail`, which keep a list of what they followed.
A directory may hold several runs; which one is whose is found out as `tail` does it. Nothing above it is
looked at.

Events are no authority here, since a publisher may write any path into them. Of a run, only the files are
shown that its connector names for the same trial.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamer.artifacts.opening import CannotBeOpened
from streamer.schemas.events import TrialResult
from streamer.settings import Settings
from streamer.sources.base import AUTO, ConvertOptions
from streamer.sources.convert import convert_part, convert_runs
from streamer.sources.discover import FoundRun, discover
from streamer.sources.files import entries
from streamer.sources.fit import slot_of
from streamer.sources.registry import sources_for
from streamer.sources.report import ConvertReport
from streamer.tail.ledger_file import Followed, followed

LOOK_AGAIN_SECONDS = 5.0
"""Directories are not searched for an unknown run more often than this."""

NOT_NAMED = (
    "This server knows no directory of this run. Start it with --artifacts DIR, or follow the run with "
    "`streamer tail` or `streamer live` on the same machine"
)
SEVERAL = (
    "Several directories on the server's machine hold a run of this name, so it cannot tell whose file this "
    "is. Rename or remove all but one"
)
_RENAMED = {"agent": "", "model": ""}
"""Options of `tail` may name these otherwise than the files do, so they do not tell trials apart here."""


@dataclass(frozen=True, slots=True)
class KnownRun:
    """A run in a directory that was named.

    Attributes:
        found: where it lies, and its connector.
        pool: the run that its events are pooled into; None: its own.
    """

    found: FoundRun
    pool: str | None

    @property
    def home(self) -> Path:
        """The directory that paths of artifacts are relative to."""
        return self.found.path if self.found.path.is_dir() else self.found.path.parent

    def check(self, event: TrialResult, path: str) -> None:
        """Whether a file is one that the trial left. It reads the trial's files.

        Raises:
            CannotBeOpened: the connector does not name it for the trial of the event.
        """
        wanted = slot_of(event.model_dump() | _RENAMED)
        for trial in self._trials_at(path):
            files = trial.get("artifacts", ()) if slot_of(trial | _RENAMED) == wanted else ()
            if any(file.get("path") == path for file in files):
                return
        raise CannotBeOpened(
            f"{path!r} is not among the files that the harness keeps for this trial in the run's directory. "
            "Others are not shown"
        )

    def _trials_at(self, path: str) -> Iterator[dict[str, Any]]:
        """The results that may name a file: those in its part of the run, and those in files of the run."""
        run, options, report = self.found, ConvertOptions(run_id=self.pool), ConvertReport()
        part = run.source.part(run.path, run.path / path) if run.path.is_dir() else None
        if part is None:
            yield from convert_runs([run], options, report)
            return
        yield from convert_part(run, part, options, report)
        for entry in entries(run.path):
            file = Path(entry.path)
            if entry.is_file(follow_symlinks=False) and run.source.part(run.path, file) == file:
                yield from convert_part(run, file, options, report)


@dataclass(frozen=True, slots=True)
class _Named:
    """The runs in a directory; `pools`: what they may have been pooled into, None: any run or none."""

    runs: Sequence[FoundRun]
    pools: tuple[str | None] | None

    def fitting(self, run_id: str, shard: str) -> Iterator[KnownRun]:
        """The runs here that a trial may be of; one that is the trial's run itself comes last."""
        for pool in (run_id, None) if self.pools is None else self.pools:
            for run in self.runs:
                own = pool is None and run.run_id == run_id
                if own or (pool == run_id and f"{shard}/".startswith(f"{run.run_id}/")):
                    yield KnownRun(run, pool)


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
        self._known: list[_Named] = []
        self._followed: list[Followed] = []
        self._looked_at = float("-inf")

    def of(self, run_id: str, shard: str) -> KnownRun:
        """The run that a trial's paths are relative to.

        Args:
            run_id: the run of the trial's event.
            shard: its shard: the original run where several were pooled, and what more tells it apart.

        Raises:
            CannotBeOpened: no directory of the run was named, or several are.
        """
        found, now_followed = self._match(run_id, shard), followed(self._settings)
        unclear = len(found) != 1 and self._clock() - self._looked_at >= LOOK_AGAIN_SECONDS
        changed = unclear or now_followed != self._followed
        looked_at = self._looked_at
        first = looked_at == float("-inf")
        if changed and self._lock.acquire(blocking=first):  # later, others get what the last search found
            try:
                if self._looked_at == looked_at:
                    self._look(now_followed)
            finally:
                self._lock.release()
            found = self._match(run_id, shard)
        if len(found) != 1:
            raise CannotBeOpened(SEVERAL if found else NOT_NAMED)
        return found[0]

    def _match(self, run_id: str, shard: str) -> list[KnownRun]:
        """The runs that fit, each directory once."""
        fitting = (run for named in self._known for run in named.fitting(run_id, shard))
        return list({run.home: run for run in fitting}.values())

    def _look(self, now_followed: list[Followed]) -> None:
        known = [_Named(_runs_in(root), None) for root in self._named]
        known += [_Named(_runs_in(one.root), (one.run_id,)) for one in now_followed]
        self._known, self._followed = known, now_followed
        self._looked_at = self._clock()


def _runs_in(root: Path) -> list[FoundRun]:
    """The runs at and below a directory, of each id the first one: its copies come later."""
    runs, _, _ = discover([root], sources_for(AUTO), ConvertOptions(), around=False)
    return list({run.run_id: run for run in reversed(runs)}.values())
