"""The directory, read as `convert` reads it: the same connectors, the same identities, the same copies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamer.sources.base import ConvertOptions, RunPlan
from streamer.sources.convert import ConvertReport, convert_part, convert_plan, convert_runs
from streamer.sources.discover import Run, discover
from streamer.sources.files import entries, walk
from streamer.sources.registry import sources_for

Event = dict[str, Any]


@dataclass(slots=True)
class Reading:
    """What a directory, or a part of it, says.

    Attributes:
        runs: the runs in it.
        trials: (file that it was read from, event) of each trial.
        plans: `run_started` and `run_finished` events.
        report: what could not be read.
    """

    runs: list[Run] = field(default_factory=list)
    trials: list[tuple[Path, Event]] = field(default_factory=list)
    plans: list[Event] = field(default_factory=list)
    report: ConvertReport = field(default_factory=ConvertReport)


def read_whole(root: Path, options: ConvertOptions) -> Reading:
    """All runs at or below a directory; nothing while it does not exist, or holds none."""
    if not root.exists():
        return Reading()
    runs, problems, notes = discover([root], sources_for(options.harness), options, around=False)
    reading = Reading(runs)
    reading.report.notes += notes
    if runs:
        reading.report.unreadable += [(problem.path, problem.reason) for problem in problems]
    events = list(convert_runs(runs, options, reading.report))
    reading.trials = list(_trials(events, reading.report))
    reading.plans = [event for event in events if event["type"] != "trial_result"]
    return reading


def read_part(run: Run, part: Path, options: ConvertOptions) -> Reading:
    """The trials in a part of a run, except those that only the whole could tell from copies."""
    reading = Reading([run])
    events = list(convert_part(run, part, options, reading.report))
    reading.trials = list(_trials(events, reading.report))
    return reading


def read_plan(run: Run, options: ConvertOptions) -> tuple[RunPlan, ConvertReport]:
    """What a run says of itself now, and which of its files could not be read."""
    plan = run.source.plan(run.path, options)
    return plan, ConvertReport(unreadable=[(problem.path, problem.reason) for problem in plan.problems])


def plan_events(run: Run, options: ConvertOptions) -> list[Event]:
    """The `run_started` and `run_finished` of a run by the plan that it has."""
    return list(convert_plan(run, options, ConvertReport()))


def parts_of(run: Run, place: Path) -> list[Path]:
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


def _trials(events: Iterable[Event], report: ConvertReport) -> Iterator[tuple[Path, Event]]:
    trials = [event for event in events if event["type"] == "trial_result"]
    paths = [explanation.path for explanation in report.explanations]
    return zip(paths, trials, strict=True)
