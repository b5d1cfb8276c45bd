"""Follow a directory: changed parts are read at once, the whole now and then; the whole decides.

Reading a part is cheap and gives new results within a fraction of a second (see `incremental`). A scan of the
whole finds what no change announced, tells copies apart, sees what has gone, and settles which result counts.
Its results equal `convert`'s. The larger the directory, the rarer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamer.sources.base import ConvertOptions
from streamer.sources.discover import FoundRun
from streamer.tail.deletions import GONE_SECONDS, Deletions
from streamer.tail.diagnostics import Diagnostics
from streamer.tail.file_stability import STILL_SECONDS, FileStability, unstable_paths
from streamer.tail.file_watcher import Watcher
from streamer.tail.incremental import IncrementalReader, results_of, starts_of
from streamer.tail.ledger import EventFields, Ledger, ResultKey, Wanted
from streamer.tail.scan import Scan, read_whole

PACE_SECONDS = 0.5
"""The whole is not read more often than this."""

PACE = 10.0
"""The whole is read again after so many times as long as that takes, where something about it changed."""

CALM_SECONDS = 10.0
CALM = 30.0
"""Likewise, where nothing is known to have changed."""


@dataclass(slots=True)
class FollowStatus:
    """How far it is.

    Attributes:
        runs: ids of the runs found.
        trials: results that the directory holds.
        waiting: files that are being written.
        unreadable: path to reason, for what cannot be read.
        published: events handed over.
        withdrawn: results withdrawn.
        readings: how often the whole was read.
    """

    runs: list[str] = field(default_factory=list)
    trials: int = 0
    waiting: int = 0
    unreadable: dict[Path, str] = field(default_factory=dict)
    published: int = 0
    withdrawn: int = 0
    readings: int = 0


@dataclass(frozen=True, slots=True)
class _Whole:
    """The directory as it was read, its results and starts, when that began and how long it took."""

    scan: Scan
    results: list[Wanted]
    starts: list[Wanted]
    begun: float
    seconds: float


class Follower:
    """Follows one directory until stopped.

    Args:
        root: a run directory, or one above some; need not exist yet.
        options: as for `convert`.
        ledger: what was published before.
        publish: takes events, in a list; gets nothing that was not noted before.
        note: called with the ledger's new lines before they are published.
        say: takes lines for the user.
        keep_deleted: withdraw nothing because its file is gone.
        still_seconds, gone_seconds, pace_seconds: see the constants.
    """

    def __init__(
        self,
        root: Path,
        options: ConvertOptions,
        ledger: Ledger,
        publish: Callable[[list[EventFields]], None],
        note: Callable[[list[dict[str, Any]]], None],
        say: Callable[[str], None],
        *,
        keep_deleted: bool = False,
        still_seconds: float = STILL_SECONDS,
        gone_seconds: float = GONE_SECONDS,
        pace_seconds: float = PACE_SECONDS,
    ) -> None:
        self.status = FollowStatus()
        self._root = root
        self._options = options
        self._ledger = ledger
        self._publish = publish
        self._note = note
        self._deletions = Deletions(gone_seconds, keep_deleted=keep_deleted)
        self._pace_seconds = pace_seconds
        self._stability = FileStability(still_seconds)
        self._diagnostics = Diagnostics(self._stability, say)
        self._incremental = IncrementalReader(
            root, options, ledger, self._stability, self._diagnostics, self._emit
        )
        self._read_at = self._took = 0.0
        self._scan: Future[_Whole] | None = None
        self._emit(self._ledger.retracted())

    def follow(self, stop: threading.Event, tick: Callable[[], None]) -> None:
        """Until `stop` is set, and the whole once more then; `tick` is called several times a second."""
        watcher = Watcher(self._root, stop)
        try:
            with ThreadPoolExecutor(1, "read-whole") as thread:
                while not stop.is_set():
                    self._incremental.take_note(watcher.changes())
                    if watcher.problem:
                        self._diagnostics.once(
                            [f"the system does not tell of changes ({watcher.problem}): reading instead"]
                        )
                    self._incremental.urgent |= not watcher.watching
                    self._go_on(thread)
                    tick()
        finally:
            watcher.close()
        self.read_whole()

    def _go_on(self, thread: Executor) -> None:
        """Read the whole beside the parts: it takes seconds where there are thousands of trials."""
        if self._scan is None and self._is_due():
            self._incremental.whole_begins()
            self._scan = thread.submit(self._read)
        elif self._scan is not None and self._scan.done():
            scan, self._scan = self._scan, None
            self._apply(scan.result())
        self._incremental.read()

    def run_once(self, stop: threading.Event, tick: Callable[[], None]) -> None:
        """Read the whole until no file is being written, and everything is reported and withdrawn."""
        self.read_whole()
        while self._is_undecided() and not stop.wait(self._pace_seconds):
            self.read_whole()
            tick()

    def _is_undecided(self) -> bool:
        return bool(self.status.waiting or self._diagnostics.pending or self._deletions.doubtful)

    def read_whole(self) -> None:
        """Publish what the directory says and was not published; withdraw what it no longer says."""
        self._incremental.whole_begins()
        self._apply(self._read())

    def _read(self) -> _Whole:
        begun = self._stability.begin()
        scan = read_whole(self._root, self._options)
        results, starts = results_of(scan, self._root), starts_of(scan, self._root)
        return _Whole(scan, results, starts, begun, self._stability.begin() - begun)

    def _apply(self, whole: _Whole) -> None:
        begun = time.monotonic()
        scan, results = whole.scan, whole.results
        unstable = unstable_paths(self._diagnostics.judge(scan.report, whole.begun))
        incremental = self._incremental
        unsure = [run for run in scan.runs if any(p.path in unstable for p in run.plan.problems)]
        incremental.frozen = {run.path for run in unsure if incremental.may_be_anothers(run.path, run.plan)}
        incremental.whole_says(scan, results, whole.begun)
        groups: dict[ResultKey, list[Wanted]] = {}
        for new in results:
            groups.setdefault(new.key, []).append(new)
        doubts = unstable or incremental.frozen
        held = {
            new.key for new in results if doubts and incremental.is_held(incremental.path_of(new), unstable)
        }
        left = held | incremental.published
        self._emit(event for plan in self._plans(scan, unsure) for event in self._ledger.plan(plan))
        self._emit(e for key, group in groups.items() if key not in left for e in self._ledger.resolve(group))
        self._emit(self._withdrawals(groups.keys(), {new.key for new in whole.starts}, scan, unstable))
        self._emit(
            event
            for new in whole.starts
            if new.key not in incremental.seen and not incremental.is_frozen(incremental.path_of(new))
            for event in self._ledger.start(new)
        )
        self._note_status(whole, len(groups))
        self._read_at = time.monotonic()
        self._took = whole.seconds + self._read_at - begun
        incremental.urgent |= self._is_undecided() or bool(
            self._deletions.waiting or incremental.published or incremental.planned
        )

    def _plans(self, scan: Scan, unsure: Sequence[FoundRun]) -> list[EventFields]:
        """Plans that no file being written may change, and that were not read again meanwhile."""
        if unsure and self._options.run_id is not None:
            return []
        left = {run.run_id for run in unsure} | self._incremental.planned
        return [plan for plan in scan.plans if plan["run_id"] not in left]

    def _withdrawals(
        self, filled: Set[ResultKey], begun: Set[ResultKey], scan: Scan, unstable: set[Path]
    ) -> Iterator[EventFields]:
        """Retractions of published results and starts that are no longer there."""
        incremental, ledger, root = self._incremental, self._ledger, self._root.resolve()
        results = filled | incremental.seen
        starts = results | begun | incremental.begun
        missing = [
            *((key, root / path) for key, path in ledger.filled() if key not in results),
            *((key, root / path) for key, path in ledger.begun() if key not in starts),
        ]
        for key in self._deletions.find(missing, scan, lambda path: incremental.is_held(path, unstable)):
            self.status.withdrawn += 1
            yield ledger.retract(key)

    def _note_status(self, whole: _Whole, trials: int) -> None:
        report = whole.scan.report
        self._diagnostics.hear(report, whole.begun)
        self.status.readings += 1
        self.status.runs = report.runs
        self.status.trials = trials
        self.status.waiting = len(self._diagnostics.waiting)
        self.status.unreadable = self._diagnostics.unreadable

    def _is_due(self) -> bool:
        least, times = (self._pace_seconds, PACE) if self._incremental.urgent else (CALM_SECONDS, CALM)
        return time.monotonic() - self._read_at >= max(least, times * self._took)

    def _emit(self, events: Iterable[EventFields]) -> bool:
        """Hand events over, after the journal knows of them; True if there were any."""
        batch = list(events)
        lines, self._ledger.lines = self._ledger.lines, []
        self._note(lines)
        if batch:
            self._publish(batch)
            self.status.published += len(batch)
        return bool(batch)
