"""Directories from tables of files, and what they are converted to, by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.sources.builders import Event, converted, trials_of, write_json


def a_tree(folder: Path, files: Mapping[str, Any]) -> Path:
    """A directory with these files: a text as it is, all else as JSON, None for a directory."""
    for name, content in files.items():
        if content is None:
            (folder / name).mkdir(parents=True, exist_ok=True)
        else:
            write_json(folder / name, content)
    return folder


def agree(expected: Mapping[str, Any], *paths: Path, **options: Any) -> list[Event]:
    """The events of the paths, once each name has its value.

    Args:
        expected: what stands below by name; any other name is a field of the trials, in their order.
        paths, options: see `converted`.
    """
    events, report = converted(*paths, **options)
    trials = trials_of(events)
    plans = [event for event in events if event["type"] == "run_started"]
    known = {
        "runs": report.runs,
        "notes": report.notes,
        "remarks": [str(remarks).partition(": ")[2] for remarks in report.remarks.values()],
        "broken": [path.name for path, _ in report.unreadable],
        "unreadable": [f"{path.name}: {reason}" for path, reason in report.unreadable],
        "left_out": [(path.parent.name, field) for path, field, _ in report.left_out],
        "duplicates": report.duplicates,
        "trials": len(trials),
        "endings": {trial["task_id"]: (trial.get("resolved"), trial.get("failure_mode")) for trial in trials},
        "types": [event["type"] for event in events],
        "ends": [event.get("status") for event in events if event["type"] == "run_finished"],
        "begun": [event["task_id"] for event in events if event["type"] == "trial_started"],
        "tasks": [plan.get("tasks") for plan in plans],
        "benchmark": [plan.get("benchmark") for plan in plans],
        "complete": [plan.get("plan_complete") for plan in plans],
    }
    found = {n: known[n] if n in known else [trial.get(n) for trial in trials] for n in expected}
    wrong = {name: f"{found[name]}, not {value}" for name, value in expected.items() if found[name] != value}
    assert not wrong, wrong
    return events
