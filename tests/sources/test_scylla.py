"""ProjectScylla experiment directories."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from streamer.sources.scylla import Scylla
from tests.sources.builders import Event, converted, copy_tree, joined_plan, plan_of, trials_of, write_json
from tests.sources.outcomes import agree
from tests.support.data import shared_data
from tests.support.rows import read_rows, scylla_row_to_event

EXPERIMENT = "2026-01-20T06-13-07-test-001"


def dryrun() -> Path:
    return shared_data() / "scylla" / "dryrun" / EXPERIMENT


def a_run_result(**fields: Any) -> Event:
    result: Event = {"exit_code": 0, "tokens_input": 25, "tokens_output": 7, "duration_seconds": 10.0}
    result |= {"token_stats": {"input_tokens": 5, "output_tokens": 7}, "cost_usd": 0.5}
    return result | {"judge_score": 0.75, "judge_passed": True} | fields


FIRST, SECOND = (f"T0/00/run_{number:02}" for number in (1, 2))


def an_experiment(path: Path, places: Mapping[str, Event | str], **config: Any) -> Path:
    """An experiment directory with a result at each place, and a config if anything is said for it."""
    for place, result in places.items():
        write_json(path / place / "run_result.json", result)
    if config:
        write_json(path / "config" / "experiment.json", config)
    return path


def of_one(folder: Path, result: Event | None = None, **config: Any) -> Path:
    """An experiment of one run."""
    config = config or {"experiment_id": "t"}
    return an_experiment(folder / "exp", {FIRST: a_run_result() if result is None else result}, **config)


def test_the_dryrun_says_what_its_rows_say() -> None:
    events, report = converted(dryrun())
    result = {(event["tier"], event["subtest"], event["attempt"]): event for event in trials_of(events)}
    rows = read_rows(shared_data() / "scylla" / "dryrun.jsonl")
    assert len(result) == len(rows) == 4
    assert not report.unreadable + report.left_out
    for row in rows:
        event = result[row["tier"], row["subtest"], row["run_number"]]
        expected = scylla_row_to_event(row, EXPERIMENT)
        renamed = {"task_id": "test-001", "model": "claude-sonnet-4-5-20250929"}
        times = {name: event[name] for name in ("revision", "started_at", "finished_at")}
        place = f"{row['tier']}/{row['subtest']}/run_{row['run_number']:02d}"
        folders = {file["path"].rpartition("/")[0] for file in event.pop("artifacts")}
        assert folders == {place, f"{place}/agent", f"{place}/judge"}
        assert event == {**expected, **renamed, **times}


@pytest.mark.parametrize("runs", [[1, 2], {"1": "passed", "2": "failed", "3": "agent_complete"}])
def test_r35_a_checkpoint_of_either_version_announces_its_ended_runs(tmp_path: Path, runs: Any) -> None:
    """Version 1.0 lists the numbers of ended runs."""
    run = of_one(tmp_path)
    checkpoint = {"status": "completed", "completed_runs": {"T0": {"00": runs, "01": None}, "T1": 1}}
    write_json(run / "checkpoint.json", checkpoint)
    agree({"notes": ["run exp: 2 trials with a result announced, 1 found"]}, run)


def test_r35_a_score_that_no_judge_gave_is_said(tmp_path: Path) -> None:
    """As ProjectScylla writes it when all its judges fail."""
    valid, invalid = ({"score": 0.0, "is_valid": is_valid} for is_valid in (True, False))
    places = {
        f"T0/00/run_0{number}": a_run_result(judge_passed=False, judge_score=0.0, judges=judges)
        for number, judges in enumerate(([invalid, invalid], [valid, invalid], [{"score": 0.0}], []), 1)
    }
    places["T0/00/run_05"] = a_run_result(judges=[invalid])  # judged again, which leaves the first judges
    counted = "a failure with score 0, as ProjectScylla counts it: T0/00/1"
    said = f"1 trial without a valid result of any judge: {counted}"
    run = an_experiment(tmp_path / "run", places, experiment_id="t")
    agree({"score": [0.0] * 4 + [0.75], "remarks": [said]}, run)


@pytest.mark.parametrize("state", ["tiers_running", "failed", "complete", None])
def test_an_experiment_that_goes_on_after_its_end_has_not_ended(tmp_path: Path, state: str | None) -> None:
    """ProjectScylla leaves the status as it is when it resumes a completed experiment."""
    run = of_one(tmp_path)
    named = {"experiment_state": state} if state else {}
    write_json(run / "checkpoint.json", {"status": "completed"} | named)
    agree({"ends": ["completed"] if state in ("complete", None) else []}, run)


def test_r35_a_verdict_that_differs_from_the_checkpoints_is_said_and_counts(tmp_path: Path) -> None:
    places = {FIRST: a_run_result(), SECOND: a_run_result(judge_passed=False)}
    run = an_experiment(tmp_path / "run", places, experiment_id="t")
    write_json(run / "checkpoint.json", {"completed_runs": {"T0": {"00": {"1": "failed", "2": "failed"}}}})
    said = (
        "1 trial with another verdict in checkpoint.json; run_result.json counts: T0/00/1: passed, not failed"
    )
    agree({"resolved": [True, False], "remarks": [said]}, run)


@pytest.mark.parametrize(
    ("passed", "fields", "message"),
    [
        (True, {"judge_reasoning": "well done"}, None),
        (False, {"judge_reasoning": "the script prints nothing"}, "the script prints nothing"),
        (None, {"exit_code": 1}, "+ claude --model m\nError: no credit"),
        (False, {"exit_code": 0}, None),
    ],
)
def test_a_trial_that_did_not_pass_says_why(
    tmp_path: Path, passed: bool | None, fields: Event, message: str | None
) -> None:
    run = of_one(tmp_path, a_run_result(judge_passed=passed, **fields))
    errors = {"stderr": "noise\n" * 20 + "+ claude --model m\nError: no credit\n"}
    write_json(run / "T0/00/run_01/agent/result.json", errors)
    (trial,) = trials_of(converted(run)[0])
    said = trial.get("message")
    assert said is None if message is None else said.endswith(message)
    assert not said or "noise\n" * 9 not in said


def test_times_are_when_the_agent_began_and_the_judge_ended() -> None:
    events, _ = converted(dryrun())
    [trial] = [event for event in trials_of(events) if event["tier"] == "T0"]
    times = ("2026-01-20T06:13:16.402455+00:00", "2026-01-20T06:16:41.204057+00:00")
    assert (trial["started_at"], trial["finished_at"]) == times
    assert events[0]["planned_at"] == events[0]["started_at"] < trial["started_at"]  # inference 3


def test_the_plan_of_the_dryrun_has_its_tiers_subtests_and_end() -> None:
    tiers = [f"T{k}" for k in range(7)]
    said = [f"run {EXPERIMENT}: 7 trials with a result announced, 4 found"]
    events = agree({"notes": said, "ends": ["interrupted"], "tasks": [["test-001"]]}, dryrun())
    expected: Event = {"attempts": 1, "tiers": tiers, "subtests": dict.fromkeys(tiers, 1)}
    expected["agent_models"] = ["claude-code:claude-sonnet-4-5-20250929"]
    assert {name: plan_of(events)[name] for name in expected} == expected
    assert events[-1]["finished_at"] == "2026-01-20T06:22:17.394618+00:00"


def test_a_completed_copy_replaces_the_one_in_progress_whichever_is_newer(tmp_path: Path) -> None:
    in_progress = a_run_result(judge_passed=None)
    places = {f"completed/{FIRST}": a_run_result(), f"in_progress/{FIRST}": in_progress}
    places[f"in_progress/{SECOND}"] = in_progress | {"judge_score": None}
    path = an_experiment(tmp_path / "exp", places, experiment_id="t")
    agree({"attempt": [1, 2], "resolved": [True, None], "runs": ["exp"], "duplicates": 1}, tmp_path)
    agree({"attempt": [2]}, path / "in_progress" / SECOND)


def test_a_result_names_its_experiment(tmp_path: Path) -> None:
    run = an_experiment(tmp_path / "run", {f"completed/{FIRST}": a_run_result()}, experiment_id="t")
    agree({"runs": ["run"], "attempt": [1]}, run / "completed" / FIRST / "run_result.json")


def test_a_nested_copy_is_a_duplicate(tmp_path: Path) -> None:
    path = copy_tree(dryrun(), tmp_path / EXPERIMENT)
    before, _ = converted(path)
    copy_tree(path / "T0", path / "backup" / "T0")
    assert agree({"duplicates": 1}, path) == before


def test_without_a_config_the_directory_names_the_task_and_model_md_the_model(tmp_path: Path) -> None:
    path = an_experiment(tmp_path / EXPERIMENT, {"T3/07/run_12": a_run_result()})
    model_md = path / "T3" / "07" / "run_12" / "agent" / "MODEL.md"
    model_md.parent.mkdir()
    model_md.write_text("# Agent\n\n**Model**: some-model\n", "utf-8")
    found: Event = {"run_id": [EXPERIMENT], "task_id": ["test-001"], "model": ["some-model"], "tier": ["T3"]}
    agree(found | {"subtest": ["07"], "attempt": [12]}, path, model="unused")


@pytest.mark.parametrize(("agent", "model"), [(None, None), ("a", "m")])
def test_options_name_what_no_file_names(tmp_path: Path, agent: str | None, model: str | None) -> None:
    expected: Event = {"agent": [agent or "claude-code"], "model": [model or "unknown"]}
    agree(expected, of_one(tmp_path), agent=agent, model=model)


def test_what_the_judge_has_not_said_is_missing_and_an_exit_code_is_a_failure_mode(tmp_path: Path) -> None:
    unsaid = dict.fromkeys(("judge_score", "judge_passed", "token_stats"))
    path = of_one(tmp_path, a_run_result(exit_code=124, cost_usd=0.0, **unsaid))
    missing: Event = {name: [None] for name in ("score", "resolved", "input_tokens", "cost_usd")}  # R2
    agree(missing | {"failure_mode": ["exit_code_124"], "output_tokens": [7]}, path)


def test_experiments_are_pooled_as_shards(tmp_path: Path) -> None:
    config: Event = {"models": ["m"], "runs_per_subtest": 3, "tiers_to_run": ["T0"]}
    for name in ("one", "two"):
        an_experiment(tmp_path / name, {FIRST: a_run_result()}, experiment_id=f"test-{name}", **config)
    plan = joined_plan(agree({"shard": ["one", "two"]}, tmp_path, run_id="pool"))
    assert (plan.get("tasks"), plan.get("tiers"), plan.attempts) == (["test-one", "test-two"], ["T0"], 3)


@pytest.mark.parametrize("place", ["T0/00/run_x", "T0/run_01", "X/00/run_01", "T0/00/run_00"])
def test_a_result_out_of_place_is_named(tmp_path: Path, place: str) -> None:
    events, report = converted(an_experiment(tmp_path / "exp", {place: a_run_result()}, experiment_id="t"))
    assert not trials_of(events)
    assert "T<k>/<subtest>/run_<n>" in report.unreadable[0][1]


def test_of_several_models_the_harness_runs_the_first(tmp_path: Path) -> None:
    events = agree({"model": ["m1"]}, of_one(tmp_path, models=["m1", "m2"]))
    assert plan_of(events)["agent_models"] == ["claude-code:m1"]


@pytest.mark.parametrize("judges", [{"judge_model": "m2"}, {"judge_models": ["m2"]}])
def test_r36_either_version_of_the_config_tells_the_judge(tmp_path: Path, judges: dict[str, Any]) -> None:
    assert plan_of(converted(of_one(tmp_path, **judges))[0])["provenance"]["judge"] == "m2"


def test_broken_files_are_named_and_cost_only_what_they_would_have_told(tmp_path: Path) -> None:
    places: dict[str, Event | str] = {FIRST: a_run_result(judge_score=float("nan")), SECOND: "[]"}
    path = an_experiment(tmp_path / "exp", places, experiment_id="t")
    write_json(path / FIRST / "agent/timing.json", "{")
    write_json(path / "checkpoint.json", "")
    agree({"attempt": [1], "score": [None], "left_out": [("run_01", "score")]}, path)
    broken = {file.name for file, _ in converted(path)[1].unreadable}
    assert broken == {"checkpoint.json", "timing.json", "run_result.json"}


@pytest.mark.parametrize("place", ["run_01", "run_01_attempt_01"])
def test_s12_failed_tries_that_the_harness_repeats_are_no_results(tmp_path: Path, place: str) -> None:
    """The harness moves a try that its infrastructure failed below `.failed`, and counts it nowhere."""
    failed = f"completed/T0/00/.failed/{place}"
    places = {f"completed/{FIRST}": a_run_result(), failed: a_run_result(exit_code=-1, judge_score=0.0)}
    path = an_experiment(tmp_path / EXPERIMENT, places, experiment_id="t")
    agree({"score": [0.75], "unreadable": []}, path)
    assert Scylla().part(path, path / failed / "run_result.json") is None


def test_a_workspace_is_not_searched(tmp_path: Path) -> None:
    path = of_one(tmp_path)
    write_json(path / FIRST / "workspace" / FIRST / "run_result.json", a_run_result())
    write_json(path / FIRST / "workspace/tb.lock", {})
    agree({"types": ["run_started", "trial_result"]}, path)


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    """Reading one would never end."""
    run = of_one(tmp_path)
    (run / FIRST / "agent").mkdir()
    for name in ("MODEL.md", "timing.json"):
        os.mkfifo(run / FIRST / "agent" / name)
    agree({"model": ["unknown"]}, run)


@pytest.mark.parametrize(
    ("config", "complete"),
    [
        ({"tiers_to_run": ["T0"], "max_subtests": 1}, True),
        ({"tiers_to_run": ["T0"]}, False),
        ({"tiers_to_run": ["T0"], "max_subtests": 3}, False),
        ({}, True),
    ],
)
def test_a_plan_of_uncounted_subtests_is_incomplete(tmp_path: Path, config: Event, complete: bool) -> None:
    agree({"complete": [complete]}, of_one(tmp_path, experiment_id="t", **config))
