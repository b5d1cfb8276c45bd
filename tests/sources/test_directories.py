"""Run directories of every harness: copies, links and pipes, small jobs, and logs that are replaced."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.fuzz.mutations import mutated
from tests.sources.builders import (
    Event,
    a_result,
    a_run,
    a_trial_file,
    converted,
    copy_tree,
    plan_of,
    slots_of,
    the_trial,
    trials_of,
    write_json,
)
from tests.sources.every_eval_ever import unpack_evaluations
from tests.sources.harbor import a_job, a_trial_result
from tests.sources.inspect import the_log
from tests.sources.swe_bench import unpack_runs
from tests.support.data import shared_data
from tests.support.tailing import converted_digests, followed
from tests.support.worker_process import wait_for

BROKEN = 150


@pytest.mark.parametrize("unpack", [unpack_runs, unpack_evaluations])
def test_a_broken_file_gives_valid_events_or_a_reason(tmp_path: Path, unpack: Callable[[Path], Path]) -> None:
    """Of SWE-bench and Every Eval Ever. `converted` checks every event against the schema."""
    rng = Random(19)
    home = unpack(tmp_path / "home")
    files = sorted(path for path in home.rglob("*.json*") if path.is_file())
    good = 0
    for _ in range(BROKEN):
        file = rng.choice(files)
        whole = file.read_bytes()
        file.write_bytes(mutated(whole, rng))
        good += len(converted(home)[0])
        file.write_bytes(whole)
    assert good > BROKEN


# -----------------------------------------------------------------------------
# Copies of trials and runs add nothing; different runs of one name stay apart; pooling keeps shards.


COPIED = 43
"""Trials of the partial copy in the public data (H5)."""


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """A real run, and another one beside it into which trials of the first are copied."""
    source = shared_data() / "terminal_bench" / "runs" / "20250924_droid_gpt-5" / "tb_rc2_g5_4"
    other = a_run(tmp_path / "another", [a_result(run="another")], [], metadata={"agent_name": "x"})
    return copy_tree(source, tmp_path / source.name), other


def copy_some(run: Path, target: Path, count: int = COPIED) -> None:
    """Copy the first trial directories of a run, task directories included."""
    tasks = sorted(path for path in run.iterdir() if path.is_dir() and not target.is_relative_to(path))
    for task in tasks[:count]:
        copy_tree(task, target / task.name)


def test_43_trial_directories_of_another_run_are_duplicates(tmp_path: Path, two: tuple[Path, Path]) -> None:
    run, other = two
    before, _ = converted(tmp_path)
    copy_some(run, other / "nested")
    after, report = converted(tmp_path)
    assert after == before
    assert (report.duplicates, report.unreadable) == (COPIED, [])
    copy_some(run, other)
    assert slots_of(converted(tmp_path)[0]) == slots_of(before)


def test_a_partial_copy_with_its_run_files_is_the_copied_run(tmp_path: Path, two: tuple[Path, Path]) -> None:
    run, other = two
    before, _ = converted(tmp_path)
    for name in (run.name, "backup"):
        copy_some(run, other / name)
        for file in ("results.json", "tb.lock", "run_metadata.json"):
            shutil.copyfile(run / file, other / name / file)
    after, report = converted(tmp_path)
    assert trials_of(after) == trials_of(before)
    assert report.duplicates == 2 * COPIED
    assert sorted(report.runs) == ["another", run.name]
    assert {event["run_id"] for event in converted(other)[0]} == {"another", run.name}


def test_nested_trials_of_a_run_that_is_not_converted_are_reported(two: tuple[Path, Path]) -> None:
    run, other = two
    copy_some(run, other / "nested", 5)
    events, report = converted(other)
    assert len(trials_of(events)) == 1
    assert len(report.unreadable) == 5
    assert "'tb_rc2_g5_4'" in report.unreadable[0][1]


def test_nested_trials_of_the_run_itself_count(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result()], [])
    a_trial_file(run / "rerun", a_result("b"))
    assert slots_of(converted(run)[0]) == [("run1", "", "b", 1), ("run1", "", "oom", 1)]


def test_equal_trials_without_a_harness_id_are_copies_only_within_a_run(tmp_path: Path) -> None:
    for name in ("a", "b"):
        a_run(tmp_path / name, [a_result(run="", id=None)], [])
        a_trial_file(tmp_path / name / "nested", a_result(run="", id=None))
    events, report = converted(tmp_path)
    assert slots_of(events) == [("a", "", "oom", 1), ("b", "", "oom", 1)]
    assert report.duplicates == 2


def test_two_files_of_one_slot_are_both_sent_for_the_revision_to_decide(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [], [])
    a_trial_file(run, a_result(is_resolved=False), mtime_ns=1_000)
    a_trial_file(run, a_result(n=2), mtime_ns=2_000)
    a_trial_file(run, a_result(run="older", is_resolved=None), mtime_ns=500)
    events, report = converted(run)
    assert slots_of(events) == [("run1", "", "oom", 1)] * 3
    said = {e["revision"]: e.get("resolved") for e in trials_of(events)}
    assert said == {500: None, 1_000: False, 2_000: True}
    assert not report.duplicates


def test_different_runs_of_one_name_are_kept_apart_and_noted(tmp_path: Path) -> None:
    for n, submission in enumerate(("sub1", "sub2")):
        run = a_run(tmp_path / submission / "run1", [a_result(id=submission)], metadata={"uuid": f"u{n}"})
        assert slots_of(converted(run)[0]) == [("run1", "", "oom", 1)]
    events, report = converted(tmp_path)
    assert slots_of(events) == [("sub1/run1", "", "oom", 1), ("sub2/run1", "", "oom", 1)]
    assert {event["run_id"] for event in events} == {"sub1/run1", "sub2/run1"}
    assert "sub1/run1, sub2/run1" in report.notes[0]
    pooled, _ = converted(tmp_path, run_id="all")
    assert slots_of(pooled) == [("all", "sub1/run1", "oom", 1), ("all", "sub2/run1", "oom", 1)]


def test_a_copy_of_a_run_in_another_folder_is_the_same_run(tmp_path: Path) -> None:
    for folder in ("here", "there"):
        a_run(tmp_path / folder / "run1", [a_result()], metadata={"uuid": "u"})
    a_trial_file(tmp_path / "there" / "run1", a_result("b"))
    events, report = converted(tmp_path)
    assert slots_of(events) == [("run1", "", "b", 1), ("run1", "", "oom", 1)]
    assert (report.duplicates, report.notes) == (1, [])


# -----------------------------------------------------------------------------
# Searching: links are not followed, pipes are not waited for, and what may not be read is named.


def test_symbolic_links_are_not_followed_except_the_path_itself(tmp_path: Path) -> None:
    run = a_run(tmp_path / "runs" / "run1", [a_result()], [])
    for link, to in ((run / "oom" / "loop", run), (run.parent / "latest", run), (run.parent / "gone", "no")):
        link.symlink_to(to)
    for path in (tmp_path, run.parent / "latest"):
        events, report = converted(path)
        assert slots_of(events) == [("run1", "", "oom", 1)]
        assert not report.duplicates
    (tmp_path / "a").symlink_to(tmp_path / "a")
    assert converted(tmp_path / "a")[1].unreadable


def test_both_harnesses_are_found_in_one_folder(tmp_path: Path) -> None:
    a_run(tmp_path / "tb", [a_result(run="tb")], [])
    write_json(tmp_path / "sc" / "T0" / "00" / "run_01" / "run_result.json", {"judge_passed": True})
    for harness, found in (("auto", {"terminal-bench", "scylla"}), ("scylla", {"scylla"})):
        events, _ = converted(tmp_path, harness=harness)
        assert {event["harness"] for event in trials_of(events)} == found


def test_a_pipe_where_a_file_belongs_is_not_waited_for(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result()], metadata={})
    (run / "oom" / "oom.2-of-2.run1").mkdir()
    for folder in (run, run / "oom" / "oom.2-of-2.run1"):
        os.mkfifo(folder / "results.json")
    events, report = converted(run)
    assert len(trials_of(events)) == 1
    assert report.unreadable == [(run / "results.json", "not a regular file")]


@pytest.mark.skipif(os.geteuid() == 0, reason="SKIPPED LOUDLY: root reads what nobody may read")
def test_what_may_not_be_read_is_named(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result(), a_result("b")], [])
    (run / "oom" / "oom.1-of-1.run1" / "results.json").chmod(0)
    (run / "b").chmod(0)
    try:
        _, report = converted(run)
    finally:
        (run / "b").chmod(0o755)
    assert {"Permission denied" in reason for _, reason in report.unreadable} == {True}


# -----------------------------------------------------------------------------
# Small harbor job directories: rewards, exceptions, lengths, dirty files.


def of_job(folder: Path, **fields: Any) -> Event:
    """The trial of a job with one result that has these fields."""
    return the_trial(a_job(folder / "job", a_trial_result(**fields)))


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


GPT5 = {"name": "codex", "model_info": {"name": "gpt-5", "provider": None}}
STEPS = [{"step_name": "a"}, {"step_name": "b", "exception_info": {"exception_type": "HealthcheckError"}}]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, {"model": "openai/gpt-5"}),
        ({"config": {}}, {"model": "openai/gpt-5"}),
        ({"config": {}, "agent_info": GPT5}, {"model": "gpt-5"}),
        ({"config": {}, "agent_info": {"name": "nop"}}, {"model": "unknown"}),
        ({"step_results": STEPS}, {"failure_mode": "HealthcheckError"}),
    ],
    ids=["asked for", "with its provider", "without one", "unknown", "the first exception of a step"],
)
def test_the_model_is_the_users_else_the_agents(tmp_path: Path, fields: Event, said: Event) -> None:
    assert of_job(tmp_path, **fields).items() >= said.items()


def test_values_of_wrong_types_are_left_out_and_named(tmp_path: Path) -> None:
    context = {"n_input_tokens": "many", "n_cache_tokens": -3, "n_output_tokens": 1.5, "cost_usd": "cheap"}
    wrong: Event = {
        "agent_result": context,
        "started_at": "yesterday",
        "agent_info": 5,
        "config": [],
        "id": 7,
    }
    events, report = converted(a_job(tmp_path / "job", a_trial_result(**wrong)))
    assert trials_of(events)[0]["resolved"] is True
    left_out = {"input_tokens", "cache_read_tokens", "output_tokens", "cost_usd", "started_at"}
    assert {name for _, name, _ in report.left_out} == left_out


@pytest.mark.parametrize("datasets", [7, 1.5, True, "text", {"name": "d"}, [7], None])
def test_datasets_that_are_no_list_name_no_benchmark(tmp_path: Path, datasets: object) -> None:
    job = a_job(tmp_path / "job", a_trial_result())
    write_json(job / "config.json", {"job_name": "job", "datasets": datasets})
    assert "benchmark" not in plan_of(converted(job)[0])


USER, AGENT = {"source": "user", "message": "x"}, {"source": "agent", "message": "x"}
COPIED_STEP = AGENT | {"is_copied_context": True}
FIRST = {"steps": [AGENT, AGENT], "continued_trajectory_ref": "trajectory.cont-1.json"}
SECOND = {"steps": [COPIED_STEP, AGENT], "continued_trajectory_ref": "trajectory.json"}


@pytest.mark.parametrize(
    ("trajectory", "length"),
    [
        ({"steps": [USER, AGENT]}, 1),
        ({"steps": []}, 0),
        (FIRST, 3),
        ({"steps": [], "continued_trajectory_ref": "../../secret.json"}, 0),
        ({"steps": "many"}, None),
        ("{", None),
        (None, None),
    ],
)
def test_the_length_is_the_agents_own_steps(tmp_path: Path, trajectory: Any, length: int | None) -> None:
    job = a_job(tmp_path / "job", a_trial_result())
    for name, content in (("trajectory.json", trajectory), ("trajectory.cont-1.json", SECOND)):
        if content is not None:
            write_json(job / "t0" / "agent" / name, content)
    events, report = converted(job)
    assert trials_of(events)[0].get("trajectory_length") == length
    (explanation,) = report.explanations
    assert bool(explanation.hints) == (length is None and trajectory is not None)


def test_steps_that_share_a_conversation_or_lack_one_have_no_length(tmp_path: Path) -> None:
    steps = [{"step_name": "a"}, {"step_name": "b"}, {"step_name": "../c"}]
    resumed: Event = {"config": {"agent": {"name": "codex", "resume_trajectory": True}}}
    job = a_job(tmp_path / "job", a_trial_result(step_results=steps))
    write_json(job / "t0" / "steps" / "a" / "agent" / "trajectory.json", {"steps": [AGENT]})
    [hint] = converted(job)[1].explanations[0].hints
    assert hint == "no length: only 1 of 3 steps have a trajectory.json"
    write_json(job / "t0" / "result.json", a_trial_result(step_results=steps, **resumed))
    assert "overlap" in converted(job)[1].explanations[0].hints[0]


# -----------------------------------------------------------------------------
# Terminal-Bench's layout: the names of directories, and the queue that the lock tells.


@pytest.mark.parametrize(
    ("package", "version", "kind"),
    [
        *(("terminal-bench", version, "chosen") for version in ("0.2.18", "0.2.13")),
        *(("terminal-bench", version, None) for version in ("0.2.7", None)),
        *(("fc-eval", "0.1.0", "chosen"), ("other", "9.9.9", None)),
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
def test_a_plan_without_tasks_is_not_complete(tmp_path: Path, lock: Event | str, complete: bool) -> None:
    run = a_run(tmp_path / "run1", [a_result()], metadata={"n_attempts": 1})
    write_json(run / "tb.lock", lock)
    assert plan_of(converted(run)[0])["plan_complete"] is complete


@pytest.mark.parametrize("lock", ["tb.lock", "fc.lock"])
@pytest.mark.parametrize("task", ["sessions", "panes", "agent-logs", "fix.agent-1-bug"])
def test_g2_a_directory_of_the_run_is_a_tasks_whatever_its_name(tmp_path: Path, task: str, lock: str) -> None:
    run = a_run(tmp_path / "run1", [a_result(task), a_result("b")])
    write_json(run / lock, {"agent": {"name": "terminus"}})
    events, report = converted(run)
    assert slots_of(events) == sorted([("run1", "", task, 1), ("run1", "", "b", 1)])
    assert not report.unreadable


def test_g2_a_run_may_be_called_like_an_agents_part_of_a_trial(tmp_path: Path) -> None:
    run = a_run(tmp_path / "my.agent-1-run", [a_result(run="my.agent-1-run")])
    write_json(run / "oom" / "oom.1-of-1.my.agent-1-run.agent-2-nop" / "results.json", a_result(id="sub"))
    trial = the_trial(run, harness="terminal-bench")
    assert trial["trial_id"] == "id of oom.1-of-1.my.agent-1-run"


# -----------------------------------------------------------------------------
# Logs of inspect_ai that are followed: files, not directories, which inspect_ai replaces as a whole.


def put(log: Path, logs: Path) -> None:
    """Write a log as inspect_ai does: beside it, and then in its place."""
    logs.mkdir(exist_ok=True)
    partial = logs / f"{log.name}.tmp"
    shutil.copyfile(log, partial)
    partial.replace(logs / log.name)


def test_samples_are_published_as_the_log_grows(inspect_logs: Path, tmp_path: Path) -> None:
    so_far = []
    with followed(tmp_path / "logs") as following:
        for state in ("growing", "grown"):
            put(the_log(inspect_logs / state), tmp_path / "logs")
            following.wait_until_converted()
            so_far.append(len(following.trials))
    assert 4 <= so_far[0] < so_far[1] == 18
    plan, *_ = following.events
    assert plan["type"] == "run_started"
    assert {"tasks", "attempts", "agent_models", "order"} <= plan.keys()
    assert [event["type"] for event in following.events].count("run_finished") == 1


def test_a_retry_gives_the_run_one_plan_however_often_it_is_read(inspect_logs: Path, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    with followed(logs) as following:
        for log in sorted((inspect_logs / "retried").iterdir()):
            put(log, logs)
            following.wait_until_converted()
        readings = following.follower.status.readings
        put(log, logs)
        wait_for(lambda: following.follower.status.readings > readings, "one more reading")
    plans = [event["revision"] for event in following.events if event["type"] == "run_started"]
    assert len(plans) == len(set(plans)) == 2
    assert following.digests == converted_digests(logs)
