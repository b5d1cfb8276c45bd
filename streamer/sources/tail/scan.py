"""The directory as `convert` reads it: with the same connectors, identities and copies."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from operator import itemgetter
from pathlib import Path

from watchfiles import watch

from streamer.sources.base import ConvertOptions, ConvertReport, RunPlan
from streamer.sources.convert import (
    SourceRun,
    convert_part,
    convert_plan,
    convert_runs,
    discover,
    outermost_run,
    sources_for,
)
from streamer.sources.files import STARTED, VANISHED, FileError, entries, is_file, read_json, walk
from streamer.sources.tail import EventFields, ResultKey

RESULT = "trial_result"
PLANS = ("run_started", "run_finished")


@dataclass(slots=True)
class Scan:
    runs: list[SourceRun] = field(default_factory=list)
    trials: list[tuple[Path, EventFields]] = field(default_factory=list)
    starts: list[tuple[Path, EventFields]] = field(default_factory=list)
    plans: list[EventFields] = field(default_factory=list)
    report: ConvertReport = field(default_factory=ConvertReport)


def read_whole(root: Path, options: ConvertOptions) -> Scan:
    """All runs at or below a directory; empty if it does not exist."""
    if not root.exists():
        return Scan()
    runs, problems, notes = discover([root], sources_for(options.harness), options, around=False)
    scan = Scan(runs)
    scan.report.notes += notes
    if runs:
        scan.report.unreadable += problems
    events = list(convert_runs(runs, options, scan.report))
    _take_trials(scan, events)
    scan.plans = [event for event in events if event["type"] in PLANS]
    return scan


def read_part(run: SourceRun, part: Path, options: ConvertOptions) -> Scan:
    """The trials in a part of a run, except those that only a full scan can distinguish from copies."""
    scan = Scan([run])
    events = list(convert_part(run, part, options, scan.report))
    _take_trials(scan, events)
    return scan


def read_plan(run: SourceRun, options: ConvertOptions) -> tuple[RunPlan, ConvertReport]:
    plan = run.source.plan(run.path, options)
    return plan, ConvertReport(unreadable=list(plan.problems))


def plan_events(run: SourceRun, options: ConvertOptions) -> list[EventFields]:
    return list(convert_plan(run, options, ConvertReport()))


def parts_of(run: SourceRun, place: Path) -> list[Path]:
    """The parts at and below a directory of a run that can be read alone: trials, and run-level files."""
    paths: list[Path] = []

    def is_part(path: Path) -> bool:
        part = run.source.part(run.path, path)
        paths.extend([part] if part else [])
        return part is not None

    for _ in walk(place, lambda directory: is_part(directory) or run.source.skip(directory)):
        pass
    for entry in entries(place):
        if entry.is_file(follow_symlinks=False):
            is_part(Path(entry.path))
    return paths


def _take_trials(scan: Scan, events: Sequence[EventFields]) -> None:
    results = (event for event in events if event["type"] == RESULT)
    starts = (event for event in events if event["type"] == STARTED)
    paths = (explanation.path for explanation in scan.report.explanations)
    scan.trials = list(zip(paths, results, strict=True))
    scan.starts = list(zip(scan.report.starts, starts, strict=True))


# -----------------------------------------------------------------------------
# The runs in a directory: those found by the last reading of the whole, and later ones.


class RunIndex:
    def __init__(self, root: Path, options: ConvertOptions) -> None:
        self._root = root
        self._options = options
        self._runs: dict[Path, SourceRun] = {}
        self._new: dict[Path, tuple[SourceRun, float]] = {}

    def __iter__(self) -> Iterator[SourceRun]:
        yield from self._runs.values()
        yield from (run for run, _ in self._new.values())

    def at(self, path: Path) -> SourceRun | None:
        new = self._new.get(path)
        return new[0] if new else self._runs.get(path)

    def around(self, path: Path) -> SourceRun | None:
        return next(filter(None, map(self.at, (path, *path.parents))), None)

    def is_new(self, run: SourceRun) -> bool:
        """Whether no scan of the whole has found the run yet."""
        return run.path in self._new

    def stands_alone(self, run: SourceRun) -> bool:
        """Whether the run is certainly not a copy and has a unique name. Otherwise only a scan can decide."""
        if run.nested or not run.is_itself or is_file(run.path):
            return False
        others = (other for other in self if other.path != run.path)
        return not any(
            other.plan.run_id == run.plan.run_id or other.plan.uuids & run.plan.uuids for other in others
        )

    def look_for(self, places: Iterable[Path]) -> Sequence[SourceRun]:
        runs: list[SourceRun] = []
        no_runs: set[Path] = set()
        root, sources = self._root.resolve(), sources_for(self._options.harness)
        for place in places:
            if self.around(place) is None:
                run = outermost_run(root, place, sources, self._options, no_runs)
                if run is not None and self.stands_alone(run):
                    self._new[run.path] = (run, time.monotonic())
                    runs.append(run)
        return runs

    def is_still(self, run: SourceRun) -> bool:
        """Whether the run's connector would be chosen again now; else the run is forgotten."""
        again = outermost_run(run.path, run.path, sources_for(self._options.harness), self._options, set())
        if again is None or again.source.name != run.source.name:
            self._new.pop(run.path, None)
            return False
        return True

    def replace(self, runs: Iterable[SourceRun], begun: float) -> None:
        """Take over the runs of a scan, and keep newer ones."""
        self._runs = {run.path: run for run in runs}
        self._new = {
            path: (run, at) for path, (run, at) in self._new.items() if at >= begun and path not in self._runs
        }


