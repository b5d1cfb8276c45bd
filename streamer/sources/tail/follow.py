"""Follow a directory: read changed parts at once, and sometimes the whole, which is authoritative.

Reading a part is cheap and publishes new results within a fraction of a second. A scan of the whole finds
unannounced changes, copies and deletions, and its results equal `convert`'s.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamer.schemas.base import UNKNOWN
from streamer.sources.base import ConvertOptions, RunPlan
from streamer.sources.convert import SourceRun
from streamer.sources.files import walk
from streamer.sources.tail import DirectoryResult, EventFields, Ledger, ResultKey, directory_result
from streamer.sources.tail.scan import (
    MISSING_SECONDS,
    STILL_SECONDS,
    Deletions,
    Diagnostics,
    FileStability,
    RunIndex,
    Scan,
    Stability,
    Watcher,
    parts_of,
    plan_events,
    read_part,
    read_plan,
    read_whole,
    unstable_paths,
)

# -----------------------------------------------------------------------------
# The parts of a directory to read again, and when, so that a single part never keeps the machine busy.


AGAIN_SECONDS = 0.5
"""The delay before a changed part is read again, as the system may miss files in a new directory."""

REST = 4.0
"""Pause before reading a changing part again, in multiples of its reading time, as it may be large."""

_LONG_AGO = -math.inf


@dataclass(slots=True)
class _QueuedPart:
    """A part to be read at `due`, but not before `rested`, and with `last` after all others."""

    changed: float
    due: float
    rested: float
    last: bool


class ReadQueue:
    """Parts that wait to be read. `clock` returns monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._entries: dict[Path, _QueuedPart] = {}

    def changed(self, part: Path, *, last: bool = False) -> None:
        """Queue a part that changed just now; with `last`, after all others."""
        now = self._clock()
        entry = self._entries.get(part)
        rested = entry.rested if entry else _LONG_AGO
        self._entries[part] = _QueuedPart(now, max(now, rested), rested, last)

    def add(self, part: Path) -> None:
        now = self._clock()
        entry = self._entries.setdefault(part, _QueuedPart(_LONG_AGO, now, _LONG_AGO, last=False))
        entry.due = min(entry.due, max(now, entry.rested))

    def ready(self) -> list[Path]:
        now = self._clock()
        due = [(part, entry) for part, entry in self._entries.items() if entry.due <= now]
        due.sort(key=lambda item: (item[1].last, item[1].changed == _LONG_AGO, item[1].due))
        return [part for part, _ in due]

    def is_quiet(self, part: Path) -> bool:
        return self._clock() - self._entries[part].changed >= AGAIN_SECONDS

    def was_read(self, part: Path, begun: float, *, again: bool) -> None:
        """Record that a part was read from `begun` until now. `again`: another reading may find more."""
        now = self._clock()
        entry = self._entries[part]
        if again or begun - entry.changed < AGAIN_SECONDS:
            entry.rested = now + REST * (now - begun)
            entry.due = max(now + AGAIN_SECONDS, entry.rested)
        else:
            del self._entries[part]


# -----------------------------------------------------------------------------
# Changed parts are read at once and separately, before the whole, which is authoritative.
#
# A part is the scope of one change: a trial's or a task's directory, or the run's file for results without a
# file of their own. An unknown run is searched only on the path to the change. Results are published early
# only if the whole will most likely agree: results of runs that cannot be copies, in slots that nothing else
# of the run fills.


TURN_SECONDS = 0.2

LOOK = 10.0
"""The pause between searches for unknown runs, in multiples of the last search's duration."""


