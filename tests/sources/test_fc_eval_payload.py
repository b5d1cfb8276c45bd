"""fc-eval runs of a single agent, made by hand: index, speedups, and what a broken file leaves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.sources.builders import Event, a_run, a_trial_file, converted, trials_of, write_json

LABEL = "terminus-2:openai/gpt-5"
NAN = float("nan")
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
