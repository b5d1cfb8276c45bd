"""What agent logs add to converted Terminal-Bench trials, and how `convert --explain` tells it (E6, R2)."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner

from streamer.terminal import cli
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
    trials_of,
    write_json,
)
from tests.sources.every_eval_ever import a_file, a_row, rows_in, unpack_evaluations
from tests.sources.harbor import summaries
from tests.sources.swe_bench import unpack_runs
from tests.support.data import shared_data

STEPS = [{}, {"llm_metrics": {"accumulated_token_usage": {"prompt_tokens": 100, "completion_tokens": 20}}}]
LOCK = {"agent": {"name": "terminus", "model_name": "gpt-5"}}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with two trials whose harness counted no tokens; the first has a log beside it."""
    results = [
        a_result(task, total_input_tokens=0, total_output_tokens=0, total_cost=0.0) for task in ("t1", "t2")
    ]
    result = a_run(tmp_path / "run1", results, run_file=results, lock=LOCK)
    write_json(result / "t1" / results[0]["trial_name"] / "agent-logs" / "t.json", STEPS)
    return result


def numbers(event: dict[str, Any]) -> tuple[Any, ...]:
    names = ("input_tokens", "output_tokens", "cost_usd", "trajectory_length")
    return tuple(event.get(name) for name in names)


def test_the_log_of_a_terminal_bench_trial_gives_its_tokens_and_length(run: Path) -> None:
    events, report = converted(run)
    assert [numbers(event) for event in trials_of(events)] == [(100, 20, None, 2), (0, 0, None, None)]
    assert (report.trials, report.duplicates, report.unreadable) == (2, 0, [])


def test_a_recording_of_a_terminal_bench_trial_is_not_taken_for_its_trajectory(run: Path) -> None:
    sessions = run / "t2" / "t2.1-of-1.run1" / "sessions"
    sessions.mkdir()
    (sessions / "tests.cast").write_text('{"version": 2}\n[0, "o", "x"]\n')
    assert numbers(trials_of(converted(run)[0])[1]) == (0, 0, None, None)


@pytest.mark.parametrize("what", ["run1 copied without logs", "run1_results.json"])
def test_a_copy_without_the_logs_is_still_a_copy(run: Path, what: str) -> None:
    if what == "run1_results.json":
        shutil.copyfile(run / "results.json", run.parent / what)
    else:
        shutil.copytree(run, run.parent / what, ignore=shutil.ignore_patterns("agent-logs"))
    events, report = converted(run.parent)
    assert [numbers(event) for event in trials_of(events)] == [(100, 20, None, 2), (0, 0, None, None)]
    assert report.trials == 2


def test_a_log_that_cannot_be_used_is_a_hint_not_an_error(run: Path) -> None:
    write_json(run / "t1" / "t1.1-of-1.run1" / "agent-logs" / "t.json", "[cut off")
    events, report = converted(run)
    assert numbers(trials_of(events)[0]) == (0, 0, None, None)
    assert report.unreadable == []
    [hint] = report.explanations[0].hints
    assert hint.startswith("agent-logs/t.json: not valid JSON")


def test_explain_names_the_file_of_each_number_on_stderr(run: Path) -> None:
    result = CliRunner().invoke(cli, ["convert", str(run), "--explain"])
    assert result.exit_code == 0
    assert all(json.loads(line) for line in result.stdout.splitlines())
    first, second, counts = result.stderr.splitlines()[:3]
    assert first.endswith(
        "t1.1-of-1.run1/results.json: input_tokens 100 from agent-logs/t.json, output_tokens 20 from "
        "agent-logs/t.json, cost_usd unknown, trajectory_length 2 from agent-logs/t.json"
    )
    assert "input_tokens 0 from results.json" in second
    assert counts.startswith("1 of 2 trials with numbers from agent logs or recordings")


