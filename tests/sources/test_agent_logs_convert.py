"""What agent logs add to converted Terminal-Bench trials, and how `convert --explain` tells it (E6, R2)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from streamer.terminal import cli
from tests.sources.builders import a_result, a_run, converted, trials_of, write_json

STEPS = [
    {},
    {"llm_metrics": {"accumulated_token_usage": {"prompt_tokens": 100, "completion_tokens": 20}}},
]
LOCK = {"agent": {"name": "terminus", "model_name": "gpt-5"}}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with two trials whose harness counted no tokens; the first has a log beside it."""
    results = [
        a_result(task, total_input_tokens=0, total_output_tokens=0, total_cost=0.0) for task in ("t1", "t2")
    ]
    found = a_run(tmp_path / "run1", results, run_file=results, lock=LOCK)
    write_json(found / "t1" / results[0]["trial_name"] / "agent-logs" / "t.json", STEPS)
    return found


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
