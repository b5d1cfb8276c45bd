"""Changed parts are read at once and alone, ahead of the whole, which decides.

A part is what one change concerns: a trial's or a task's directory, or the file in which a run keeps the
results that have no file of their own. An unknown run is looked for on the way to what changed, and nowhere
else. Published ahead is only what the whole will most likely say as well: results of runs that cannot be
copies, in slots that nothing else of the run fills.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from streamer.schemas.identity import UNKNOWN
from streamer.sources.base import ConvertOptions, RunPlan
from streamer.sources.discover import FoundRun
from streamer.sources.files import walk
from streamer.tail.diagnostics import Diagnostics
from streamer.tail.file_stability import FileStability, Stability, unstable_paths
from streamer.tail.ledger import EventFields, Ledger, ResultKey, Wanted, wanted
from streamer.tail.read_queue import AGAIN_SECONDS, ReadQueue
from streamer.tail.run_index import RunIndex
from streamer.tail.scan import Scan, parts_of, plan_events, read_part, read_plan

TURN_SECONDS = 0.2
"""After reading parts for so long it is looked at what changed meanwhile."""

LOOK = 10.0
"""Unknown runs are looked for again after so many times as long as that takes."""


class IncrementalReader:
    """Reads parts.

    Args:
        root: the directory that is followed.
        options: as for `convert`.
        ledger: what was published.
        stability, diagnostics: judge what could not be read.
        emit: hands events over; True if there were any.

    Attributes:
        runs: the known runs there.
        frozen: directories of runs of which a file that says whose the results are is being written.
        urgent: whether only the whole can tell what a change means.
        published: slots for which something was published since the reading of the whole began.
        seen: slots for which a result was found since then.
        begun: slots for which a start was found since then.
        planned: ids of the runs whose plan was published since then.
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
        self._is_known = False
        self._homes: dict[str, Path] = {}  # the harness's id of a trial -> the run it was last seen in
        self._nameless: set[Path] = set()  # runs of which the whole does not know the agent either
        self._begun: set[Path] = set()  # runs of which a result was published

    def whole_begins(self) -> None:
        """A reading of the whole begins."""
        self.urgent = False
        self.published.clear()
        self.seen.clear()
        self.begun.clear()
        self.planned.clear()

    def whole_says(self, scan: Scan, results: Iterable[Wanted], begun: float) -> None:
        """The reading of the whole ended. What was read ahead meanwhile is newer."""
        self.runs.replace(scan.runs, begun)
        self._is_known = True
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
        """Which parts the changes concern; else the whole."""
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
        """Read what is due, for a while."""
        end = time.monotonic() + TURN_SECONDS
        for path in [path for path, due in self._again.items() if due <= time.monotonic()]:
            del self._again[path]
            self._strange.add(path)
        if self._strange and self._is_known and time.monotonic() >= self._look_at:
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
            strange.update(walk(place, lambda path: path.is_symlink()))  # the system may tell of it alone
        for run in self.runs.look_for(sorted(strange)):
            self.frozen |= {run.path} if run.plan.problems else set()
            self._find_parts(run, run.path)
            self._pending.changed(run.path, last=True)
        self.take_note(path for path in strange if self.runs.around(path) is not None)
        now = time.monotonic()
        self._look_at = now + LOOK * (now - begun)

    def _find_parts(self, run: FoundRun, place: Path) -> None:
        for part in parts_of(run, place):
            self._pending.found(part)

    def _read(self, run: FoundRun, part: Path) -> bool:
        """Read a part, or what else changed; True if it is being written."""
        if part == run.path:
            return self._read_plan(run)
        if run.source.part(run.path, part) is None:
            self._find_parts(run, part)
            return False
        return self._read_part(run, part)

    def _read_plan(self, run: FoundRun) -> bool:
        """Publish what the run says of itself now; its results again if they turn out to be another's."""
        if self.runs.is_new(run) and not self.runs.is_still(run):
            self._strange.add(run.path)
            return False
        begun = self._stability.begin()
        plan, report = read_plan(run, self._options)
        is_another = _identity(run.plan) != _identity(plan)
        if unstable_paths(self._diagnostics.judge(report, begun)):
            self.frozen |= {run.path} if self.may_be_anothers(run.path, plan) else set()
            return True
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

    def _read_part(self, run: FoundRun, part: Path) -> bool:
        """Publish what is new in a part; True if a file in it is being written."""
        begun = self._stability.begin()
        scan = read_part(run, part, self._options)
        stabilities = self._diagnostics.judge(scan.report, begun)
        unstable = unstable_paths(stabilities)
        for new in results_of(scan, self._root):
            self.seen.add(new.key)
            if not self._is_clear(new, run, part):
                self.urgent = True
            elif not self.is_held(self.path_of(new), unstable):
                self._offer(new, run)
        for new in starts_of(scan, self._root):
            self.begun.add(new.key)
            if self._is_named(new, run) and not self.is_frozen(self.path_of(new)):
                self._emit(self._ledger.start(new))
            else:
                self.urgent = True
        return any(stabilities[path] is not Stability.GONE for path in unstable)

    def _offer(self, new: Wanted, run: FoundRun) -> None:
        if self._emit(self._ledger.offer(new)):
            self.published.add(new.key)
            self._begun.add(run.path)
            self._homes[new.event.get("trial_id", "")] = run.path
        self.urgent |= not self._ledger.wins(new)

    def _is_clear(self, new: Wanted, run: FoundRun, part: Path) -> bool:
        """Whether the whole can hardly say something else of a result than its part does."""
        if not self._is_named(new, run):
            return False
        home = self._homes.get(new.event.get("trial_id", ""), run.path)
        if home != run.path and "trial_id" in new.event and self.runs.at(home) is not None:
            return False  # one of the two is a copy
        return self.path_of(new) != part or self._ledger.file_of(new.key) in (None, new.path)

    def _is_named(self, new: Wanted, run: FoundRun) -> bool:
        """Whether the agent is known, or as far as the whole knows it: another part may name it."""
        return new.event.get("agent", UNKNOWN) != UNKNOWN or run.path in self._nameless

    def may_be_anothers(self, home: Path, plan: RunPlan) -> bool:
        """Whether results of a run wait while a file that its plan was read from is being written.

        Not where what can be read says of whose they are what is known: that file is about other things.
        """
        known = self.runs.at(home)
        if known is None or known.plan.problems or home in self._nameless:
            return True
        return _identity(known.plan) != _identity(plan)

    def path_of(self, new: Wanted) -> Path:
        """The file that a result was read from."""
        return self._root.resolve() / new.path

    def is_frozen(self, path: Path) -> bool:
        """Whether what says whose a trial is is being written."""
        return any(path.is_relative_to(run) for run in self.frozen)

    def is_held(self, path: Path, unstable: Iterable[Path]) -> bool:
        """Whether a file of the trial, or what says whose it is, is being written."""
        if self.is_frozen(path):
            return True
        home = path.parent
        return self.runs.at(home) is None and any(other.is_relative_to(home) for other in unstable)


def results_of(scan: Scan, root: Path) -> list[Wanted]:
    """Its results except those whose file has left since: it may have left with only half of it read."""
    base = root.resolve()
    there = (result for result in scan.trials if os.path.lexists(result[0]))
    return [wanted(event, str(path.relative_to(base))) for path, event in there]


def starts_of(scan: Scan, root: Path) -> list[Wanted]:
    """Its starts."""
    base = root.resolve()
    return [wanted(event, str(path.relative_to(base))) for path, event in scan.starts]


def _identity(plan: RunPlan) -> tuple[Any, ...]:
    """The values that decide whose the results of a run are."""
    return plan.run_id, plan.aliases, plan.agent, plan.model