def test_explain_names_the_run_level_file_of_trials_that_stand_only_there(run: Path) -> None:
    file = shutil.copyfile(run / "results.json", run.parent / "run2_results.json")
    result = CliRunner().invoke(cli, ["convert", str(file), "--explain"])
    tokens = "input_tokens 0 from run2_results.json, output_tokens 0 from run2_results.json"
    assert f"{tokens}, cost_usd unknown" in result.stderr
    assert "0 of 2 trials with numbers from agent logs" in result.stderr


def test_without_explain_nothing_of_it_is_said(run: Path) -> None:
    assert "agent-logs" not in CliRunner().invoke(cli, ["convert", str(run)]).stderr


# -----------------------------------------------------------------------------
# Broken reports of SWE-bench and rows of Every Eval Ever: what comes out is valid, and nothing is raised.


BROKEN = 150


@pytest.mark.parametrize("unpack", [unpack_runs, unpack_evaluations])
def test_a_broken_file_gives_valid_events_or_a_reason(tmp_path: Path, unpack: Callable[[Path], Path]) -> None:
    """`converted` checks every event against the schema."""
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


def a_real_run(folder: Path) -> Path:
    source = shared_data() / "terminal_bench" / "runs" / "20250924_droid_gpt-5" / "tb_rc2_g5_4"
    return copy_tree(source, folder / source.name)


def copy_some(run: Path, target: Path, count: int = COPIED) -> None:
    """Copy the first trial directories of a run, task directories included."""
    tasks = sorted(path for path in run.iterdir() if path.is_dir() and not target.is_relative_to(path))
    for task in tasks[:count]:
        copy_tree(task, target / task.name)


def test_43_trial_directories_of_another_run_are_43_duplicates_of_that_run(tmp_path: Path) -> None:
    run = a_real_run(tmp_path)
    other = a_run(tmp_path / "another", [a_result(run="another")], [], metadata={"agent_name": "x"})
    before, _ = converted(tmp_path)
    copy_some(run, other / "nested")
    after, report = converted(tmp_path)
    assert after == before
    assert (report.duplicates, report.unreadable) == (COPIED, [])
    copy_some(run, other)
    assert slots_of(converted(tmp_path)[0]) == slots_of(before)


def test_a_partial_copy_with_its_run_files_is_the_run_it_was_copied_from(tmp_path: Path) -> None:
    run = a_real_run(tmp_path)
    other = a_run(tmp_path / "another", [a_result(run="another")], [])
    before, _ = converted(tmp_path)
    for name in (run.name, "backup"):
        copy_some(run, other / name)
        for file in ("results.json", "tb.lock", "run_metadata.json"):
            (other / name / file).write_bytes((run / file).read_bytes())
    after, report = converted(tmp_path)
    assert trials_of(after) == trials_of(before)
    assert report.duplicates == 2 * COPIED
    assert sorted(report.runs) == ["another", run.name]
    alone, _ = converted(other)
    assert {event["run_id"] for event in alone} == {"another", run.name}


def test_nested_trials_of_a_run_that_is_not_converted_are_left_aside_and_reported(tmp_path: Path) -> None:
    run = a_real_run(tmp_path)
    other = a_run(tmp_path / "another", [a_result(run="another"), a_result("b", run="another")], [])
    copy_some(run, other / "nested", 5)
    events, report = converted(other)
    assert len(trials_of(events)) == 2
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
    assert {e["revision"]: e.get("resolved") for e in trials_of(events)} == {
        500: None,
        1_000: False,
        2_000: True,
    }
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
# Runs are found below the paths given; links are not followed.


def test_symbolic_links_are_not_followed_except_the_path_itself(tmp_path: Path) -> None:
    run = a_run(tmp_path / "runs" / "run1", [a_result()], [])
    (run / "oom" / "loop").symlink_to(run)
    (tmp_path / "runs" / "latest").symlink_to(run)
    (tmp_path / "runs" / "gone").symlink_to(tmp_path / "nowhere")
    for path in (tmp_path, tmp_path / "runs" / "latest"):
        events, report = converted(path)
        assert slots_of(events) == [("run1", "", "oom", 1)]
        assert not report.duplicates


