"""Terminal-Bench run directories: what each file contributes, and what the event says."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from streamer.operate.unfinished import COMMANDS, unfinished_in
from streamer.sources.terminal_bench import attempt_and_run
from tests.sources.builders import (
    Event,
    a_result,
    a_run,
    a_trial_file,
    converted,
    plan_of,
    slots_of,
    trials_of,
    write_json,
)
from tests.sources.outcomes import agree
from tests.support.data import shared_data
from tests.support.events import folded
from tests.support.peers import newer_python, peer_environment, run_in_peer
from tests.support.rows import read_rows, terminal_bench_row_to_event

FROM_ROW = frozenset(a_result()) | {"uuid"}
ONE = [("run1", "", "oom", 1)]
BOTH = [("run1", "", "b", 1), *ONE]


def rows_by_run() -> dict[str, list[dict[str, Any]]]:
    folder = shared_data() / "terminal_bench"
    rows: dict[str, list[dict[str, Any]]] = {}
    for name in ("trials.jsonl.gz", "trials_runfile_only.jsonl.gz"):
        for row in read_rows(folder / name):
            rows.setdefault(row["run_path"], []).append(row)
    return rows


def rebuilt(folder: Path, run_path: str, rows: list[dict[str, Any]]) -> Path:
    """The run directory that rows were taken from, written again."""
    results = [{key: row[key] for key in FROM_ROW if key in row} for row in rows]
    files = [r for r, row in zip(results, rows, strict=True) if row["source"] == "trial_file"]
    metadata = {"agent_name": rows[0]["agent"], "model_name": rows[0]["model"]}
    return a_run(folder / run_path, files, results, metadata=metadata)


def failed_by(row: dict[str, Any]) -> str | None:
    failed = [name for name, status in (row["parser_results"] or {}).items() if status == "failed"]
    return f"failed tests: {', '.join(failed)}" if failed and row["is_resolved"] is False else None


def test_real_directories_say_what_their_rows_say() -> None:
    folder = shared_data() / "terminal_bench" / "runs"
    by_run = {rows[0]["run"]: rows for rows in rows_by_run().values()}
    for name in ("tb_rc2_g5_4", "20250902_orchestrator_qwen-3-coder-480B"):
        path = next(p for p in (folder / name, folder / "20250924_droid_gpt-5" / name) if p.is_dir())
        events, report = converted(path)
        result = {event["trial_name"]: event for event in trials_of(events)}
        assert not report.unreadable + report.left_out
        assert len(result) == len(by_run[name])
        for row in by_run[name]:
            event = result[row["trial_name"]]
            assert event.pop("revision") > 0
            assert event.pop("message", None) == failed_by(row)
            assert event == terminal_bench_row_to_event(row)


def test_every_real_run_and_submission_gives_the_expected_counts(tmp_path: Path) -> None:
    """With and without its run file; the runs of a submission are pooled."""
    expected = json.loads((shared_data() / "terminal_bench" / "expected.json").read_bytes())
    runs = {rebuilt(tmp_path, run_path, rows): run_path for run_path, rows in rows_by_run().items()}
    kinds = {"from_trial_files": True, "from_run_file": False}
    pools = {"submissions_from_trial_files": True, "submissions_from_all_rows": False}
    for path, run_path in runs.items():
        for key in kinds.keys() & expected["runs"][run_path].keys():
            events = agree({"duplicates": 0}, path, trial_files_only=kinds[key])
            assert counts(trials_of(events)) == told(expected["runs"][run_path][key]), f"{run_path} {key}"
    for folder in {path.parent for path in runs}:
        shards = {path.name for path in runs if path.parent == folder}
        for key in [key for key in pools if folder.name in expected[key]]:
            trials = trials_of(converted(folder, run_id=folder.name, trial_files_only=pools[key])[0])
            assert counts(trials) == told(expected[key][folder.name])
            assert {trial["run_id"] for trial in trials} == {folder.name}
            assert {trial["shard"] for trial in trials} == shards


def told(numbers: dict[str, Any]) -> dict[str, Any]:
    return {name: numbers[name] for name in counts([])}


def counts(trials: list[dict[str, Any]]) -> dict[str, Any]:
    tasks = Counter(trial["task_id"] for trial in trials)
    attempts = Counter(tasks.values())
    return {
        "n_trials": len(trials),
        "n_tasks": len(tasks),
        "n_resolved": sum(trial.get("resolved") is True for trial in trials),
        "n_unresolved": sum(trial.get("resolved") is not True for trial in trials),
        "total_input_tokens": sum(trial.get("input_tokens", 0) for trial in trials),
        "total_output_tokens": sum(trial.get("output_tokens", 0) for trial in trials),
        "n_null_tokens": sum("input_tokens" not in trial for trial in trials),
        "n_null_is_resolved": sum("resolved" not in trial for trial in trials),
        "failure_modes": dict(Counter(trial["failure_mode"] for trial in trials)),
        "attempts_per_task": {str(n): count for n, count in attempts.items()},
    }


def test_a_trial_in_both_files_is_one_event_from_its_own_file(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [], [a_result(), a_result("crashed", id="other", is_resolved=None)])
    write_json(run / "results.json", (run / "results.json").read_text(), mtime_ns=7_000)
    a_trial_file(run, a_result(), mtime_ns=5_000)
    events, report = converted(run)
    assert {e["task_id"]: e["revision"] for e in trials_of(events)} == {"oom": 5_000, "crashed": 7_000}
    assert (report.trials, report.run_file_trials, report.duplicates) == (2, 1, 0)


def test_r35_a_verdict_that_differs_in_the_run_file_is_said_and_does_not_count(tmp_path: Path) -> None:
    trials = [a_result("a"), a_result("b", is_resolved=None), a_result("c")]
    others = [a_result("a", is_resolved=False), a_result("b"), a_result("c", failure_mode="agent_timeout")]
    events, report = converted(a_run(tmp_path / "run1", trials, others))
    assert [trial.get("resolved") for trial in trials_of(events)] == [True, None, True]
    [remark] = report.remarks.values()
    differing = ["a.1-of-1.run1: is_resolved is True, not False"]
    differing += ["b.1-of-1.run1: is_resolved is None, not True"]
    assert (remark.trials, sorted(remark.details)) == (2, differing)


def test_a_broken_trial_file_is_made_good_by_the_run_file(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result()], [a_result()])
    file = write_json(run / "oom" / "oom.1-of-1.run1" / "results.json", '{"task_id": "oom", "is_res')
    events, report = converted(run)
    assert slots_of(events) == ONE
    assert [path for path, _ in report.unreadable] == [file]


def test_the_directory_names_the_run_whatever_the_metadata_says(tmp_path: Path) -> None:
    run = a_run(tmp_path / "named", [a_result(run="")], [], metadata={"run_id": "2025-09-01__11-51-46"})
    assert slots_of(converted(run)[0]) == [("named", "", "oom", 1)]


@pytest.mark.parametrize(
    ("task", "name", "expected"),
    [
        ("oom", "oom.2-of-5.run1", (2, "run1")),
        ("oom", "oom.10-of-10", (10, None)),
        ("raman-fitting.easy", "raman-fitting.easy.3-of-5.r", (3, "r")),
        ("x.1-of-2", "x.1-of-2.3-of-4.r", (3, "r")),
        ("oom", "oom.1-of-1.a.2-of-2 b\nc", (1, "a.2-of-2 b\nc")),
        ("oom", "elsewhere.4-of-5.r", (4, "r")),
        ("oom", "oom", (1, None)),
        ("oom", "", (1, None)),
        ("oom", "oom." + "9" * 5000 + "-of-1", (1, None)),
    ],
)
def test_the_attempt_is_in_a_trials_name(task: str, name: str, expected: tuple[int, str | None]) -> None:
    assert attempt_and_run(task, name) == expected


@pytest.mark.parametrize(
    ("lock_agent", "agent_name", "expected"),
    [
        ({"name": "terminus", "model_name": "gpt-5", "import_path": "a.b:C"}, "x", ("terminus", "gpt-5")),
        ({"name": None, "import_path": "src.agent:MyAgent"}, None, ("src.agent.MyAgent", "given")),
        ({}, "from-metadata", ("from-metadata", "given")),
        ({}, None, ("given-agent", "given")),
    ],
)
def test_options_name_only_what_the_files_leave_null(
    tmp_path: Path, lock_agent: dict[str, Any], agent_name: str | None, expected: tuple[str, str]
) -> None:
    metadata = {"agent_name": agent_name}
    run = a_run(tmp_path / "run1", [a_result()], lock={"agent": lock_agent}, metadata=metadata)
    agent, model = expected
    events = agree({"agent": [agent], "model": [model]}, run, agent="given-agent", model="given")
    assert plan_of(events)["agent_models"] == [f"{agent}:{model}"]


def test_agent_and_model_are_unknown_if_nothing_names_them(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result()], [])
    events = agree({"agent": ["unknown"], "model": ["unknown"]}, run)
    assert plan_of(events).keys() == {"type", "run_id", "harness", "revision", "plan_complete"}


def test_a_run_that_goes_on_is_not_finished(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", metadata={"dataset_size": 80, "n_attempts": 2, "end_time": None})
    events = agree({"types": ["run_started"], "tasks": [80], "runs": ["run1"]}, run)
    assert events[0]["attempts"] == 2


@pytest.mark.parametrize("tasks", [{"task_ids": ["oom", "b"]}, {"dataset_size": 2}])
def test_r35_an_ended_run_without_results_says_what_it_planned(tmp_path: Path, tasks: Event) -> None:
    metadata = {"n_attempts": 2, "accuracy": 0.5, "end_time": "2026-01-01T00:00:00Z"} | tasks
    run = a_run(tmp_path / "run1", [a_result()], metadata=metadata)
    said = ["run run1: 4 trials with a result announced, 1 found"]
    agree({"notes": said, "ends": ["interrupted"]}, run)
    both = [a_result(), a_result("b")]
    write_json(run / "results.json", {"results": both, "n_resolved": 2, "n_unresolved": 0})
    for only, trials in ((False, 2), (True, 1)):
        agree({"trials": trials, "notes": []}, run, trial_files_only=only)


@pytest.mark.parametrize("name", ["droid_7_results.json", "droid_7__results.json", "droid_7.json"])
def test_a_run_file_without_a_directory_is_a_run_named_after_it(tmp_path: Path, name: str) -> None:
    file = write_json(tmp_path / name, {"id": "u", "results": [a_result(), a_result("b")], "n_resolved": 2})
    assert slots_of(converted(file)[0]) == [("droid_7", "", "b", 1), ("droid_7", "", "oom", 1)]
    assert len(trials_of(converted(tmp_path)[0])) == (0 if name == "droid_7.json" else 2)


def test_a_run_file_beside_its_directory_adds_only_what_the_directory_lacks(tmp_path: Path) -> None:
    a_run(tmp_path / "run1", [a_result()], metadata={})
    write_json(tmp_path / "run1_results.json", {"results": [a_result(), a_result("b")], "n_resolved": 2})
    assert slots_of(agree({"duplicates": 0}, tmp_path)) == BOTH


def test_the_run_file_inside_a_directory_can_be_named_alone(tmp_path: Path) -> None:
    """And so can a part of it; a path that is named twice is read once."""
    results = [a_result(), a_result("b")]
    run = a_run(tmp_path / "run1", results, [a_result("c")], lock={"agent": {"name": "nop"}})
    for given, task in ((run / "results.json", "c"), (run / "b", "b")):
        expected: Event = {"run_id": ["run1"], "task_id": [task], "agent": ["nop"], "unreadable": []}
        agree(expected, given)
    agree({"trials": 3, "duplicates": 0}, run / "b", tmp_path, run)


def test_a_run_without_any_run_level_file_is_known_by_its_layout(tmp_path: Path) -> None:
    run = a_run(tmp_path / "sub" / "run1", [a_result(), a_result("b")])
    for path in (run, tmp_path, run / "oom", run / "oom" / "oom.1-of-1.run1" / "results.json"):
        events, _ = converted(path)
        assert {event["run_id"] for event in events} == {"run1"}
        assert len(trials_of(events)) == (2 if run.is_relative_to(path) else 1)


def test_files_in_log_directories_are_not_results(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result()], [])
    for name in ("sessions", "panes", "agent-logs"):
        write_json(run / "oom" / "oom.1-of-1.run1" / name / "results.json", a_result("b"))
    assert slots_of(converted(run)[0]) == ONE


def test_an_fc_eval_run_is_read_without_its_sub_trials_on_request(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result()], [])
    write_json(run / "oom" / "oom.1-of-1.run1.agent-1-nop" / "results.json", a_result(id="sub"))
    write_json(run / "fc.lock", {"agent": {"name": "openhands"}})
    expected: Event = {"trial_id": ["id of oom.1-of-1.run1"], "agent": ["openhands"]}
    agree(expected, run, harness="terminal-bench")


RESUMING = """
import ast, logging, shutil, sys, typer
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated
from typer import Option