# -----------------------------------------------------------------------------
# Whether a reading's complaints still hold: files are written in place, moved and deleted meanwhile.
#
# A reading takes a while, and its complaints may be out of date when it ends. So each path with a complaint
# is checked again afterwards. If the path is as it was before the reading began, the reading saw its present
# state; everything else waits for the next reading.


STILL_SECONDS = 5.0
"""How long an invalid file must stay unchanged to count as broken rather than unfinished."""

STAMP_SECONDS = 0.02
"""The resolution of a file system's timestamps: two changes within it may look like one."""

Signature = tuple[int, int, int, int]
"""Kind, inode, time of the last change in Unix nanoseconds (no program can set it), size in bytes.

The last two are 0 except for regular files: a directory changes with every entry.
"""


class Stability(Enum):
    """How reliable a complaint about a path is, after the scan that made it."""

    MISSING = auto()

    CHANGED = auto()
    """The file may have changed since it was read: only the next reading knows."""

    WRITING = auto()

    FRESH = auto()

    STANDS = auto()
    """The file is as the scan saw it, and has not changed for a long time."""


def unstable_paths(stabilities: Mapping[Path, Stability]) -> set[Path]:
    """Paths that may look different at the next reading, so nothing that depends on them is published."""
    return {
        path for path, verdict in stabilities.items() if verdict not in (Stability.FRESH, Stability.STANDS)
    }


@dataclass(slots=True)
class _Sighting:
    signature: Signature
    first: float
    last: float
    since: float


