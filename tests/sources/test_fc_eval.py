"""fc-eval run directories: one event per sub-trial, with what the agent measured itself."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from streamer.sources.fc_eval_layout import place
from tests.sources.builders import Event, a_run, a_trial_file, converted, plan_of, trials_of, write_json
from tests.support.data import shared_data

REAL_RUNS = {
    "fc-multi-of-one": {"files": 8, "run_file": 2, "trials_left_out": 0},
    "fc-no-oracle-same-framework": {"files": 36, "run_file": 0, "trials_left_out": 2},
    "fc-nop-oracle-gpt5": {"files": 120, "run_file": 0, "trials_left_out": 0},
    "fc-rough": {"files": 76, "run_file": 0, "trials_left_out": 1},
    "fc-single-nop": {"files": 8, "run_file": 0, "trials_left_out": 0},
    "fc-single-terminus": {"files": 26, "run_file": 4, "trials_left_out": 0},
    "fc-two-attempts": {"files": 69, "run_file": 0, "trials_left_out": 1},
}
"""Events from files of agents, events that stand only in the run-level file, and trials of several agents
that ended before their agents were merged (D16)."""

LEFT_OUT = "of which some agents have no result in any file, so these agents are left out"
SUB_TRIAL = re.compile(r"\.agent-(\d+)-")


@pytest.fixture
def rough(runs: Path, tmp_path: Path) -> Path:
    """A copy of the run with four agents, to spoil."""
    return Path(shutil.copytree(runs / "fc-rough", tmp_path / "fc-rough"))


def trial_directories(run: Path) -> list[Path]:
    """Directories with an agent's own result: the sub-trials, or the trials where there are none."""
    found = [file.parent for file in run.glob("*/*/results.json")]
    subs = [path for path in found if SUB_TRIAL.search(path.name)]
    return subs or found


def in_pane(directory: Path, label: str) -> Any:
    """Benchmarks of an agent in the raw log, read independently of the parser; None if there are none."""
    pane = (directory / "panes" / "post-test.txt").read_text("utf-8")
    block = re.search("FORMULACODE_RESULT_START(.*)FORMULACODE_RESULT_END", pane, re.DOTALL)
    try:
        result = json.loads("".join(block[1].strip().splitlines())) if block else {}
    except ValueError:
        return None
    return result.get("per_benchmark_speedups_by_agent", {}).get(label)


def on_disk(value: Any) -> Any:
    """With null for what is not finite, as the harness writes it (D17)."""
    if isinstance(value, dict):
        return {name: on_disk(item) for name, item in value.items()}
    return None if value in ("NaN", "Infinity", "-Infinity") or value != value or value in INFINITE else value


INFINITE = (float("inf"), float("-inf"))


def by_trial(events: list[Event]) -> dict[tuple[Any, ...], Event]:
    found = {(e["task_id"], e["attempt"], e.get("agent_index")): e for e in trials_of(events)}
    assert len(found) == len(trials_of(events))
    return found


def label_of(event: Event) -> str:
    return f"{event['agent']}:{event['model']}"


@pytest.mark.parametrize("name", REAL_RUNS)
def test_a_real_run_gives_one_event_per_agent_of_each_trial(runs: Path, name: str) -> None:
    expected = json.loads((shared_data() / "formulacode" / "runs_expected.json").read_bytes())[name]
    events, report = converted(runs / name)
    trials = trials_of(events)
    counts = REAL_RUNS[name]
    assert not report.unreadable + report.left_out + report.notes
    assert report.duplicates == 0
    left_out = report.remarks.get((name, LEFT_OUT))
    assert (left_out.trials if left_out else 0) == counts["trials_left_out"]
    per_agent = expected["n_trials_in_run_results"] - counts["trials_left_out"]
    assert len(trials) == counts["files"] + counts["run_file"] == per_agent * len(expected["agents"])
    assert counts["files"] == len(trial_directories(runs / name))
    assert report.run_file_trials == counts["run_file"]
    assert {e.get("agent_index") for e in trials} == (
        set(range(1, len(expected["agents"]) + 1)) if expected["multi_agent"] else {None}
    )
    for index, agent in enumerate(expected["agents"], 1):
        own = [e for e in trials if e.get("agent_index", 1) == index]
        assert len(own) == per_agent
        assert {(e["agent"], e["model"]) for e in own} == {(agent["agent_name"], agent["model_name"])}