home = Path(find_spec("terminal_bench").origin).parent
def parts(file, *names):
    tree = ast.parse((home / file).read_text())
    named = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name in names]
    for node in named:
        node.decorator_list = []
    exec(compile(ast.Module(named, []), file, "exec"), globals())

class Harness:
    def from_lock(lock):
        tasks = [Path(task) for task in lock["tasks"]]
        self = SimpleNamespace(_is_resuming=True, _n_attempts=1, _run_id=lock["run"], _run_path=lock["path"])
        self._dataset, self._logger = SimpleNamespace(_tasks=tasks), logging.getLogger()
        self._get_trial_name = lambda *a: _get_trial_name(self, *a)
        self._clean_incomplete_task_artifacts = lambda *a: _clean_incomplete_task_artifacts(self, *a)
        _filter_completed_and_cleanup_incomplete_tasks(self)
        sys.exit("RUNS " + " ".join(task.name for task in self._dataset._tasks))

class RunLock:
    def from_json(path):
        import json
        tasks = json.loads(path.read_text())["dataset"]["task_ids"]
        return {"tasks": tasks, "path": path.parent, "run": path.parent.name}

parts("harness/harness.py", "_filter_completed_and_cleanup_incomplete_tasks")
parts("harness/harness.py", "_clean_incomplete_task_artifacts", "_get_trial_name")
parts("cli/tb/runs.py", "resume")
app = typer.Typer()
app.command("resume")(resume)
app.command("other")(lambda: None)
app()
"""
"""Terminal-Bench's own `resume` and choice of tasks, out of its files: importing it needs 100 packages."""


