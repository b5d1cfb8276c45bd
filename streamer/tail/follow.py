"""Follow a directory: changed parts are read at once, the whole now and then; the whole decides.

Reading a part is cheap and gives new results within a fraction of a second (see `ahead`). A scan of the whole
finds what no change announced, tells copies apart, sees what has gone, and settles which result counts. Its
results equal `convert`'s. The larger the directory, the rarer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamer.sources.base import ConvertOptions
from streamer.sources.discover import Run
from streamer.tail.deletions import GONE_SECONDS, Gone
from streamer.tail.diagnostics import Complaints
from streamer.tail.file_stability import STILL_SECONDS, Settling, unsettled_of
from streamer.tail.file_watcher import Watcher
from streamer.tail.incremental import Ahead, results_of
from streamer.tail.ledger import Key, Ledger, Wanted
from streamer.tail.scan import Event, Reading, read_whole

PACE_SECONDS = 0.5
"""The whole is not read more often than this."""

PACE = 10.0
"""The whole is read again after so many times as long as that takes, where something about it changed."""

CALM_SECONDS = 10.0
CALM = 30.0
"""Likewise, where nothing is known to have changed."""


@dataclass(slots=True)
class Standing:
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
    """The directory as it was read, its results, when that began and how long it took."""

    reading: Reading
    results: list[Wanted]
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
        publish: Callable[[list[Event]], None],
        note: Callable[[list[dict[str, Any]]], None],
        say: Callable[[str], None],
        *,
        keep_deleted: bool = False,
        still_seconds: float = STILL_SECONDS,
        gone_seconds: float = GONE_SECONDS,
        pace_seconds: float = PACE_SECONDS,
    ) -> None:
        self.standing = Standing()
        self._root = root
        self._options = options
        self._ledger = ledger
        self._publish = publish
        self._note = note
        self._gone = Gone(gone_seconds, keep_deleted=keep_deleted)
        self._pace_seconds = pace_seconds
        self._settling = Settling(still_seconds)
        self._complaints = Complaints(self._settling, say)
        self._ahead = Ahead(root, options, ledger, self._settling, self._complaints, self._emit)
        self._read_at = self._took = 0.0
        self._reading: Future[_Whole] | None = None
        self._emit(self._ledger.retracted())

    def follow(self, stop: threading.Event, tick: Callable[[], None]) -> None:
        """Until `stop` is set, and the whole once more then; `tick` is called several times a second."""
        watcher = Watcher(self._root, stop)
        try:
            with ThreadPoolExecutor(1, "read-whole") as thread:
                while not stop.is_set():
                    self._ahead.take_note(watcher.changes())
                    if watcher.problem:
                        self._complaints.once(
                            [f"the system does not tell of changes ({watcher.problem}): reading instead"]
                        )
                    self._ahead.urgent |= not watcher.watching
                    self._go_on(thread)
                    tick()
        finally:
            watcher.close()
        self.read_whole()

    def _go_on(self, thread: Executor) -> None:
        """Read the whole beside the parts: it takes seconds where there are thousands of trials."""
        if self._reading is None and self._is_due():
            self._ahead.whole_begins()
            self._reading = thread.submit(self._read)
        elif self._reading is not None and self._reading.done():
            reading, self._reading = self._reading, None
            self._apply(reading.result())
        self._ahead.read()

    def settle(self, stop: threading.Event, tick: Callable[[], None]) -> None:
        """Read the whole until no file is being written, and everything is reported and withdrawn."""
        self.read_whole()
        while self._is_undecided() and not stop.wait(self._pace_seconds):
            self.read_whole()
            tick()

    def _is_undecided(self) -> bool:
        return bool(self.standing.waiting or self._complaints.pending or self._gone.doubtful)

    def read_whole(self) -> None:
        """Publish what the directory says and was not published; withdraw what it no longer says."""
        self._ahead.whole_begins()
        self._apply(self._read())

    def _read(self) -> _Whole:
        begun = self._settling.begin()
        reading = read_whole(self._root, self._options)
        return _Whole(reading, results_of(reading, self._root), begun, self._settling.begin() - begun)

    def _apply(self, whole: _Whole) -> None:
        begun = time.monotonic()
        reading, results = whole.reading, whole.results
        unsettled = unsettled_of(self._complaints.judge(reading.report, whole.begun))
        ahead = self._ahead
        unsure = [run for run in reading.runs if any(p.path in unsettled for p in run.plan.problems)]
        ahead.frozen = {run.path for run in unsure if ahead.may_be_anothers(run.path, run.plan)}
        ahead.whole_says(reading, results, whole.begun)
        groups: dict[Key, list[Wanted]] = {}
        for new in results:
            groups.setdefault(new.key, []).append(new)
        doubts = unsettled or ahead.frozen
        held = {new.key for new in results if doubts and ahead.is_held(ahead.path_of(new), unsettled)}
        left = held | ahead.published
        self._emit(event for plan in self._plans(reading, unsure) for event in self._ledger.plan(plan))
        self._emit(e for key, group in groups.items() if key not in left for e in self._ledger.settle(group))
        self._emit(self._withdrawals(groups, reading, unsettled))
        self._stand(whole, len(groups))
        self._read_at = time.monotonic()
        self._took = whole.seconds + self._read_at - begun
        ahead.urgent |= self._is_undecided() or bool(self._gone.waiting or ahead.published or ahead.planned)

    def _plans(self, reading: Reading, unsure: Sequence[Run]) -> list[Event]:
        """Plans that no file being written may change, and that were not read again meanwhile."""
        if unsure and self._options.run_id is not None:
            return []
        left = {run.run_id for run in unsure} | self._ahead.planned
        return [plan for plan in reading.plans if plan["run_id"] not in left]

    def _withdrawals(
        self, groups: dict[Key, list[Wanted]], reading: Reading, unsettled: set[Path]
    ) -> Iterator[Event]:
        """Retractions of what was published and is no longer there."""
        held = groups.keys() | self._ahead.seen
        root = self._root.resolve()
        for key in self._gone.find(
            self._ledger.filled(), held, root, reading, lambda path: self._ahead.is_held(path, unsettled)
        ):
            self.standing.withdrawn += 1
            yield self._ledger.retract(key)

    def _stand(self, whole: _Whole, trials: int) -> None:
        report = whole.reading.report
        self._complaints.hear(report, whole.begun)
        self.standing.readings += 1
        self.standing.runs = report.runs
        self.standing.trials = trials
        self.standing.waiting = len(self._complaints.waiting)
        self.standing.unreadable = self._complaints.unreadable

    def _is_due(self) -> bool:
        least, times = (self._pace_seconds, PACE) if self._ahead.urgent else (CALM_SECONDS, CALM)
        return time.monotonic() - self._read_at >= max(least, times * self._took)

    def _emit(self, events: Iterable[Event]) -> bool:
        """Hand events over, after the journal knows of them; True if there were any."""
        batch = list(events)
        lines, self._ledger.lines = self._ledger.lines, []
        self._note(lines)
        if batch:
            self._publish(batch)
            self.standing.published += len(batch)
        return bool(batch)
