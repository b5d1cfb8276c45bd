"""ProjectScylla experiment directories."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from streamer.sources.scylla import Scylla
from tests.sources.builders import Event, converted, copy_tree, joined_plan, plan_of, trials_of, write_json
from tests.support.data import shared_data
from tests.support.rows import read_rows, scylla_row_to_event

EXPERIMENT = "2026-01-20T06-13-07-test-001"


def dryrun() -> Path:
    return shared_data() / "scylla" / "dryrun" / EXPERIMENT


def a_run_result(**fields: Any) -> Event:
    return {
        "exit_code": 0,
        "token_stats": {"input_tokens": 5, "output_tokens": 7},
        "tokens_input": 25,
        "tokens_output": 7,
        "cost_usd": 0.5,
        "duration_seconds": 10.0,
        "judge_score": 0.75,
        "judge_passed": True,
        **fields,
    }


def an_experiment(path: Path, places: dict[str, Event], **config: Any) -> Path:
    """An experiment directory with a result at each place, and a config if anything is said for it."""
    for place, result in places.items():
        write_json(path / place / "run_result.json", result)
    if config:
        write_json(path / "config" / "experiment.json", config)
    return path


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
        assert {file["path"].rpartition("/")[0] for file in event.pop("artifacts")} == {
            place := f"{row['tier']}/{row['subtest']}/run_{row['run_number']:02d}",
            f"{place}/agent",
            f"{place}/judge",
        }
        assert event == {**expected, **renamed, **times}


@pytest.mark.parametrize("runs", [[1, 2], {"1": "passed", "2": "failed", "3": "agent_complete"}])
def test_r35_a_checkpoint_of_either_version_announces_its_ended_runs(tmp_path: Path, runs: Any) -> None:
    """Version 1.0 lists the numbers of ended runs."""
    run = an_experiment(tmp_path / "run", {"T0/00/run_01": a_run_result()}, experiment_id="t")
    checkpoint = {"status": "completed", "completed_runs": {"T0": {"00": runs, "01": None}, "T1": 1}}
    write_json(run / "checkpoint.json", checkpoint)
    assert converted(run)[1].notes == ["run run: 2 trials with a result announced, 1 found"]


def test_r35_a_score_that_no_judge_gave_is_said(tmp_path: Path) -> None:
    """As ProjectScylla writes it when all its judges fail."""
    valid, invalid = ({"score": 0.0, "is_valid": is_valid} for is_valid in (True, False))
    places = {
        f"T0/00/run_0{number}": a_run_result(judge_passed=False, judge_score=0.0, judges=judges)
        for number, judges in enumerate(([invalid, invalid], [valid, invalid], [{"score": 0.0}], []), 1)
    }
    events, said = converted(an_experiment(tmp_path / "run", places, experiment_id="t"))
    assert [trial["score"] for trial in trials_of(events)] == [0.0] * 4
    assert [str(remarks) for remarks in said.remarks.values()] == [
        "run run: 1 trial without a valid result of any judge: a failure with score 0, as ProjectScylla "
        "counts it: T0/00/1"
    ]


def test_r35_a_verdict_that_differs_from_the_checkpoints_is_said_and_counts(tmp_path: Path) -> None:
    places = {"T0/00/run_01": a_run_result(), "T0/00/run_02": a_run_result(judge_passed=False)}
    run = an_experiment(tmp_path / "run", places, experiment_id="t")
    write_json(run / "checkpoint.json", {"completed_runs": {"T0": {"00": {"1": "failed", "2": "failed"}}}})
    events, said = converted(run)
    assert [trial["resolved"] for trial in trials_of(events)] == [True, False]
    assert [str(remarks) for remarks in said.remarks.values()] == [
        "run run: 1 trial with another verdict in checkpoint.json; run_result.json counts: T0/00/1: passed, "
        "not failed"
    ]


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
    run = an_experiment(tmp_path / "run", {"T0/00/run_01": a_run_result(judge_passed=passed, **fields)})
    errors = {"stderr": "noise\n" * 20 + "+ claude --model m\nError: no credit\n"}
    write_json(run / "T0/00/run_01/agent/result.json", errors)
    (trial,) = trials_of(converted(run)[0])
    said = trial.get("message")
    assert said is None if message is None else said.endswith(message)
    assert not said or "noise\n" * 9 not in said


def test_times_are_when_the_agent_began_and_the_judge_ended() -> None:
    event = next(event for event in trials_of(converted(dryrun())[0]) if event["tier"] == "T0")
    assert event["started_at"] == "2026-01-20T06:13:16.402455+00:00"
    assert event["finished_at"] == "2026-01-20T06:16:41.204057+00:00"
    plan = converted(dryrun())[0][0]
    assert plan["planned_at"] == plan["started_at"] < event["started_at"]  # inference 3


def test_the_plan_of_the_dryrun_has_its_tiers_subtests_and_end() -> None:
    events, report = converted(dryrun())
    plan = plan_of(events)
    tiers = [f"T{k}" for k in range(7)]
    assert report.notes == [f"run {plan['run_id']}: 7 trials with a result announced, 4 found"]
    assert (plan["tasks"], plan["attempts"], plan["tiers"]) == (["test-001"], 1, tiers)
    assert plan["subtests"] == dict.fromkeys(tiers, 1)
    assert plan["agent_models"] == ["claude-code:claude-sonnet-4-5-20250929"]
    assert events[-1]["status"] == "interrupted"
    assert events[-1]["finished_at"] == "2026-01-20T06:22:17.394618+00:00"


def test_a_completed_copy_replaces_the_one_in_progress_whichever_is_newer(tmp_path: Path) -> None:
    path = an_experiment(
        tmp_path / "exp",
        {
            "completed/T0/00/run_01": a_run_result(),
            "in_progress/T0/00/run_01": a_run_result(judge_passed=None),
            "in_progress/T0/00/run_02": a_run_result(judge_passed=None, judge_score=None),
        },
        experiment_id="t",
    )
    events, report = converted(tmp_path)
    assert {e["attempt"]: e.get("resolved") for e in trials_of(events)} == {1: True, 2: None}
    assert {event["run_id"] for event in events} == {"exp"}
    assert report.duplicates == 1
    [alone] = trials_of(converted(path / "in_progress" / "T0" / "00" / "run_02")[0])
    assert alone["attempt"] == 2


def test_a_nested_copy_is_a_duplicate(tmp_path: Path) -> None:
    path = copy_tree(dryrun(), tmp_path / EXPERIMENT)
    before, _ = converted(path)
    copy_tree(path / "T0", path / "backup" / "T0")
    after, report = converted(path)
    assert after == before
    assert report.duplicates == 1


def test_without_a_config_the_directory_names_the_task_and_model_md_the_model(tmp_path: Path) -> None:
    path = an_experiment(tmp_path / EXPERIMENT, {"T3/07/run_12": a_run_result()})
    model_md = path / "T3" / "07" / "run_12" / "agent" / "MODEL.md"
    model_md.parent.mkdir()
    model_md.write_text("# Agent\n\n**Model**: some-model\n", "utf-8")
    (trial,) = trials_of(converted(path, model="unused")[0])
    assert (trial["run_id"], trial["task_id"], trial["model"]) == (EXPERIMENT, "test-001", "some-model")
    assert (trial["tier"], trial["subtest"], trial["attempt"]) == ("T3", "07", 12)


@pytest.mark.parametrize(
    ("options", "expected"), [({}, ("claude-code", "unknown")), ({"agent": "a", "model": "m"}, ("a", "m"))]
)
def test_options_name_what_the_experiment_does_not(
    tmp_path: Path, options: dict[str, str], expected: tuple[str, str]
) -> None:
    path = an_experiment(tmp_path / "exp", {"T0/00/run_01": a_run_result()}, experiment_id="t")
    (trial,) = trials_of(converted(path, **options)[0])
    assert (trial["agent"], trial["model"]) == expected


def test_what_the_judge_has_not_said_is_missing_and_an_exit_code_is_a_failure_mode(tmp_path: Path) -> None:
    result = a_run_result(judge_score=None, judge_passed=None, exit_code=124, token_stats=None, cost_usd=0.0)
    path = an_experiment(tmp_path / "exp", {"T0/00/run_01": result})
    (trial,) = trials_of(converted(path)[0])
    assert not {"score", "resolved", "input_tokens", "cost_usd"} & trial.keys()  # R2
    assert (trial["failure_mode"], trial["output_tokens"]) == ("exit_code_124", 7)


def test_experiments_are_pooled_as_shards(tmp_path: Path) -> None:
    for name in ("one", "two"):
        an_experiment(
            tmp_path / name,
            {"T0/00/run_01": a_run_result()},
            experiment_id=f"test-{name}",
            models=["m"],
            runs_per_subtest=3,
            tiers_to_run=["T0"],
        )
    events, _ = converted(tmp_path, run_id="pool")
    plan = joined_plan(events)
    assert (plan.get("tasks"), plan.get("tiers"), plan.attempts) == (["test-one", "test-two"], ["T0"], 3)
    assert [event["shard"] for event in trials_of(events)] == ["one", "two"]


@pytest.mark.parametrize("place", ["T0/00/run_x", "T0/run_01", "X/00/run_01", "T0/00/run_00"])
def test_a_result_out_of_place_is_named(tmp_path: Path, place: str) -> None:
    path = an_experiment(tmp_path / "exp", {place: a_run_result()}, experiment_id="t")
    events, report = converted(path)
    assert not trials_of(events)
    assert "T<k>/<subtest>/run_<n>" in report.unreadable[0][1]


def test_of_several_models_the_harness_runs_the_first(tmp_path: Path) -> None:
    path = an_experiment(tmp_path / "exp", {"T0/00/run_01": a_run_result()}, models=["m1", "m2"])
    events, _ = converted(path)
    assert plan_of(events)["agent_models"] == ["claude-code:m1"]
    assert [trial["model"] for trial in trials_of(events)] == ["m1"]


@pytest.mark.parametrize("judges", [{"judge_model": "m2"}, {"judge_models": ["m2"]}])
def test_r36_the_judge_of_an_experiment_is_told_by_either_version_of_its_config(
    tmp_path: Path, judges: dict[str, Any]
) -> None:
    path = an_experiment(tmp_path / "exp", {"T0/00/run_01": a_run_result()}, **judges)
    assert plan_of(converted(path)[0])["provenance"]["judge"] == "m2"


def test_broken_files_are_named_and_cost_only_what_they_would_have_told(tmp_path: Path) -> None:
    places = {"T0/00/run_01": a_run_result(judge_score=float("nan")), "T0/00/run_02": a_run_result()}
    path = an_experiment(tmp_path / "exp", places, experiment_id="t")
    write_json(path / "T0/00/run_01/agent/timing.json", "{")
    write_json(path / "T0/00/run_02/run_result.json", "[]")
    write_json(path / "checkpoint.json", "")
    events, report = converted(path)
    (trial,) = trials_of(events)
    assert (trial["attempt"], "score" in trial) == (1, False)
    assert {p.name for p, _ in report.unreadable} == {"checkpoint.json", "timing.json", "run_result.json"}
    assert [(name, p.parent.name) for p, name, _ in report.left_out] == [("score", "run_01")]


@pytest.mark.parametrize("place", ["run_01", "run_01_attempt_01"])
def test_s12_failed_tries_that_the_harness_repeats_are_no_results(tmp_path: Path, place: str) -> None:
    """The harness moves a try that its infrastructure failed below `.failed`, and counts it nowhere."""
    failed = f"completed/T0/00/.failed/{place}"
    path = an_experiment(
        tmp_path / EXPERIMENT,
        {"completed/T0/00/run_01": a_run_result(), failed: a_run_result(exit_code=-1, judge_score=0.0)},
        experiment_id="t",
    )
    events, report = converted(path)
    assert [trial["score"] for trial in trials_of(events)] == [0.75]
    assert not report.unreadable
    assert Scylla().part(path, path / failed / "run_result.json") is None


def test_a_workspace_is_not_searched(tmp_path: Path) -> None:
    path = an_experiment(tmp_path / "exp", {"T0/00/run_01": a_run_result()}, experiment_id="t")
    write_json(path / "T0/00/run_01/workspace/T1/00/run_01/run_result.json", a_run_result())
    write_json(path / "T0/00/run_01/workspace/tb.lock", {})
    assert len(converted(path)[0]) == 2


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    """Reading one would never end."""
    run = tmp_path / "experiment"
    home = run / "T0" / "00" / "run_01"
    write_json(home / "run_result.json", {"judge_passed": True, "exit_code": 0})
    (home / "agent").mkdir()
    for name in ("MODEL.md", "timing.json"):
        os.mkfifo(home / "agent" / name)
    events, _ = converted(run)
    assert [event["model"] for event in trials_of(events)] == ["unknown"]


@pytest.mark.parametrize(
    ("config", "complete"),
    [
        ({"tiers_to_run": ["T0"], "max_subtests": 1}, True),
        ({"tiers_to_run": ["T0"]}, False),
        ({"tiers_to_run": ["T0"], "max_subtests": 3}, False),
        ({}, True),
    ],
)
def test_a_plan_whose_subtests_are_not_counted_is_not_complete(
    tmp_path: Path, config: dict[str, Any], complete: bool
) -> None:
    path = an_experiment(tmp_path / "exp", {"T0/00/run_01": a_run_result()}, experiment_id="t", **config)
    assert plan_of(converted(path)[0])["plan_complete"] is complete