def test_a_link_that_leads_to_itself_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "a")
    assert converted(tmp_path / "a")[1].unreadable


def test_both_harnesses_are_found_in_one_folder(tmp_path: Path) -> None:
    a_run(tmp_path / "tb", [a_result(run="tb")], [])
    write_json(tmp_path / "sc" / "T0" / "00" / "run_01" / "run_result.json", {"judge_passed": True})
    events, _ = converted(tmp_path)
    assert {event["harness"] for event in trials_of(events)} == {"terminal-bench", "scylla"}
    events, _ = converted(tmp_path, harness="scylla")
    assert {event["harness"] for event in trials_of(events)} == {"scylla"}


# -----------------------------------------------------------------------------
# Evaluations that the converter of Every Eval Ever itself wrote (see every_eval_ever/record.py).


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_evaluations(tmp_path_factory.mktemp("evaluations"))


def file_of(recorded: Path, name: str) -> Path:
    (file,) = [f for f in recorded.rglob("*_samples.jsonl") if rows_in(f)[0]["evaluation_name"] == name]
    return file


def whole_of(file: Path) -> Event:
    whole: Event = json.loads(file.with_name(file.name.replace("_samples.jsonl", ".json")).read_text())
    return whole


def one_event(tmp_path: Path, *rows: Event) -> Event:
    (event,) = trials_of(converted(a_file(tmp_path / "x.jsonl", *rows))[0])
    return event


def test_both_evaluations_of_a_directory_are_runs_named_by_the_evaluation(recorded: Path) -> None:
    _events, report = converted(recorded)
    ids = {rows_in(file)[0]["evaluation_id"] for file in recorded.rglob("*_samples.jsonl")}
    assert set(report.runs) == ids
    assert len(ids) == 2
    assert not report.unreadable + report.left_out


def test_the_counts_and_scores_are_those_of_the_file(recorded: Path) -> None:
    """One trial for each sample and epoch; each row's score is a metric of it."""
    file = file_of(recorded, "arithmetic")
    rows = rows_in(file)
    trials = trials_of(converted(file)[0])
    assert len(trials) == len({(row["sample_id"], row["metadata"]["epoch"]) for row in rows}) == 8
    by_row = sorted((row["sample_id"], row["metadata"]["epoch"], row["evaluation"]["score"]) for row in rows)
    by_metric = sorted(
        (trial["task_id"].removeprefix("arithmetic/"), str(trial["attempt"]), value)
        for trial in trials
        for name, value in trial["metrics"].items()
        if name.startswith("score")
    )
    assert by_metric == by_row


def test_scores_have_the_mean_that_the_evaluation_says(recorded: Path) -> None:
    file = file_of(recorded, "with-tools")
    (summary,) = summaries(converted(file)[0]).values()
    results = whole_of(file)["evaluation_results"]
    accuracy = next(r for r in results if "accuracy" in r["evaluation_result_id"])
    metric = summary["metrics"][f"score/{accuracy['evaluation_result_id'].replace(':', '_')}"]
    details = accuracy["score_details"]
    assert metric["mean"] == summary["accuracy"] == details["score"] == 0.5
    assert metric["standard_error"] == pytest.approx(details["uncertainty"]["standard_error"]["value"])
    assert summary["trials"] == accuracy["source_data"]["samples_number"] == 4