@pytest.mark.parametrize("name", REAL_RUNS)
def test_every_event_says_what_its_own_file_says(runs: Path, name: str) -> None:
    events = by_trial(converted(runs / name)[0])
    for directory in trial_directories(runs / name):
        result = json.loads((directory / "results.json").read_bytes())
        match = SUB_TRIAL.search(directory.name)
        attempt = int(directory.name.split("-of-")[0].rpartition(".")[2])
        event = events[result["task_id"], attempt, int(match[1]) if match else None]
        assert event["trial_id"] == result["id"]
        assert event.get("resolved") == result["is_resolved"]
        assert event["failure_mode"] == result["failure_mode"]
        assert event.get("input_tokens") == result["total_input_tokens"]
        assert event["trajectory_length"] == result["parser_extra_metrics"]["trajectory_length"]
        tokens = (result["total_input_tokens"] or 0) > 0
        unknown = result["total_cost"] == 0 and (tokens or event["agent"] not in ("nop", "oracle"))
        assert event.get("cost_usd") == (None if unknown else result["total_cost"])
        assert event["revision"] == (directory / "results.json").stat().st_mtime_ns
        assert label_of(event) == result["parser_extra_metrics"]["agent_model_key"]


@pytest.mark.parametrize("name", REAL_RUNS)
def test_raw_speedups_are_those_of_the_log_with_and_without_the_log(
    runs: Path, name: str, tmp_path: Path
) -> None:
    """The harness writes its fallback over them in every field but one; no event may show it."""
    bare = Path(shutil.copytree(runs / name, tmp_path / name, ignore=shutil.ignore_patterns("panes")))
    with_panes, without = by_trial(converted(runs / name)[0]), by_trial(converted(bare)[0])
    measured = 0
    for directory in trial_directories(runs / name):
        match = SUB_TRIAL.search(directory.name)
        task, attempt = directory.parent.name, int(directory.name.split("-of-")[0].rpartition(".")[2])
        event = with_panes[task, attempt, int(match[1]) if match else None]
        if event["failure_mode"] == "test_timeout":
            assert not event.keys() & {"benchmarks", "tests", "snapshot"}
            continue
        raw = in_pane(directory, label_of(event))
        assert on_disk(event.get("benchmarks")) == on_disk(raw)
        measured += raw is not None
        if event["failure_mode"] != "parse_error":
            kept = without[task, attempt, event.get("agent_index")]
            assert on_disk(kept.get("benchmarks")) == on_disk(raw)
            assert "fallback_to_baseline" not in json.dumps(kept)
        assert "fallback_to_baseline" not in json.dumps(event)
    assert measured > 0


def test_some_real_speedups_are_overwritten_by_the_fallback(runs: Path) -> None:
    """So that the test above is about something: 1.0 stands in improvements_dict for what was measured."""

    def is_overwritten(directory: Path) -> bool:
        metrics = json.loads((directory / "results.json").read_bytes())["parser_extra_metrics"]
        return '"fallback_to_baseline": true' in json.dumps(metrics.get("improvements_dict"))

    overwritten = Counter(
        name
        for name in REAL_RUNS
        for directory in trial_directories(runs / name)
        if is_overwritten(directory)
    )
    assert set(overwritten) == REAL_RUNS.keys() - {"fc-multi-of-one"}
    assert overwritten["fc-rough"] == 35