@pytest.mark.peer
def test_terminal_bench_selects_what_is_left_and_nothing_else(tmp_path: Path) -> None:
    """R33."""
    package = ("terminal-bench==0.2.18",)
    terminal_bench = peer_environment(
        "typer==0.20.0", with_base=False, python=newer_python(12), alone=package
    )
    run = tmp_path / "runs" / "night"
    tasks = ["passed", "failed", "broken", "unverified", "missing"]
    ends = [(True, "unset"), (False, "agent_timeout"), (None, "unknown_agent_error"), (None, "parse_error")]
    results = [
        a_result(task, run="night", is_resolved=resolved, failure_mode=mode)
        for task, (resolved, mode) in zip(tasks, ends, strict=False)
    ]
    lock = {"dataset": {"task_ids": tasks}, "run_config": {"n_attempts": 1}, "agent": {"name": "terminus"}}
    a_run(run, results, lock=lock)
    left = unfinished_in(folded(converted(run)[0])[0].run("night").state)
    removal, command = COMMANDS["terminal-bench"](left, None).lines
    subprocess.run(shlex.split(removal), cwd=tmp_path, check=True)
    words = shlex.split(command)
    assert words[:3] == ["tb", "runs", "resume"]
    said = run_in_peer(terminal_bench, "python", "-c", RESUMING, *words[2:], cwd=tmp_path, check=False)
    assert said.stderr.split() == ["RUNS", "broken", "unverified", "missing"]
    assert {trial.task_id for trial in left.trials} == {"broken", "unverified", "missing"}
