"""fc-eval run directories with missing, half-written or broken files: what can be read is read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.sources.builders import converted, trials_of, write_json
from tests.sources.fc_eval_reading import by_trial, label_of, trial_directories


@pytest.fixture
def rough(runs: Path, tmp_path: Path) -> Path:
    """A copy of the run with four agents, to spoil."""
    return Path(shutil.copytree(runs / "fc-rough", tmp_path / "fc-rough"))


def test_a_run_without_its_lock_is_recognised_by_its_trials(rough: Path) -> None:
    """Agents are then those that the sub-trials name."""
    whole = by_trial(converted(rough)[0])
    (rough / "fc.lock").unlink()
    (rough / "run_metadata.json").unlink()
    events, report = converted(rough)
    assert by_trial(events) == whole
    assert not report.unreadable


def test_a_run_with_the_old_lock_is_recognised_by_the_package_that_wrote_it(rough: Path) -> None:
    whole, _ = converted(rough)
    (rough / "fc.lock").rename(rough / "tb.lock")
    assert converted(rough)[0] == whole


def test_a_renamed_directory_names_the_run_and_keeps_every_trial(rough: Path) -> None:
    renamed = rough.rename(rough.parent / "rough-copy")
    events, report = converted(renamed)
    assert report.runs == ["rough-copy"]
    assert len(by_trial(events)) == 76
    (renamed / "run_metadata.json").unlink()
    (renamed / "fc.lock").unlink()
    assert len(by_trial(converted(renamed)[0])) == 76


def test_a_sub_trial_that_is_being_written_is_reported_and_nothing_replaces_it(rough: Path) -> None:
    directory = next(path for path in sorted(trial_directories(rough)) if ".agent-3-" in path.name)
    file = directory / "results.json"
    file.write_bytes(file.read_bytes()[:700])
    events, report = converted(rough)
    assert len(trials_of(events)) == 75
    ((path, reason),) = report.unreadable
    assert path == file
    assert "still being written" in reason


def test_a_trial_that_goes_on_gives_the_sub_trials_it_has(rough: Path) -> None:
    for file in (rough / "results.json", *rough.glob("astropy_astropy_rou19/*/results.json")):
        if ".agent-1-" not in file.parent.name:
            file.unlink()
    own = [e for e in trials_of(converted(rough)[0]) if e["task_id"] == "astropy_astropy_rou19"]
    assert [(e["agent"], e["agent_index"]) for e in own] == [("nop", 1)]


def test_wrong_types_leave_out_their_field_and_nothing_else(rough: Path) -> None:
    directory = sorted(trial_directories(rough))[0]
    file = directory / "results.json"
    result = json.loads(file.read_bytes())
    whole = len(trials_of(converted(rough)[0]))
    metrics = {"improvements_dict": [1], "tests_dict": "x", "snapshot_dict": 3, "trajectory_length": "many"}
    for spoilt in (
        {"total_input_tokens": "ten", "is_resolved": "yes", "parser_extra_metrics": {**metrics, "tests": 1}},
        {"parser_extra_metrics": 5, "failure_mode": 3, "trial_started_at": []},
        {"trial_name": {}, "id": None, "total_cost": -1, "parser_extra_metrics": {"agent_model_key": 5}},
    ):
        write_json(file, result | spoilt)
        events, report = converted(rough)
        assert len(trials_of(events)) == whole
        assert {path for path, _, _ in report.left_out} <= {file}
    write_json(file, result | {"task_id": None})
    events, report = converted(rough)
    assert len(trials_of(events)) == whole - 1
    assert [path for path, _ in report.unreadable] == [file]


@pytest.mark.parametrize("content", ["", "[]", "{", '{"results": 5}', '{"results": [5, {"task_id": []}]}'])
def test_a_broken_run_level_file_is_reported_and_the_trials_stay(rough: Path, content: str) -> None:
    write_json(rough / "results.json", content)
    events, report = converted(rough)
    assert len(trials_of(events)) == 76
    assert {path for path, _ in report.unreadable} == {rough / "results.json"}


@pytest.mark.parametrize("content", ["", "[]", '{"run_spec": 5}', '{"run_spec": {"agents": [5, null]}}'])
def test_a_broken_lock_leaves_the_agents_that_the_results_name(rough: Path, content: str) -> None:
    write_json(rough / "fc.lock", content)
    events, _ = converted(rough)
    measured = trials_of(events)
    assert len(measured) == 76
    assert {label_of(e) for e in measured} == {
        *("nop:nop", "oracle:oracle"),
        *("terminus-2:openai/gpt-5", "terminus-2:openai/gpt-5-2025-08-07"),
    }