def test_r28_nobody_makes_up_how_the_agents_of_a_crashed_trial_ended(runs: Path) -> None:
    """The file says that the trial as a whole ended; its agents are left out, and that is said."""
    events, report = converted(runs / "fc-rough")
    assert not [e for e in trials_of(events) if e["task_id"] == "shapely_shapely_rou0"]
    assert str(report.remarks["fc-rough", LEFT_OUT]) == (
        f"run fc-rough: 1 trial {LEFT_OUT}: "
        "1-nop, 2-oracle, 3-terminus-2, 4-terminus-2 (the trial ended: 'unknown_agent_error')"
    )
    plan = plan_of(events)
    assert "shapely_shapely_rou0" in plan["tasks"]
    assert (plan["attempts"], len(plan["agent_models"])) == (1, 4)


@pytest.mark.parametrize(("name", "index"), [("fc-single-terminus", None), ("fc-multi-of-one", 1)])
def test_a_crashed_trial_of_one_agent_is_that_agents_result(runs: Path, name: str, index: int | None) -> None:
    events, report = converted(runs / name)
    crashed = [e for e in trials_of(events) if e["failure_mode"] == "unknown_agent_error"]
    assert len(crashed) == REAL_RUNS[name]["run_file"] == report.run_file_trials
    assert {(e["agent"], e.get("agent_index")) for e in crashed} == {("terminus-2", index)}
    assert all(not e.keys() & {"resolved", "cost_usd", "input_tokens", "tests"} for e in crashed)
    files_only, _ = converted(runs / name, trial_files_only=True)
    assert len(trials_of(files_only)) == REAL_RUNS[name]["files"]


def test_the_plan_names_the_agents_and_the_baselines(runs: Path) -> None:
    events, _ = converted(runs / "fc-two-attempts")
    plan = plan_of(events)
    assert plan["agent_models"] == ["nop:nop", "oracle:oracle", "openhands:anthropic/claude-opus-4-1"]
    assert plan["baselines"] == ["nop", "oracle"]
    assert (plan["attempts"], len(plan["tasks"]), plan["benchmark"]) == (2, 12, "formulacode")
    assert (plan["harness"], plan["run_id"]) == ("fc-eval", "fc-two-attempts")
    assert plan["started_at"] == "2026-03-11T12:00:14.246914+00:00"
    assert events[-1]["type"] == "run_finished"


def test_converting_again_gives_the_same_events(runs: Path) -> None:
    assert converted(runs)[0] == converted(runs)[0]


def test_a_folder_of_runs_gives_them_all(runs: Path) -> None:
    events, report = converted(runs)
    assert sorted(report.runs) == sorted(REAL_RUNS)
    assert len(trials_of(events)) == sum(run["files"] + run["run_file"] for run in REAL_RUNS.values())


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


LABEL = "terminus-2:openai/gpt-5"
SPEEDUPS = {"m.f": {"agent/nop": 2.0, "oracle/nop": 3.0}}
FALLEN_BACK = {"m.f": {"agent/nop": 1.0, "oracle/nop": 3.0, "fallback_to_baseline": True}}


def a_single_run(folder: Path, improvements: Any, **fields: Any) -> Path:
    """A single-agent run of one trial with what the harness keeps of its log."""
    metrics = {"improvements_dict": improvements, "tests": "failed", "snapshot_status": "passed"}
    blocks = {
        "tests_dict": {"passed": 1, "failed": 2, "error": 0},
        "snapshot_dict": {"pass-to-fail": 0, "failed": 7},
    }
    lock = {
        "agent": {"name": "terminus-2", "model_name": "openai/gpt-5"},
        "run_spec": {"agent_mode": "single"},
    }
    run = a_run(folder / "run1")
    write_json(run / "fc.lock", lock)
    result = {
        "id": "1",
        "task_id": "t",
        "trial_name": "t.1-of-1.run1",
        "is_resolved": False,
        "failure_mode": "unset",
        "parser_extra_metrics": metrics | blocks | fields,
    }
    a_trial_file(run, result)
    return run


