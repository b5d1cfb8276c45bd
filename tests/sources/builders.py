"""Small run directories to convert, and one call to convert them."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from streamer.folding.plan import Plan
from streamer.schemas.events import EVENT
from streamer.sources.base import ConvertOptions, ConvertReport
from streamer.sources.convert import convert
from tests.support.events import folded

Event = dict[str, Any]

START = datetime(2026, 1, 2, tzinfo=UTC)
"""When simulated runs begin."""

LOCK = {
    "agent": {"name": "terminus", "model_name": "gpt-5"},
    "dataset": {"task_ids": ["oom", "b"], "name": "core"},
    "run_config": {"n_attempts": 1},
}
"""What tb.lock says of a run that the tests of `tail` follow."""


def converted(*paths: Path, **options: Any) -> tuple[list[Event], ConvertReport]:
    """All events of the paths, each checked against the schema, and the report."""
    report = ConvertReport()
    events = list(convert(paths, ConvertOptions(**options), report))
    for event in events:
        EVENT.validate_json(json.dumps(event, allow_nan=False))
    return events, report


once = cache(converted)
"""The same for directories that no test changes, such as the real runs; nor may their events be changed."""


def trials_of(events: Iterable[Event]) -> list[Event]:
    return [event for event in events if event["type"] == "trial_result"]


def the_trial(*paths: Path, **options: Any) -> Event:
    """The one trial among the events of the paths."""
    (trial,) = trials_of(converted(*paths, **options)[0])
    return trial


def plan_of(events: Iterable[Event]) -> Event:
    """The one `run_started` among the events."""
    (plan,) = [event for event in events if event["type"] == "run_started"]
    return plan


def joined_plan(events: Iterable[Event]) -> Plan:
    """The plan of one run that the events make together."""
    every = list(events)
    return folded(every)[0].run(every[0]["run_id"]).state.plan


def slots_of(events: Iterable[Event]) -> list[tuple[Any, ...]]:
    """Run, shard, task and attempt of each trial, sorted."""
    return sorted((e["run_id"], e.get("shard", ""), e["task_id"], e["attempt"]) for e in trials_of(events))


def write_json(path: Path, content: Any, mtime_ns: int | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    if mtime_ns is not None:
        os.utime(path, ns=(mtime_ns, mtime_ns))
    return path


def edit_json(path: Path, **fields: Any) -> Event:
    """Give an object in a file other fields, and return the object as it was."""
    whole: Event = json.loads(path.read_bytes())
    write_json(path, whole | fields)
    return whole


def a_result(task: str = "oom", attempt: int = 1, run: str = "run1", n: int = 1, **fields: Any) -> Event:
    """A trial as Terminal-Bench writes it; a field given as None is written as null."""
    name = f"{task}.{attempt}-of-{n}" + (f".{run}" if run else "")
    return {
        "id": f"id of {name}",
        "trial_name": name,
        "task_id": task,
        "is_resolved": True,
        "failure_mode": "unset",
        "parser_results": {},
        "total_input_tokens": 10,
        "total_output_tokens": 2,
        "trial_started_at": "2025-09-24T10:00:00+00:00",
        "trial_ended_at": "2025-09-24T10:05:00+00:00",
        **fields,
    }


def a_trial_file(run: Path, result: Event, mtime_ns: int | None = None) -> Path:
    return write_json(run / result["task_id"] / result["trial_name"] / "results.json", result, mtime_ns)


def a_run(
    run: Path,
    files: Iterable[Event] = (),
    run_file: Iterable[Event] | None = None,
    metadata: Event | None = None,
    lock: Event | None = None,
) -> Path:
    """A Terminal-Bench run directory with per-trial files and what of run-level files is given."""
    run.mkdir(parents=True, exist_ok=True)
    for result in files:
        a_trial_file(run, result)
    if run_file is not None:
        write_json(run / "results.json", {"results": list(run_file), "n_resolved": 0})
    if metadata is not None:
        write_json(run / "run_metadata.json", metadata)
    if lock is not None:
        write_json(run / "tb.lock", lock)
    return run


def a_begun_trial(run: Path, task: str = "oom", name: str | None = None) -> Path:
    """The directory of a trial as Terminal-Bench makes it first."""
    trial = run / task / (name or f"{task}.1-of-1.{run.name}")
    for part in ("sessions", "panes", "agent-logs"):
        (trial / part).mkdir(parents=True)
    return trial


def unpacked(archive: Path, home: Path) -> Path:
    with tarfile.open(archive) as packed:
        packed.extractall(home, filter="data")
    return home


def copy_tree(source: Path, target: Path) -> Path:
    """A writable copy of a directory, with the files' times."""
    for path in sorted(source.rglob("*")):
        if path.is_file():
            copy = target / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
            shutil.copystat(path, copy)
            copy.chmod(0o644)
    return target