def test_a_plan_has_the_benchmark_the_metrics_and_the_model(recorded: Path) -> None:
    file = file_of(recorded, "with-tools")
    plan = plan_of(converted(file)[0])
    whole = whole_of(file)
    assert plan["agent_models"] == [f"unknown:{whole['model_info']['id']}"]
    named = {r["evaluation_result_id"].replace(":", "_") for r in whole["evaluation_results"]}
    assert {name.removeprefix("score/") for name in plan["metrics"]} == named
    assert {metric["direction"] for metric in plan["metrics"].values()} == {"higher"}
    assert [metric["label"] for metric in plan["metrics"].values()] == ["match:accuracy"]
    assert converted(file)[0][-1]["type"] == "run_finished"


def test_tokens_turns_and_tool_calls_are_the_rows(recorded: Path) -> None:
    file = file_of(recorded, "with-tools")
    row = rows_in(file)[0]
    trial = trials_of(converted(file)[0])[0]
    usage = row["token_usage"]
    names = ("input_tokens", "output_tokens", "cache_read_tokens")
    assert [trial[name] for name in names] == [
        usage["input_tokens"],
        usage["output_tokens"],
        usage["input_tokens_cache_read"],
    ]
    assert usage["total_tokens"] == sum(trial[name] for name in names)
    assert trial["metrics"]["num_turns"] == row["evaluation"]["num_turns"]
    assert trial["metrics"]["tool_calls"] == row["evaluation"]["tool_calls_count"] == 1


def test_an_error_is_the_message_without_the_key_in_it(recorded: Path) -> None:
    trials = trials_of(converted(file_of(recorded, "arithmetic"))[0])
    (failed,) = [trial for trial in trials if trial["failure_mode"] == "error"]
    assert (failed["task_id"], failed["attempt"]) == ("arithmetic/four", 2)
    assert "no credit left for key [secret]" in failed["message"]
    assert "sk-proj" not in json.dumps(trials)


def test_without_the_whole_evaluation_a_file_is_a_run_that_goes_on(tmp_path: Path) -> None:
    file = a_file(tmp_path / "x_samples.jsonl", a_row())
    events, _ = converted(file)
    assert [event["type"] for event in events] == ["run_started", "trial_result"]
    assert events[0]["run_id"] == "bench/acme_m/1700000000"
    whole = {"evaluation_results": [{"metric_config": {"lower_is_better": True, "metric_unit": "ms"}}]}
    write_json(tmp_path / "x.json", whole)
    events, _ = converted(file)
    assert plan_of(events)["metrics"] == {"score": {"direction": "lower", "unit": "ms"}}
    assert events[-1]["type"] == "run_finished"


@pytest.mark.parametrize("content", ["{", "[]", '{"evaluation_results": [1, {"metric_config": 3}]}'])
def test_a_broken_file_of_the_evaluation_loses_no_sample(tmp_path: Path, content: str) -> None:
    file = a_file(tmp_path / "x_samples.jsonl", a_row())
    write_json(tmp_path / "x.json", content)
    assert len(trials_of(converted(file)[0])) == 1


def test_metadata_are_labels_as_far_as_they_fit(tmp_path: Path) -> None:
    metadata: dict[str, Any] = {"subject": "algebra", "long": "x" * 300, "number": 3, "empty": ""}
    metadata |= {f"m{number:02}": "y" for number in range(20)}
    labels = one_event(tmp_path, a_row(metadata=metadata))["labels"]
    assert labels == {f"m{number:02}": "y" for number in range(16)}
    assert one_event(tmp_path, a_row(metadata={"subject": "algebra"}))["labels"] == {"subject": "algebra"}


# -----------------------------------------------------------------------------
# fc-eval runs of a single agent, made by hand: index, speedups, and what a broken file leaves.


LABEL = "terminus-2:openai/gpt-5"
NAN = float("nan")
SPEEDUPS = {"m.f": {"agent/nop": 2.0, "oracle/nop": 3.0}}
FALLEN_BACK = {"m.f": {"agent/nop": 1.0, "oracle/nop": 3.0, "fallback_to_baseline": True}}