def the_trial(run: Path) -> Event:
    (event,) = trials_of(converted(run)[0])
    return event


def test_a_single_agent_trial_has_no_index(tmp_path: Path) -> None:
    event = the_trial(a_single_run(tmp_path, {"per_benchmark_speedups_by_agent": {LABEL: SPEEDUPS}}))
    assert "agent_index" not in event
    assert event["benchmarks"] == SPEEDUPS
    assert event["tests"] == {"status": "failed", "passed": 1, "failed": 2, "error": 0}
    assert event["snapshot"] == {"status": "passed", "pass_to_fail": 0.0, "failed": 7}


def test_fallen_back_speedups_are_replaced_by_the_logs_then_by_the_flat_ones_then_left_out(
    tmp_path: Path,
) -> None:
    improvements = {"last_agent": LABEL, "per_benchmark_speedups_by_agent": {LABEL: FALLEN_BACK}}
    run = a_single_run(tmp_path / "a", improvements)
    event = the_trial(run)
    assert "benchmarks" not in event
    assert "left out" in converted(run)[1].unreadable[0][1]

    flat = a_single_run(tmp_path / "b", improvements | {"per_benchmark_speedups": SPEEDUPS})
    assert the_trial(flat)["benchmarks"] == SPEEDUPS

    others = {"last_agent": "nop:nop", "per_benchmark_speedups": SPEEDUPS}
    assert "benchmarks" not in the_trial(a_single_run(tmp_path / "c", improvements | others))

    raw = {"per_benchmark_speedups_by_agent": {LABEL: {"m.f": {"agent/nop": 5.0}}}}
    pane = run / "t" / "t.1-of-1.run1" / "panes" / "post-test.txt"
    write_json(pane, f"FORMULACODE_RESULT_START{json.dumps(raw)}FORMULACODE_RESULT_END")
    assert the_trial(run)["benchmarks"] == {"m.f": {"agent/nop": 5.0}}


def test_benchmarks_too_large_for_a_record_keep_their_ratios(tmp_path: Path) -> None:
    entry = {"agent/nop": 2.0, "oracle/nop": 1.0, "samples": [0.123456789] * 40}
    many = {f"m.f{number}": entry for number in range(3_000)}
    event = the_trial(a_single_run(tmp_path, {"per_benchmark_speedups_by_agent": {LABEL: many}}))
    assert len(event["benchmarks"]) == 3_000
    assert event["benchmarks"]["m.f7"] == {"agent/nop": 2.0, "oracle/nop": 1.0}


def test_a_trial_whose_own_file_is_broken_is_taken_from_the_run_level_file(tmp_path: Path) -> None:
    run = a_single_run(tmp_path, {"per_benchmark_speedups_by_agent": {LABEL: SPEEDUPS}})
    file = run / "t" / "t.1-of-1.run1" / "results.json"
    write_json(run / "results.json", {"n_resolved": 0, "results": [json.loads(file.read_bytes())]})
    write_json(file, "{")
    events, report = converted(run)
    assert [event["benchmarks"] for event in trials_of(events)] == [SPEEDUPS]
    assert [path for path, _ in report.unreadable] == [file]


def test_trial_names_say_the_agent_whatever_the_run_is_called() -> None:
    assert place("t", "t.1-of-1.r.agent--1-x", {"r"}).agent_index is None
    assert place("t", "t.1-of-1.my.agent-1-run", {"my.agent-1-run"}).agent_index is None
    assert place("t", "t.1-of-1.my.agent-1-run.agent-2-nop", {"my.agent-1-run"})[2:] == (
        "my.agent-1-run",
        2,
        "nop",
    )
    assert place("t", "t.3-of-5.other.agent-12-a.b.C", {"r"}) == ("t.3-of-5.other", 3, "other", 12, "a.b.C")
    assert place("t", "t", {"r"})[1:4] == (1, None, None)
