"""The directory, read as `convert` reads it: the same connectors, the same identities, the same copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from streamer.sources.base import ConvertOptions, RunPlan
from streamer.sources.convert import convert_part, convert_plan, convert_runs
from streamer.sources.discover import FoundRun, discover
from streamer.sources.files import entries, walk
from streamer.sources.registry import sources_for
from streamer.sources.report import ConvertReport
from streamer.sources.starts import STARTED
from streamer.tail.ledger import EventFields

RESULT = "trial_result"


@dataclass(slots=True)
class Scan:
    """The contents of a directory, or of a part of it.

    Attributes:
        runs: the runs in it.
        trials: (file that it was read from, event) of each result.
        starts: (directory of the trial, event) of each trial that has begun and has no result.
        plans: `run_started` and `run_finished` events.
        report: what could not be read.
    """

    runs: list[FoundRun] = field(default_factory=list)
    trials: list[tuple[Path, EventFields]] = field(default_factory=list)
    starts: list[tuple[Path, EventFields]] = field(default_factory=list)
    plans: list[EventFields] = field(default_factory=list)
    report: ConvertReport = field(default_factory=ConvertReport)


def read_whole(root: Path, options: ConvertOptions) -> Scan:
    """All runs at or below a directory; nothing while it does not exist, or holds none."""
    if not root.exists():
        return Scan()
    runs, problems, notes = discover([root], sources_for(options.harness), options, around=False)
    scan = Scan(runs)
    scan.report.notes += notes
    if runs:
        scan.report.unreadable += problems
    events = list(convert_runs(runs, options, scan.report))
    _take_trials(scan, events)
    scan.plans = [event for event in events if event["type"] not in (RESULT, STARTED)]
    return scan


def read_part(run: FoundRun, part: Path, options: ConvertOptions) -> Scan:
    """The trials in a part of a run, except those that only the whole could tell from copies."""
    scan = Scan([run])
    events = list(convert_part(run, part, options, scan.report))
    _take_trials(scan, events)
    return scan


def read_plan(run: FoundRun, options: ConvertOptions) -> tuple[RunPlan, ConvertReport]:
    """The present plan events of a run, and its files that could not be read."""
    plan = run.source.plan(run.path, options)
    return plan, ConvertReport(unreadable=list(plan.problems))


def plan_events(run: FoundRun, options: ConvertOptions) -> list[EventFields]:
    """The `run_started` and `run_finished` of a run by the plan that it has."""
    return list(convert_plan(run, options, ConvertReport()))


def parts_of(run: FoundRun, place: Path) -> list[Path]:
    """The parts that can be read alone at and below a directory of a run: trials, and run-level files."""
    found: list[Path] = []

    def is_part(path: Path) -> bool:
        part = run.source.part(run.path, path)
        found.extend([part] if part else [])
        return part is not None

    for _ in walk(place, lambda directory: is_part(directory) or run.source.skip(directory)):
        pass
    for entry in entries(place):
        if entry.is_file(follow_symlinks=False):
            is_part(Path(entry.path))
    return found


def _take_trials(scan: Scan, events: Sequence[EventFields]) -> None:
    """The results and starts among the events, each with where it was read."""
    results = (event for event in events if event["type"] == RESULT)
    starts = (event for event in events if event["type"] == STARTED)
    paths = (explanation.path for explanation in scan.report.explanations)
    scan.trials = list(zip(paths, results, strict=True))
    scan.starts = list(zip(scan.report.starts, starts, strict=True))
