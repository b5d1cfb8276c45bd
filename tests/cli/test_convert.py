"""`streamer convert`: what it prints and how it ends; what it reads is tested with the connectors."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner, Result

from streamer.terminal import cli


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A Terminal-Bench run directory with two trials."""
    for task in ("t1", "t2"):
        trial = tmp_path / "run-1" / task / f"{task}.1-of-1.run-1"
        trial.mkdir(parents=True)
        result = {"id": task, "task_id": task, "trial_name": trial.name, "is_resolved": True}
        (trial / "results.json").write_bytes(
            orjson.dumps(result | {"failure_mode": "unset", "parser_results": {"x": "passed"}})
        )
    return tmp_path / "run-1"


def convert(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["convert", *map(str, arguments)])


def test_events_go_to_stdout_and_the_counts_to_stderr(run: Path) -> None:
    result = convert(run)
    events = [orjson.loads(line) for line in result.stdout_bytes.splitlines()]
    assert {e["task_id"] for e in events if e["type"] == "trial_result"} == {"t1", "t2"}
    assert result.stderr.splitlines()[-1].startswith("1 run, 2 trials ")
    assert result.exit_code == 0


def test_an_unreadable_file_is_named_with_its_reason_and_makes_the_exit_code_1(run: Path) -> None:
    (run / "t2" / "t2.1-of-1.run-1" / "results.json").write_text("{cut off")
    result = convert(run)
    assert b'"t1"' in result.stdout_bytes
    assert "t2.1-of-1.run-1/results.json: not valid JSON" in result.stderr
    assert "1 unreadable" in result.stderr
    assert result.exit_code == 1


def test_a_directory_without_runs_is_exit_code_1(tmp_path: Path) -> None:
    result = convert(tmp_path)
    assert "no run of a known harness" in result.stderr
    assert (result.stdout, result.exit_code) == ("", 1)


def test_options_fill_in_agent_and_model_and_pool_into_a_run(run: Path) -> None:
    result = convert(run, "--agent", "me", "--model", "m", "--run-id", "pool")
    trials = [orjson.loads(line) for line in result.stdout_bytes.splitlines()]
    trials = [event for event in trials if event["type"] == "trial_result"]
    assert {(e["run_id"], e["shard"], e["agent"], e["model"]) for e in trials} == {
        ("pool", "run-1", "me", "m")
    }


def test_a_hostile_file_name_is_shown_harmless(run: Path) -> None:
    hostile = run / "t3\x1b[31m" / "t3.1-of-1.run-1"
    hostile.mkdir(parents=True)
    (hostile / "results.json").write_text("no")
    result = convert(run)
    assert "\x1b" not in result.stderr
    assert r"t3\x1b[31m" in result.stderr


def test_an_unknown_harness_is_a_usage_error_that_lists_the_known_ones(run: Path) -> None:
    result = convert(run, "--harness", "moon")
    assert "terminal-bench" in result.stderr
    assert "scylla" in result.stderr
    assert result.exit_code == 2