class IncrementalReader:
    """A reader of changed parts.

    A `frozen` run has an unfinished file that decides which run its results belong to. `urgent` means that
    only a scan of the whole can explain a change.
    """

    def __init__(
        self,
        root: Path,
        options: ConvertOptions,
        ledger: Ledger,
        stability: FileStability,
        diagnostics: Diagnostics,
        emit: Callable[[Iterable[EventFields]], bool],
    ) -> None:
        self.frozen: set[Path] = set()
        self.urgent = False
        self.published: set[ResultKey] = set()
        self.seen: set[ResultKey] = set()
        self.begun: set[ResultKey] = set()
        self.planned: set[str] = set()
        self._root = root
        self._options = options
        self._ledger = ledger
        self._stability = stability
        self._diagnostics = diagnostics
        self._emit = emit
        self.runs = RunIndex(root, options)
        self._pending = ReadQueue()
        self._strange: set[Path] = set()
        self._again: dict[Path, float] = {}
        self._look_at = 0.0
        self._is_read = False
        self._homes: dict[str, Path] = {}  # the harness's id of a trial -> the run it was last seen in
        self._nameless: set[Path] = set()  # runs of which the whole does not know the agent either
        self._begun: set[Path] = set()  # runs of which a result was published

    def whole_begins(self) -> None:
        self.urgent = False
        self.published.clear()
        self.seen.clear()
        self.begun.clear()
        self.planned.clear()

    def whole_says(self, scan: Scan, results: Iterable[DirectoryResult], begun: float) -> None:
        """Take over the result of a scan. Parts read during the scan are newer."""
        self.runs.replace(scan.runs, begun)
        self._is_read = True
        self._nameless.clear()
        root = self._root.resolve()
        for new in results:
            run = self.runs.around(root / new.path)
            if run is not None:
                self._homes[new.event.get("trial_id", "")] = run.path
                if new.event.get("agent", UNKNOWN) == UNKNOWN:
                    self._nameless.add(run.path)
        for run in self.runs:
            if run.plan.problems or run.run_id in self.planned:
                self._pending.changed(run.path, last=True)

    def take_note(self, changed: Iterable[Path]) -> None:
        """Queue the parts that the changes concern, else request a scan of the whole."""
        for path in changed:
            run = self.runs.around(path)
            if run is None or run.nested:
                if run is None:
                    self._strange.add(path)
                    self._again[path] = time.monotonic() + AGAIN_SECONDS
                self.urgent = True
                continue
            part = run.source.part(run.path, path)
            if part is not None:
                is_run_level = part == path and not path.is_dir()
                self._pending.changed(part, last=is_run_level)
                self.urgent |= is_run_level or not path.exists()
                continue
            self.urgent = True
            self._pending.changed(run.path, last=True)
            if path != run.path and path.is_dir():
                self._pending.changed(path)

    def read(self) -> None:
        end = time.monotonic() + TURN_SECONDS
        for path in [path for path, due in self._again.items() if due <= time.monotonic()]:
            del self._again[path]
            self._strange.add(path)
        if self._strange and self._is_read and time.monotonic() >= self._look_at:
            self._look_for_runs()
        for part in self._pending.ready():
            begun = time.monotonic()
            run = self.runs.around(part)
            again = run is not None and not run.nested and self._read(run, part)
            self._pending.was_read(part, begun, again=again)
            if time.monotonic() >= end:
                break

    def _look_for_runs(self) -> None:
        begun = time.monotonic()
        strange, self._strange = self._strange, set()
        root = self._root.resolve()
        for place in [path for path in strange if path != root and path.is_dir()]:
            strange.update(walk(place, lambda path: path.is_symlink()))  # the system may report only this one
        for run in self.runs.look_for(sorted(strange)):
            self.frozen |= {run.path} if run.plan.problems else set()
            self._find_parts(run, run.path)
            self._pending.changed(run.path, last=True)
        self.take_note(path for path in strange if self.runs.around(path) is not None)
        now = time.monotonic()
        self._look_at = now + LOOK * (now - begun)

    def _find_parts(self, run: SourceRun, place: Path) -> None:
        for part in parts_of(run, place):
            self._pending.add(part)

    def _read(self, run: SourceRun, part: Path) -> bool:
        if part == run.path:
            return self._read_plan(run)
        if run.source.part(run.path, part) is None:
            self._find_parts(run, part)
            return False
        return self._read_part(run, part)

    def _read_plan(self, run: SourceRun) -> bool:
        """Publish the run's current plan, and its results again if they belong to another run now."""
        if self.runs.is_new(run) and not self.runs.is_still(run):
            self._strange.add(run.path)
            return False
        begun = self._stability.begin()
        plan, report = read_plan(run, self._options)
        is_another = _identity(run.plan) != _identity(plan)
        if unstable_paths(self._diagnostics.judge(report, begun)):
            self.frozen |= {run.path} if self.may_be_anothers(run.path, plan) else set()
            return True
        if run.plan.is_short:  # only the whole counts the trials (R35)
            plan.lacks()
        run.plan = plan
        if is_another or run.path in self.frozen:
            self.urgent = True
            self.frozen.discard(run.path)
            self._find_parts(run, run.path)
        is_sure = not self.runs.is_new(run) or run.path in self._begun or self._pending.is_quiet(run.path)
        if is_sure and self.runs.stands_alone(run):
            events = plan_events(run, self._options)
            if self._emit(event for plan in events for event in self._ledger.plan(plan)):
                self.planned.add(run.run_id)
        return False

    def _read_part(self, run: SourceRun, part: Path) -> bool:
        begun = self._stability.begin()
        scan = read_part(run, part, self._options)
        stabilities = self._diagnostics.judge(scan.report, begun)
        unstable = unstable_paths(stabilities)
        for new in results_of(scan, self._root):
            self.seen.add(new.key)
            if not self._is_clear(new, run, part):
                self.urgent = True
            elif not self.is_unstable(self.path_of(new), unstable):
                self._offer(new, run)
        for new in starts_of(scan, self._root):
            self.begun.add(new.key)
            if self._is_named(new, run) and not self.is_frozen(self.path_of(new)):
                self._emit(self._ledger.start(new))
            else:
                self.urgent = True
        return any(stabilities[path] is not Stability.MISSING for path in unstable)

    def _offer(self, new: DirectoryResult, run: SourceRun) -> None:
        if self._emit(self._ledger.offer(new)):
            self.published.add(new.key)
            self._begun.add(run.path)
            self._homes[new.event.get("trial_id", "")] = run.path
        self.urgent |= not self._ledger.wins(new)

    def _is_clear(self, new: DirectoryResult, run: SourceRun, part: Path) -> bool:
        """Whether a scan of the whole would probably judge a result the same way."""
        if not self._is_named(new, run):
            return False
        home = self._homes.get(new.event.get("trial_id", ""), run.path)
        if home != run.path and "trial_id" in new.event and self.runs.at(home) is not None:
            return False  # one of the two is a copy
        return self.path_of(new) != part or self._ledger.file_of(new.key) in (None, new.path)

    def _is_named(self, new: DirectoryResult, run: SourceRun) -> bool:
        """Whether the agent is known, or unknown even to a full scan; another part of the run may name it."""
        return new.event.get("agent", UNKNOWN) != UNKNOWN or run.path in self._nameless

    def may_be_anothers(self, home: Path, plan: RunPlan) -> bool:
        """Whether a run's results must wait for an unfinished file of its plan.

        They do not wait if the readable files confirm that they belong to the run.
        """
        run = self.runs.at(home)
        if run is None or run.plan.problems or home in self._nameless:
            return True
        return _identity(run.plan) != _identity(plan)

    def path_of(self, new: DirectoryResult) -> Path:
        return self._root.resolve() / new.path

    def is_frozen(self, path: Path) -> bool:
        return any(path.is_relative_to(run) for run in self.frozen)

    def is_unstable(self, path: Path, unstable: Iterable[Path]) -> bool:
        """Whether a file of the trial, or one that decides its run, is unfinished."""
        if self.is_frozen(path):
            return True
        home = path.parent
        return self.runs.at(home) is None and any(other.is_relative_to(home) for other in unstable)