class FileStability:
    """How long each path with a complaint has been unchanged, by a monotonic and a Unix clock in seconds."""

    def __init__(
        self,
        still_seconds: float = STILL_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._still = still_seconds
        self._clock = clock
        self._wall = wall
        self._sightings: dict[Path, _Sighting] = {}

    def begin(self) -> float:
        return self._clock()

    def judge(self, suspects: Iterable[Path], begun: float) -> dict[Path, Stability]:
        return {path: self._verdict(path, begun) for path in set(suspects)}

    def forget(self, before: float) -> None:
        self._sightings = {
            path: sighting for path, sighting in self._sightings.items() if sighting.last >= before
        }

    def _verdict(self, path: Path, begun: float) -> Stability:
        signature = _look(path)
        if signature is None:
            self._sightings.pop(path, None)
            return Stability.MISSING
        sighting = self._noted(path, *signature, begun)
        seen_before = begun - sighting.first > STAMP_SECONDS
        still = sighting.last - sighting.since >= self._still or not _is_file(sighting)
        if not seen_before and sighting.since == sighting.first:
            return Stability.CHANGED
        if not still and not _parses(path):
            return Stability.WRITING
        return Stability.STANDS if seen_before and still else Stability.FRESH

    def _noted(self, path: Path, signature: Signature, changed: float, begun: float) -> _Sighting:
        """The earlier sighting if nothing changed. A newly found file is dated by its last change."""
        now = self._clock()
        sighting = self._sightings.get(path)
        if sighting is None or sighting.signature != signature:
            is_old = sighting is None and self._wall() - (now - begun) - changed >= self._still
            sighting = _Sighting(signature, now, now, now - self._still if is_old else now)
            self._sightings[path] = sighting
        sighting.last = now
        return sighting


def _look(path: Path) -> tuple[Signature, float] | None:
    try:
        status = _stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:  # not allowed to look, or a disk that fails: it may be there
        return (0, error.errno or 0, 0, 0), 0.0
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        return (kind, status.st_ino, 0, 0), 0.0
    return (kind, status.st_ino, status.st_ctime_ns, status.st_size), status.st_ctime


def _stat(path: Path) -> os.stat_result:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return os.lstat(path)  # a dangling link exists


def _is_file(sighting: _Sighting) -> bool:
    return sighting.signature[0] == stat.S_IFREG


def _parses(path: Path) -> bool:
    try:
        read_json(path)
    except FileError:
        return False
    return True


# -----------------------------------------------------------------------------
# The changed paths. If the system does not report them, the whole is read more often.


TICK_SECONDS = 0.1
GROUP_MS = 200

QUIET_MS = 30
"""The quiet time after which a group of changes is complete."""


class Watcher:
    """A watcher of changes below a directory that may appear, or be replaced, at any time."""

    def __init__(self, root: Path, stop: threading.Event) -> None:
        self.problem: str | None = None
        self._root = root
        self._stop = stop
        self._watched: tuple[int, int] | None = None
        self._changes: Iterator[set[Path]] | None = None

    @property
    def watching(self) -> bool:
        return self._changes is not None

    def changes(self) -> set[Path]:
        """The paths changed since the last call, after at most a tick. The root means everything."""
        paths: set[Path] = set()
        identity = _identity(self._root)
        if identity != self._watched:
            self.close()
            self._watched = identity
            self._changes = self._watch() if identity is not None else None
            paths = {self._root}
        if self._changes is None:
            self._stop.wait(0.0 if paths else TICK_SECONDS)
            return paths
        try:
            return next(self._changes, set()) | paths
        except (OSError, RuntimeError) as error:  # too many directories, one unreadable, watchfiles' own
            self.problem = " ".join(str(error).split())
            self._changes = None
            return {self._root}

    def close(self) -> None:
        if self._changes is not None:
            with suppress(OSError, RuntimeError):
                self._changes.close()  # type: ignore[attr-defined]
        self._changes = None

    def _watch(self) -> Iterator[set[Path]]:
        for changes in watch(
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
            yield {Path(path) for _, path in changes}


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


# -----------------------------------------------------------------------------
# The reported problems of a directory: each one once, and only while it lasts.


Complaint = tuple[Path | None, str]


class Diagnostics:
    """A reporter of problems that scans of the whole find.

    A line is reported if two scans in a row found it. Its path must be unchanged since before the second
    scan. `waiting` are paths that the next scan may judge differently.
    """

    def __init__(self, stability: FileStability, say: Callable[[str], None]) -> None:
        self.unreadable: dict[Path, str] = {}
        self.waiting: set[Path] = set()
        self.pending = False
        self._stability = stability
        self._say = say
        self._said: set[str] = set()
        self._before: Set[Complaint] = frozenset()

    def judge(self, report: ConvertReport, begun: float) -> dict[Path, Stability]:
        """The stability of a scan's unreadable paths. A path that was missing and exists now has changed."""
        stabilities = self._stability.judge((path for path, _ in report.unreadable), begun)
        for path, reason in report.unreadable:
            if reason.endswith(VANISHED) and stabilities[path] is not Stability.MISSING:
                stabilities[path] = Stability.CHANGED
        return stabilities

    def hear(self, report: ConvertReport, begun: float) -> None:
        stabilities = self.judge(report, begun)
        stabilities |= self._stability.judge((path for path, _, _ in report.left_out), begun)
        lines = _diagnostics(report)
        told = lines.keys()
        certain = {
            (path, what)
            for path, what in told & self._before
            if path is None or stabilities[path] is Stability.STANDS
        }
        self.waiting = {path for path, verdict in stabilities.items() if verdict is not Stability.STANDS}
        self.unreadable = dict(told for told in report.unreadable if _complaint(*told) in certain)
        self.pending = bool(told - certain)
        self._before = told
        self._say_once({what: lines[path, what] for path, what in certain})
        self._stability.forget(begun)

    def once(self, lines: Iterable[str]) -> None:
        self._say_once({line: line for line in lines})

    def _say_once(self, lines: Mapping[str, str]) -> None:
        for what, line in sorted(lines.items(), key=itemgetter(1)):
            if what not in self._said:
                self._said.add(what)
                self._say(line)


def _diagnostics(report: ConvertReport) -> dict[Complaint, str]:
    """The line of each complaint. A remark on a run is one complaint, for any number of trials."""
    lines = (
        *((None, f"note: {note}") for note in report.notes),
        *((path, f"{path}: {name} left out: {reason}") for path, name, reason in report.left_out),
        *((path, f"{path}: {name} cut: {reason}") for path, name, reason in report.cut),
        *(_complaint(path, reason) for path, reason in report.unreadable),
    )
    remarks = {(None, remarks.about): f"note: {remarks}" for remarks in report.remarks.values()}
    return {complaint: complaint[1] for complaint in lines} | remarks


def _complaint(path: Path, reason: str) -> Complaint:
    return path, f"{path}: {reason}"


# -----------------------------------------------------------------------------
# The published results and starts that a directory no longer has.


MISSING_SECONDS = 10.0
"""How long a file must be gone before its result is withdrawn, if its run still exists."""


class Deletions:
    """Decides which results to withdraw, by how long their files have been gone."""

    def __init__(self, seconds: float = MISSING_SECONDS, *, keep_deleted: bool = False) -> None:
        self.waiting = self.doubtful = False
        self._seconds = seconds
        self._keep_deleted = keep_deleted
        self._since: dict[ResultKey, float] = {}
        self._elsewhere: set[ResultKey] = set()

    def find(
        self, missing: Iterable[tuple[ResultKey, Path]], scan: Scan, undecided: Callable[[Path], bool]
    ) -> list[ResultKey]:
        """The slots to withdraw now; empty if the whole run is gone or has no trial left.

        A result whose file now has other content is withdrawn after a second scan, because the first may have
        looked while the file was elsewhere. `undecided` says whether a file is unfinished.
        """
        homes = {run.path for run in scan.runs}
        populated = _above({path for path, _ in (*scan.trials, *scan.starts)}, homes)
        broken = {place for path, _ in scan.report.unreadable for place in (path, path.parent)}
        now = time.monotonic()
        since: dict[ResultKey, float] = {}
        elsewhere: set[ResultKey] = set()
        withdrawn = []
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
                withdrawn.append(key)
        self._since = {key: at for key, at in since.items() if key not in withdrawn}
        self._elsewhere = elsewhere.difference(withdrawn)
        self.doubtful = bool(self._elsewhere)
        self.waiting = self.doubtful or bool(self._since)
        return withdrawn


def _above(paths: set[Path], homes: set[Path]) -> set[Path]:
    """The homes at or above the paths, found level by level, because thousands of paths share parents."""
    paths_above: set[Path] = set()
    while paths:
        paths_above |= paths & homes
        paths = {path.parent for path in paths if path.parent != path}
    return paths_above


def _is_there(path: Path) -> bool | None:
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return None
    return True