def a_single_run(folder: Path, improvements: Any, **fields: Any) -> Path:
    """A single-agent run of one trial with what the harness keeps of its log."""
    metrics = {"improvements_dict": improvements, "tests": "failed", "snapshot_status": "passed"}
    metrics["tests_dict"] = {"passed": 1, "failed": 2, "error": 0}
    metrics["snapshot_dict"] = {"pass-to-fail": 0, "failed": 7}
    run = a_run(folder / "run1", [a_result("t", is_resolved=False, parser_extra_metrics=metrics | fields)])
    agent = {"name": "terminus-2", "model_name": "openai/gpt-5"}
    write_json(run / "fc.lock", {"agent": agent, "run_spec": {"agent_mode": "single"}})
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


@pytest.mark.parametrize("name", ["tests", "snapshot"])
def test_a_block_that_the_harness_could_not_read_fails_as_in_the_log(tmp_path: Path, name: str) -> None:
    """R5: the harness keeps a note in the place of a block that is no JSON."""
    note = {"error": "failed to parse JSON", "exception": "Expecting value: line 1 column 62 (char 61)"}
    event = the_trial(a_single_run(tmp_path, {"agent_advantage": 0.0}, **{f"{name}_dict": note}))
    assert event[name] == {"status": "unparsable"}


def test_a_null_that_was_nan_when_the_harness_judged_it_passes_the_snapshot(tmp_path: Path) -> None:
    """B6, D17: NaN is not above 0, and JSON keeps it as null. The harness stumbles over a null (B4)."""
    run = a_single_run(tmp_path, {"agent_advantage": 0.0}, snapshot_dict={"pass-to-fail": None, "failed": 1})
    assert the_trial(run)["snapshot"] == {"status": "passed", "pass_to_fail": 0.0, "failed": 1}


def test_null_oracle_values_are_looked_up_in_the_log(tmp_path: Path) -> None:
    """A2, D17, R22: one that was NaN is invalid. Where all are missing the agent's own values count."""
    block = {"last_agent": LABEL, "agent_advantage": 0.0}
    logged = block | {
        "per_benchmark_speedups_by_agent": {LABEL: {"m.f": {"agent/nop": 2.0, "oracle/nop": NAN}}}
    }
    kept = block | {
        "per_benchmark_speedups_by_agent": {LABEL: {"m.f": {"agent/nop": 2.0, "oracle/nop": None}}}
    }
    run = a_single_run(tmp_path, kept)
    assert the_trial(run)["benchmarks"] == {"m.f": {"agent/nop": 2.0, "oracle/nop": None}}
    pane = run / "t" / "t.1-of-1.run1" / "panes" / "post-test.txt"
    pane.parent.mkdir()
    pane.write_text(f"FORMULACODE_RESULT_START\n{json.dumps(logged)}\nFORMULACODE_RESULT_END\n")
    assert the_trial(run)["benchmarks"] == {"m.f": {"agent/nop": 2.0, "oracle/nop": "NaN"}}
    for other in ({}, {"m.f": {"agent/nop": 5.0, "oracle/nop": 1.5}}, {"m.g": {"agent/nop": 2.0}}):
        of_another_try = block | {"per_benchmark_speedups_by_agent": {LABEL: other}}
        pane.write_text(f"FORMULACODE_RESULT_START\n{json.dumps(of_another_try)}\nFORMULACODE_RESULT_END\n")
        assert the_trial(run)["benchmarks"] == {"m.f": {"agent/nop": 2.0, "oracle/nop": None}}


# -----------------------------------------------------------------------------
# Reading what lies on disk: pipes are not waited for, and what may not be read is named.


def test_a_pipe_where_a_file_belongs_is_not_waited_for(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result()], [], metadata={})
    (run / "results.json").unlink()
    os.mkfifo(run / "results.json")
    (run / "oom" / "oom.2-of-2.run1").mkdir()
    os.mkfifo(run / "oom" / "oom.2-of-2.run1" / "results.json")
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