def results_of(scan: Scan, root: Path) -> list[DirectoryResult]:
    """The results of a scan whose files still exist. A vanished file may have been read in part."""
    base = root.resolve()
    there = (result for result in scan.trials if os.path.lexists(result[0]))
    return [directory_result(event, str(path.relative_to(base))) for path, event in there]


def starts_of(scan: Scan, root: Path) -> list[DirectoryResult]:
    base = root.resolve()
    return [directory_result(event, str(path.relative_to(base))) for path, event in scan.starts]


def _identity(plan: RunPlan) -> tuple[Any, ...]:
    return plan.run_id, plan.aliases, plan.agent, plan.model


# -----------------------------------------------------------------------------
# The follower: scans of the whole, and between them the changed parts.


PACE_SECONDS = 0.5

PACE = 10.0
"""The pause after a scan, in multiples of its duration, if something changed."""

CALM_SECONDS = 10.0
CALM = 30.0
"""The pause after a scan, in multiples of its duration, if nothing is known to have changed."""


@dataclass(slots=True)
class FollowStatus:
    """The progress of a follower: `waiting` files are unfinished, `readings` counts scans of the whole."""

    runs: list[str] = field(default_factory=list)
    trials: int = 0
    waiting: int = 0
    unreadable: dict[Path, str] = field(default_factory=dict)
    published: int = 0
    withdrawn: int = 0
    readings: int = 0


