"""R28: which agents a run-level file names, and what it says of each."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from streamer.sources.fc_eval import OTHER_VERDICT
from tests.sources.builders import (
    Event,
    a_result,
    a_run,
    converted,
    once,
    plan_of,
    slots_of,
    trials_of,
    write_json,
)
from tests.sources.fc_eval_runs import (
    ALWAYS,
    CONFIGURATION,
    ONE_AGENT,
    SEVERAL_AGENTS,
    agents_of,
    both,
    by_trial,
    label_of,
    run_level_only,
    trial_directories,
)
from tests.sources.harbor import a_job, a_trial_result, summaries
from tests.sources.inspect import the_log
from tests.support.data import shared_data
from tests.support.tailing import converted_digests, followed
from tests.support.worker_process import wait_for


@pytest.mark.parametrize("name", SEVERAL_AGENTS)
def test_agents_and_plan_are_those_of_the_configuration(runs: Path, tmp_path: Path, name: str) -> None:
    """The core counts the planned agents of which no file says anything (R21)."""
    expected, result = (plan_of(events) for events in both(runs, name, tmp_path, *CONFIGURATION))
    for field in ("agent_models", "tasks", "attempts", "baselines", "started_at", "benchmark"):
        assert result[field] == expected[field]
    assert len(result["agent_models"]) == len(agents_of(runs / name))


@pytest.mark.parametrize("name", ONE_AGENT)
def test_without_a_configuration_the_results_name_the_agent_of_those_that_name_none(
    runs: Path, tmp_path: Path, name: str
) -> None:
    beside, alone = (
        trials_of(converted(run_level_only(runs / name, tmp_path / place, *others))[0])
        for place, others in (("beside", CONFIGURATION), ("alone", ()))
    )
    assert alone == beside


def test_agents_without_a_directory_are_read_from_the_merged_result_beside(
    runs: Path, tmp_path: Path
) -> None:
    """Also where the run-level file is missing; the others stay what their own files say."""
    run = Path(shutil.copytree(runs / "fc-nop-oracle-gpt5", tmp_path / "fc-nop-oracle-gpt5"))
    (run / "results.json").unlink()
    task = next(path.name for path in sorted(run.iterdir()) if path.is_dir())
    for directory in run.glob(f"{task}/*.agent-[23]-*"):
        shutil.rmtree(directory)
    whole, events = by_trial(once(runs / "fc-nop-oracle-gpt5")[0]), by_trial(converted(run)[0])
    assert events.keys() == whole.keys()
    changed = {place for place in events if events[place] != whole[place]}
    assert changed == {(task, 1, 2), (task, 1, 3)}
    for place in changed:
        assert [events[place].get(field) for field in ALWAYS] == [whole[place].get(field) for field in ALWAYS]
        assert events[place]["tests"]["status"] == whole[place]["tests"]["status"]


def test_a_run_level_file_elsewhere_changes_nothing_of_what_the_trial_files_say(
    runs: Path, tmp_path: Path
) -> None:
    """A copy of the run-level file, written later, says less: its results are left out."""
    run = Path(shutil.copytree(runs / "fc-nop-oracle-gpt5", tmp_path / "fc-nop-oracle-gpt5"))
    expected = trials_of(converted(run)[0])
    shutil.copyfile(run / "results.json", tmp_path / "fc-nop-oracle-gpt5_results.json")
    assert trials_of(converted(tmp_path)[0]) == expected


@pytest.mark.parametrize(
    "spoilt",
    [
        {"agent_metrics_by_agent": [1]},
        {"agent_metrics_by_agent": {"nop:nop": 5, "oracle:oracle": {}}},
        {"agent_metrics_by_agent": {"nop:nop": {"pytest_summary": 1, "snapshot_summary": {"passed": "x"}}}},
        {"agent_metrics_by_agent": {"nop:nop": {"pytest_summary": {"passed": 1e999, "failed": "no"}}}},
        {"improvements_dict": [1]},
        {"improvements_dict": {"per_benchmark_speedups_by_agent": 5, "last_agent": []}},
        {"task_speedup": "x", "improvements_dict": {"per_benchmark_speedups": {"f": {"agent/nop": 1e999}}}},
    ],
)
def test_wrong_types_in_a_merged_result_leave_out_what_they_are_about(
    runs: Path, tmp_path: Path, spoilt: Event
) -> None:
    run = run_level_only(runs / "fc-nop-oracle-gpt5", tmp_path, *CONFIGURATION)
    content = json.loads((run / "results.json").read_bytes())
    for result in content["results"]:
        result["parser_extra_metrics"] |= spoilt
    (run / "results.json").write_text(json.dumps(content))
    events, _ = converted(run)
    assert {e["agent"] for e in trials_of(events)} <= {"nop", "oracle", "terminus-2"}


def test_a_lone_agent_whose_fellows_are_not_known_yet_is_not_charged_with_the_trials_crash(
    runs: Path, tmp_path: Path
) -> None:
    """Without a configuration, and with one sub-trial written so far."""
    run = run_level_only(runs / "fc-rough", tmp_path)
    content = json.loads((run / "results.json").read_bytes())
    crashes = [result for result in content["results"] if result["parser_extra_metrics"] is None]
    (run / "results.json").write_text(json.dumps(content | {"results": crashes}))
    (sub_trial,) = (runs / "fc-rough" / "astropy_astropy_rou1").glob("*.agent-1-nop")
    shutil.copytree(sub_trial, run / "astropy_astropy_rou1" / sub_trial.name)
    events, report = converted(run)
    assert [(e["agent"], e["failure_mode"]) for e in trials_of(events)] == [("nop", "unset")]
    (remarks,) = report.remarks.values()
    assert "unknown_agent_error" in str(remarks)


DATED = {"m.f": {"agent/nop": 2.0, "oracle/nop": 3.0}}


@pytest.mark.parametrize(
    ("logged", "last_agent", "expected"),
    [
        ({"t:a-0807": DATED}, "t:a-0807", {}),
        ({"t:a-0807": DATED, "t:b-0901": DATED}, "t:b-0901", {2: DATED}),
        ({"agent-1-t:m-a": DATED}, "agent-1-t:m-a", {1: DATED}),
        ({"agent-1-t:m-a": DATED, "agent-2-t:b-0901": DATED}, "agent-2-t:b-0901", {1: DATED, 2: DATED}),
    ],
)
def test_in_merged_logs_a_key_that_two_agents_would_take_is_neithers(
    tmp_path: Path, logged: Event, last_agent: str, expected: Mapping[int, Event]
) -> None:
    """R7: two models of one framework, whose logs name models that the configuration does not have."""
    agents = [{"agent_name": "t", "model_name": model} for model in ("m/a", "m/b")]
    entry = {"pytest_summary": {"passed": 1, "status": "passed"}, "snapshot_summary": {"status": "passed"}}
    keys = ["t:m/a", "t:m/b"] if "t:a-0807" not in logged else list(logged)
    metrics = {
        "improvements_dict": {"last_agent": last_agent, "per_benchmark_speedups_by_agent": logged},
        "agent_metrics_by_agent": dict.fromkeys(keys, entry),
    }
    result = {"task_id": "t1", "trial_name": "t1.1-of-1.run1.agent-2-t", "parser_extra_metrics": metrics}
    run = tmp_path / "run1"
    write_json(run / "fc.lock", {"run_spec": {"agent_mode": "multi", "agents": agents}})
    write_json(run / "results.json", {"results": [result], "n_resolved": 0})
    events = trials_of(converted(run)[0])
    stored = {event["agent_index"]: event["benchmarks"] for event in events if "benchmarks" in event}
    assert stored == expected


# -----------------------------------------------------------------------------
# fc-eval run directories with missing, half-written or broken files: what can be read is read.


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


def test_r35_trials_that_the_run_counts_are_trials_of_all_agents(rough: Path) -> None:
    assert converted(rough)[1].notes == []
    task = min(path for path in rough.iterdir() if path.is_dir())
    shutil.rmtree(task)
    whole = json.loads((rough / "results.json").read_bytes())
    kept = [result for result in whole["results"] if result["task_id"] != task.name]
    write_json(rough / "results.json", whole | {"results": kept})
    events, report = converted(rough)
    said = f"{len(whole['results'])} trials with a result announced, {len(kept)} found"
    assert (report.notes, events[-1]["status"]) == ([f"run fc-rough: {said}"], "interrupted")


@pytest.mark.parametrize("name", ["fc-single-nop", "fc-two-attempts"])
def test_r35_a_verdict_that_differs_from_the_runs_is_said_and_counts(
    runs: Path, tmp_path: Path, name: str
) -> None:
    copy = Path(shutil.copytree(runs / name, tmp_path / name))
    whole = json.loads((copy / "results.json").read_bytes())
    told = whole["results"][0]
    told["is_resolved"] = not told["is_resolved"]
    before = by_trial(converted(copy)[0])
    write_json(copy / "results.json", whole)
    events, report = converted(copy)
    (said,) = [str(remarks) for remarks in report.remarks.values() if OTHER_VERDICT in remarks.what]
    assert f"1 trial {OTHER_VERDICT}: {told['task_id']}." in said
    assert {key: trial["resolved"] for key, trial in by_trial(events).items() if "resolved" in trial} == {
        key: trial["resolved"] for key, trial in before.items() if "resolved" in trial
    }


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


def test_r34_agents_with_one_name_and_model_are_said(tmp_path: Path) -> None:
    agents = [{"agent_name": name, "model_name": "m"} for name in ("nop", "t", "t")]
    write_json(tmp_path / "run1" / "fc.lock", {"run_spec": {"agent_mode": "multi", "agents": agents}})
    said = "run run1: 2 of its agents are t:m; in each trial, one result replaces the others"
    assert converted(tmp_path / "run1")[1].notes == [said]


# -----------------------------------------------------------------------------
# Small harbor job directories: rewards, exceptions, lengths, dirty files.


def one_event(path: Path, **fields: Any) -> Event:
    (event,) = trials_of(converted(a_job(path / "job", a_trial_result(**fields)))[0])
    return event


def test_without_a_lock_the_config_tells_attempts_and_agents(tmp_path: Path) -> None:
    job = a_job(tmp_path / "job", a_trial_result())
    agents = [{"name": "codex", "model_name": "openai/gpt-5"}, {"name": "oracle"}]
    dataset = {"name": "terminal-bench", "version": "2.0"}
    config = {"job_name": "job", "n_attempts": 3, "agents": agents, "datasets": [dataset]}
    write_json(job / "config.json", config)
    plan = plan_of(converted(job)[0])
    assert plan["agent_models"] == ["codex:openai/gpt-5", "oracle:unknown"]
    assert [plan[name] for name in ("attempts", "benchmark", "benchmark_version")] == [3, *dataset.values()]
    assert "tasks" not in plan


def test_a_retry_is_a_revision_of_the_same_slot(tmp_path: Path) -> None:
    job = a_job(tmp_path / "job")
    file = job / "t__abc1234" / "result.json"
    failed = a_trial_result(id="1", verifier_result=None, exception_info={"exception_type": "ApiError"})
    write_json(file, failed, mtime_ns=10)
    first = converted(job)[0]
    write_json(file, a_trial_result(id="2"), mtime_ns=20)
    second = converted(job)[0]
    (summary,) = summaries([*second, *first]).values()
    assert (summary["trials"], summary["resolved"], summary["superseded"]) == (1, 1, 1)


def test_the_model_is_what_the_user_asked_for_else_what_the_agent_says(tmp_path: Path) -> None:
    assert one_event(tmp_path / "a")["model"] == "openai/gpt-5"
    assert one_event(tmp_path / "b", config={})["model"] == "openai/gpt-5"
    info = {"name": "codex", "model_info": {"name": "gpt-5", "provider": None}}
    assert one_event(tmp_path / "c", config={}, agent_info=info)["model"] == "gpt-5"
    assert one_event(tmp_path / "d", config={}, agent_info={"name": "nop"})["model"] == "unknown"


def test_the_first_exception_of_a_step_is_the_failure_mode(tmp_path: Path) -> None:
    steps = [{"step_name": "a"}, {"step_name": "b", "exception_info": {"exception_type": "HealthcheckError"}}]
    assert one_event(tmp_path, step_results=steps)["failure_mode"] == "HealthcheckError"


@pytest.mark.parametrize(
    "content", ["", "{", '{"task_name": "t", "trial', "[]", "null", '{"task_name": 5}', "{}", "\x00" * 9]
)
def test_a_result_that_cannot_be_read_is_named_and_the_others_count(tmp_path: Path, content: str) -> None:
    job = a_job(tmp_path / "job", a_trial_result(), a_trial_result(name="u__abc1234"))
    write_json(job / "t0" / "result.json", content)
    events, report = converted(job)
    assert [trial["shard"] for trial in trials_of(events)] == ["u__abc1234"]
    assert [path for path, _ in report.unreadable] == [job / "t0" / "result.json"]


def test_values_of_wrong_types_are_left_out_and_named(tmp_path: Path) -> None:
    context = {"n_input_tokens": "many", "n_cache_tokens": -3, "n_output_tokens": 1.5, "cost_usd": "cheap"}
    wrong: dict[str, Any] = {
        "agent_result": context,
        "started_at": "yesterday",
        "agent_info": 5,
        "config": [],
        "id": 7,
    }
    job = a_job(tmp_path / "job", a_trial_result(**wrong))
    events, report = converted(job)
    assert trials_of(events)[0]["resolved"] is True
    left_out = {"input_tokens", "cache_read_tokens", "output_tokens", "cost_usd", "started_at"}
    assert {name for _, name, _ in report.left_out} == left_out


@pytest.mark.parametrize("datasets", [7, 1.5, True, "text", {"name": "d"}, [7], None])
def test_datasets_that_are_no_list_name_no_benchmark(tmp_path: Path, datasets: object) -> None:
    job = a_job(tmp_path / "job", a_trial_result())
    write_json(job / "config.json", {"job_name": "job", "datasets": datasets})
    events, _ = converted(job)
    assert "benchmark" not in plan_of(events)


# -----------------------------------------------------------------------------
# The length of an agent's way in harbor's trajectories.


USER, AGENT = {"source": "user", "message": "x"}, {"source": "agent", "message": "x"}
COPIED = AGENT | {"is_copied_context": True}
FIRST = {"steps": [AGENT, AGENT], "continued_trajectory_ref": "trajectory.cont-1.json"}
SECOND = {"steps": [COPIED, AGENT], "continued_trajectory_ref": "trajectory.json"}


@pytest.mark.parametrize(
    ("files", "length"),
    [
        ({"trajectory.json": {"steps": [USER, AGENT]}}, 1),
        ({"trajectory.json": {"steps": []}}, 0),
        ({"trajectory.json": FIRST, "trajectory.cont-1.json": SECOND}, 3),
        ({"trajectory.json": {"steps": [], "continued_trajectory_ref": "../../secret.json"}}, 0),
        ({"trajectory.json": {"steps": "many"}}, None),
        ({"trajectory.json": "{"}, None),
        ({"other.json": {"steps": []}}, None),
    ],
)
def test_the_length_is_the_agents_own_steps_continuations_included(
    tmp_path: Path, files: dict[str, Any], length: int | None
) -> None:
    job = a_job(tmp_path / "job", a_trial_result())
    for name, content in files.items():
        write_json(job / "t0" / "agent" / name, content)
    events, report = converted(job)
    assert trials_of(events)[0].get("trajectory_length") == length
    (explanation,) = report.explanations
    assert bool(explanation.hints) == (length is None and "trajectory.json" in files)


def test_steps_that_share_a_conversation_or_lack_one_have_no_length(tmp_path: Path) -> None:
    steps = [{"step_name": "a"}, {"step_name": "b"}, {"step_name": "../c"}]
    job = a_job(tmp_path / "job", a_trial_result(step_results=steps))
    write_json(job / "t0" / "steps" / "a" / "agent" / "trajectory.json", {"steps": [AGENT]})
    _, report = converted(job)
    assert report.explanations[0].hints == ("no length: only 1 of 3 steps have a trajectory.json",)
    resumed = {"agent": {"name": "codex", "resume_trajectory": True}}
    write_json(job / "t0" / "result.json", a_trial_result(step_results=steps, config=resumed))
    _, report = converted(job)
    assert "overlap" in report.explanations[0].hints[0]


# -----------------------------------------------------------------------------
# Terminal-Bench's layout: the names of directories, and the queue that the lock tells.


@pytest.mark.parametrize(
    ("package", "version", "kind"),
    [
        ("terminal-bench", "0.2.18", "chosen"),
        ("terminal-bench", "0.2.13", "chosen"),
        ("terminal-bench", "0.2.7", None),
        ("terminal-bench", None, None),
        ("fc-eval", "0.1.0", "chosen"),
        ("other", "9.9.9", None),
    ],
)
def test_the_order_is_chosen_where_the_harness_is_known_to_sort_by_expected_duration(
    tmp_path: Path, package: str, version: str | None, kind: str | None
) -> None:
    lock = {"harness": {"package": package, "version": version}, "dataset": {"task_ids": ["b", "a"]}}
    plan = plan_of(converted(a_run(tmp_path / "run1", [a_result()], lock=lock), harness="terminal-bench")[0])
    assert (plan.get("order_kind"), "order" in plan) == (kind, False)


def test_the_plan_of_a_real_run_has_its_queue_task_by_task_and_its_concurrency() -> None:
    """The lock of the first was written by version 0.2.7, of the second by 0.2.17."""
    folder = shared_data() / "terminal_bench" / "runs"
    events, _ = converted(folder / "20250902_orchestrator_qwen-3-coder-480B")
    plan, end = plan_of(events), events[-1]
    assert (end["type"], end["finished_at"]) == ("run_finished", "2025-09-01T14:23:24.995349+00:00")
    assert (len(plan["tasks"]), plan["attempts"]) == (80, 5)
    assert plan["agent_models"] == ["LeadArchitectAgent:unknown"]
    assert (plan["benchmark"], plan["benchmark_version"]) == ("terminal-bench-core", "0.1.1")
    assert plan["started_at"] == "2025-09-01T11:51:46.988855+00:00"
    assert plan["planned_at"] == "2025-09-01T11:51:46.989109+00:00"  # the lock; inference 3
    assert (plan["concurrency"], plan.get("order_kind"), plan["plan_complete"]) == (25, None, True)
    assert plan["order"] == [[task, attempt] for task in plan["tasks"] for attempt in range(1, 6)]
    plan = plan_of(converted(folder / "20250924_droid_gpt-5" / "tb_rc2_g5_4")[0])
    assert (plan["concurrency"], plan["order_kind"], plan["order"]) == (2, "chosen", plan["tasks"])


@pytest.mark.parametrize(
    ("lock", "complete"), [({}, False), ({"dataset": {"task_ids": ["a"]}}, True), ('{"dataset": ', False)]
)
def test_a_plan_without_tasks_or_with_an_unreadable_lock_is_not_complete(
    tmp_path: Path, lock: dict[str, Any] | str, complete: bool
) -> None:
    run = a_run(tmp_path / "run1", [a_result()], metadata={"n_attempts": 1})
    write_json(run / "tb.lock", lock)
    assert plan_of(converted(run)[0])["plan_complete"] is complete


@pytest.mark.parametrize("lock", ["tb.lock", "fc.lock"])
@pytest.mark.parametrize("task", ["sessions", "panes", "agent-logs", "fix.agent-1-bug"])
def test_g2_a_directory_below_the_run_is_a_tasks_whatever_its_name(
    tmp_path: Path, task: str, lock: str
) -> None:
    run = a_run(tmp_path / "run1", [a_result(task), a_result("b")])
    write_json(run / lock, {"agent": {"name": "terminus"}})
    events, report = converted(run)
    assert slots_of(events) == sorted([("run1", "", task, 1), ("run1", "", "b", 1)])
    assert not report.unreadable


def test_g2_a_run_may_be_called_like_an_agents_part_of_a_trial(tmp_path: Path) -> None:
    run = a_run(tmp_path / "my.agent-1-run", [a_result(run="my.agent-1-run")])
    write_json(run / "oom" / "oom.1-of-1.my.agent-1-run.agent-2-nop" / "results.json", a_result(id="sub"))
    assert [trial["trial_id"] for trial in trials_of(converted(run, harness="terminal-bench")[0])] == [
        "id of oom.1-of-1.my.agent-1-run"
    ]


# -----------------------------------------------------------------------------
# Logs of inspect_ai that are followed: files, not directories, which inspect_ai replaces as a whole.


def put(log: Path, logs: Path) -> None:
    """Write a log as inspect_ai does: beside it, and then in its place."""
    logs.mkdir(exist_ok=True)
    partial = logs / f"{log.name}.tmp"
    shutil.copyfile(log, partial)
    partial.replace(logs / log.name)


def test_samples_are_published_as_the_log_grows(inspect_logs: Path, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    with followed(logs) as following:
        put(the_log(inspect_logs / "growing"), logs)
        following.wait_until_converted()
        so_far = len(following.trials)
        assert 4 <= so_far < 18
        put(the_log(inspect_logs / "grown"), logs)
        following.wait_until_converted()
    assert len(following.trials) == 18
    plan, *_ = following.events
    assert plan["type"] == "run_started"
    assert {"tasks", "attempts", "agent_models", "order"} <= plan.keys()
    assert [event["type"] for event in following.events].count("run_finished") == 1


def test_a_retry_gives_the_run_one_plan_however_often_the_logs_are_read(
    inspect_logs: Path, tmp_path: Path
) -> None:
    first, second = sorted((inspect_logs / "retried").iterdir())
    logs = tmp_path / "logs"
    with followed(logs) as following:
        put(first, logs)
        following.wait_until_converted()
        put(second, logs)
        following.wait_until_converted()
        readings = following.follower.status.readings
        put(second, logs)
        wait_for(lambda: following.follower.status.readings > readings, "one more reading")
    plans = [event["revision"] for event in following.events if event["type"] == "run_started"]
    assert len(plans) == len(set(plans)) == 2
    assert following.digests == converted_digests(logs)
