"""A trial that has begun is told under the slot that its result will fill, for every harness."""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from streamer.folding.slots import SlotKey, slot_key
from streamer.schemas.events import EVENT, TrialResult, TrialStarted
from streamer.sources.simulate import LAYOUTS, simulate_run
from tests.sources.builders import Event, a_result, a_run, converted, copy_tree, trials_of, write_json
from tests.sources.harbor import unpack_jobs
from tests.support.data import shared_data
from tests.tail.followed_runs import LOCK

START = datetime(2026, 1, 2, tzinfo=UTC)


def starts_of(events: Iterable[Event]) -> list[Event]:
    return [event for event in events if event["type"] == "trial_started"]


def slot(event: Event) -> SlotKey:
    parsed = EVENT.validate_json(json.dumps(event))
    assert isinstance(parsed, TrialResult | TrialStarted)
    return slot_key(parsed)


def a_begun_trial(run: Path, task: str, name: str) -> Path:
    """A trial's directory as Terminal-Bench makes it first."""
    trial = run / task / name
    for part in ("sessions", "panes", "agent-logs"):
        (trial / part).mkdir(parents=True)
    return trial


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_start_that_is_seen_while_a_harness_writes_has_the_slot_of_its_result(
    layout: str, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    seen: dict[SlotKey, int] = {}

    def look(_: float) -> None:
        for event in starts_of(converted(run)[0]):
            seen.setdefault(slot(event), event["revision"])

    simulate_run(layout, run, 6, seed=7, start=START, pace_seconds=1.0, sleep=look)
    events, _ = converted(run)
    results = {slot(event): event for event in trials_of(events)}
    assert seen.keys() == results.keys()
    assert all(revision < results[key]["revision"] for key, revision in seen.items())
    assert starts_of(events) == []


def parted(run: Path, files: Iterable[Path]) -> tuple[dict[SlotKey, Event], dict[SlotKey, Event]]:
    """Results of a run that are lost with these files, and the starts that are there instead."""
    before = {slot(event): event for event in trials_of(converted(run)[0])}
    for file in files:
        file.unlink()
    events, _ = converted(run)
    left = {slot(event) for event in trials_of(events)}
    starts = {slot(event): event for event in starts_of(events)}
    return {key: event for key, event in before.items() if key not in left}, starts


def copied(source: Path, folder: Path) -> Path:
    """A copy of a run directory, empty directories and times included."""
    copy = copy_tree(source, folder / source.name)
    for directory in (path for path in source.rglob("*") if path.is_dir()):
        (copy / directory.relative_to(source)).mkdir(parents=True, exist_ok=True)
    return copy


def test_real_trials_of_harbor_have_begun_where_their_result_is_missing(tmp_path: Path) -> None:
    """Each task was tried by two agents that are code; harbor wrote config.json right before `started_at`."""
    job = copied(unpack_jobs(tmp_path / "recorded") / "kinds", tmp_path)
    lost, starts = parted(job, sorted(job.glob("*/result.json"))[::2])
    assert len(lost) == 14
    assert starts.keys() == lost.keys()
    for key, event in starts.items():
        begun, said = (datetime.fromisoformat(one["started_at"]) for one in (event, lost[key]))
        assert timedelta() <= said - begun < timedelta(milliseconds=100)


def test_real_trials_of_scylla_have_begun_where_their_result_is_missing(tmp_path: Path) -> None:
    """The agent has ended there, and its files say when it began."""
    source = shared_data() / "scylla" / "dryrun" / "2026-01-20T06-13-07-test-001"
    run = copied(source, tmp_path)
    lost, starts = parted(run, sorted(run.rglob("run_result.json"))[::2])
    assert len(lost) == 2
    assert {key: event["started_at"] for key, event in starts.items()} == {
        key: event["started_at"] for key, event in lost.items()
    }


@pytest.mark.parametrize("name", ["fc-two-attempts", "fc-single-terminus", "fc-no-oracle-same-framework"])
def test_real_trials_of_fc_eval_have_begun_where_their_result_is_missing(tmp_path: Path, name: str) -> None:
    with tarfile.open(shared_data() / "formulacode" / "runs.tar.gz") as archive:
        archive.extractall(tmp_path / "all", filter="data")
    (source,) = (tmp_path / "all").rglob(name)
    every = {slot(event) for event in trials_of(converted(source)[0])}
    run = copied(source, tmp_path)
    own = sorted(run.glob("*/*/results.json"))
    merged = [file for file in own if any(file.parent.parent.glob(f"{file.parent.name}.agent-*"))]
    for file in (run / "results.json", *merged):
        file.unlink()
    lost, starts = parted(run, [file for file in own if file not in merged][::2])
    assert lost
    assert lost.keys() <= starts.keys() <= every  # the others crashed: only the run-level file had a result


@pytest.mark.parametrize(
    ("task", "name", "attempt"),
    [
        ("oom", "oom.1-of-1.run1", 1),
        ("raman-fitting.easy", "raman-fitting.easy.3-of-5.run1", 3),
        ("oom", "oom.4-of-5", 4),
    ],
)
def test_a_trial_directory_of_terminal_bench_is_a_start(
    tmp_path: Path, task: str, name: str, attempt: int
) -> None:
    run = a_run(tmp_path / "run1", lock=LOCK)
    trial = a_begun_trial(run, task, name)
    for number, part in enumerate(("", "agent-logs", "panes", "sessions"), 1):
        os.utime(trial / part, (1_767_225_600 + number, 1_767_225_600 + number))
    (event,) = starts_of(converted(run)[0])
    assert event == {
        "run_id": "run1",
        "type": "trial_started",
        "task_id": task,
        "attempt": attempt,
        "agent": "terminus",
        "model": "gpt-5",
        "revision": 1_767_225_601_000_000_000,
        "started_at": "2026-01-01T00:00:01Z",
    }
    result = a_result(task, attempt, run="", trial_name=name)
    write_json(trial / "results.json", result)
    (filled,) = trials_of(converted(run)[0])
    assert slot(filled) == slot(event)


@pytest.mark.parametrize(
    "place", ["oom/oom.1-of-1.other", "oom/logs", "aside/oom.1-of-1.run1", "oom/x/oom.1-of-1"]
)
def test_directories_of_other_runs_and_out_of_place_are_no_starts(tmp_path: Path, place: str) -> None:
    run = a_run(tmp_path / "run1", [a_result("b")], lock=LOCK)
    (run / place).mkdir(parents=True)
    assert starts_of(converted(run)[0]) == []


def test_a_crash_that_stands_in_the_run_file_is_no_start(tmp_path: Path) -> None:
    crash = a_result(is_resolved=None, failure_mode="unknown_agent_error", parser_results=None)
    run = a_run(tmp_path / "run1", [], [crash], lock=LOCK)
    a_begun_trial(run, "oom", crash["trial_name"])
    events, _ = converted(run)
    assert [event["type"] for event in events] == ["run_started", "trial_result"]


def test_the_starts_of_a_copied_run_are_not_told_twice(tmp_path: Path) -> None:
    unpack_jobs(tmp_path)
    assert len(starts_of(converted(tmp_path / "running")[0])) == 2
    assert starts_of(converted(tmp_path)[0]) == []


def test_a_pooled_run_has_the_starts_of_its_shards(tmp_path: Path) -> None:
    for name in ("x", "y"):
        a_begun_trial(a_run(tmp_path / name, lock=LOCK), "oom", f"oom.1-of-1.{name}")
    events, _ = converted(tmp_path, run_id="pool")
    assert [(event["run_id"], event["shard"]) for event in starts_of(events)] == [
        ("pool", "x"),
        ("pool", "y"),
    ]


def test_an_agent_of_harbor_that_no_result_has_named_yet_has_no_start(tmp_path: Path) -> None:
    job = copied(unpack_jobs(tmp_path / "recorded") / "kinds", tmp_path)
    for file in job.glob("*/result.json"):
        file.unlink()
    assert starts_of(converted(job)[0]) == []