@dataclass(frozen=True, slots=True)
class _Whole:
    scan: Scan
    results: list[DirectoryResult]
    starts: list[DirectoryResult]
    begun: float
    seconds: float


class Follower:
    """A follower of a directory, which may not exist yet; `note` records events before `publish` has them."""

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
        missing_seconds: float = MISSING_SECONDS,
        pace_seconds: float = PACE_SECONDS,
    ) -> None:
        self.status = FollowStatus()
        self._root = root
        self._options = options
        self._ledger = ledger
        self._publish = publish
        self._note = note
        self._deletions = Deletions(missing_seconds, keep_deleted=keep_deleted)
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
        """Follow until `stop` is set, then scan once more. `tick` is called several times a second."""
        watcher = Watcher(self._root, stop)
        try:
            with ThreadPoolExecutor(1, "read-whole") as thread:
                while not stop.is_set():
                    self._incremental.take_note(watcher.changes())
                    if watcher.problem:
                        self._diagnostics.once(
                            [f"the system does not report changes ({watcher.problem}): polling instead"]
                        )
                    self._incremental.urgent |= not watcher.watching
                    self._go_on(thread)
                    tick()
        finally:
            watcher.close()
        self.read_whole()

    def _go_on(self, thread: Executor) -> None:
        if self._scan is None and self._is_due():
            self._incremental.whole_begins()
            self._scan = thread.submit(self._read)
        elif self._scan is not None and self._scan.done():
            scan, self._scan = self._scan, None
            self._apply(scan.result())
        self._incremental.read()

    def run_once(self, stop: threading.Event, tick: Callable[[], None]) -> None:
        """Scan until no file is unfinished, and everything is reported and withdrawn."""
        self.read_whole()
        while (self._is_undecided() or self._deletions.waiting) and not stop.wait(self._pace_seconds):
            self.read_whole()
            tick()

    def _is_undecided(self) -> bool:
        return bool(self.status.waiting or self._diagnostics.pending or self._deletions.doubtful)

    def read_whole(self) -> None:
        """Publish what is new in the directory, and withdraw what is no longer there."""
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
        groups: dict[ResultKey, list[DirectoryResult]] = {}
        for new in results:
            groups.setdefault(new.key, []).append(new)
        doubts = unstable or incremental.frozen
        unsettled = {
            new.key
            for new in results
            if doubts and incremental.is_unstable(incremental.path_of(new), unstable)
        }
        left = unsettled | incremental.published
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

    def _plans(self, scan: Scan, unsure: Sequence[SourceRun]) -> list[EventFields]:
        if unsure and self._options.run_id is not None:
            return []
        left = {run.run_id for run in unsure} | self._incremental.planned
        return [plan for plan in scan.plans if plan["run_id"] not in left]

    def _withdrawals(
        self, filled: Set[ResultKey], begun: Set[ResultKey], scan: Scan, unstable: set[Path]
    ) -> Iterator[EventFields]:
        incremental, ledger, root = self._incremental, self._ledger, self._root.resolve()
        results = filled | incremental.seen
        starts = results | begun | incremental.begun
        missing = [
            *((key, root / path) for key, path in ledger.filled() if key not in results),
            *((key, root / path) for key, path in ledger.begun() if key not in starts),
        ]
        for key in self._deletions.find(missing, scan, lambda path: incremental.is_unstable(path, unstable)):
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
        batch = list(events)
        lines, self._ledger.lines = self._ledger.lines, []
        self._note(lines)
        if batch:
            self._publish(batch)
            self.status.published += len(batch)
        return bool(batch)
