"""Files larger than the memory: sparse, as an agent under test can write them, or packed."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from streamer.sources.files import MAX_FILE_BYTES, FileError, read_json
from tests.sources.builders import a_result, a_run
from tests.support.bounded import GIB, gzip_bomb, sparse, streamer_within
from tests.support.events import a_trial
from tests.support.tailing import followed
from tests.support.worker_process import wait_for

MIB = 1024**2
LOCK = {"agent": {"name": "terminus", "model_name": "gpt-5"}}


def a_run_with_two_trials(folder: Path) -> tuple[Path, Path]:
    """A run, and the directory of its first trial."""
    results = [a_result(task, total_input_tokens=7) for task in ("t1", "t2")]
    run = a_run(folder / "run1", results, lock=LOCK)
    return run, run / "t1" / results[0]["trial_name"]


def converted_within(most_bytes: int, run: Path) -> tuple[list[str], str]:
    """Tasks of the trials that `convert` made within so much memory, and what it said."""
    ended = streamer_within(most_bytes, "convert", run, "--explain")
    assert ended.returncode in (0, 1), ended.stderr.decode()[-2000:]
    events = [json.loads(line) for line in ended.stdout.splitlines()]
    tasks = [event["task_id"] for event in events if event["type"] == "trial_result"]
    return tasks, ended.stderr.decode()


def test_a_sparse_agent_log_of_6_gb_costs_its_trial_nothing_but_what_it_would_have_said(
    tmp_path: Path,
) -> None:
    run, trial = a_run_with_two_trials(tmp_path)
    sparse(trial / "agent-logs" / "trajectory.json")
    tasks, said = converted_within(GIB, run)
    assert tasks == ["t1", "t2"]
    assert "agent-logs/trajectory.json: too large: 6,442,450,944 bytes; 67,108,864 are allowed" in said


def test_a_sparse_result_of_6_gb_is_named_and_the_other_trials_are_converted(tmp_path: Path) -> None:
    run, trial = a_run_with_two_trials(tmp_path)
    sparse(trial / "results.json")
    tasks, said = converted_within(GIB, run)
    assert tasks == ["t2"]
    assert "results.json: too large: 6,442,450,944 bytes" in said


@pytest.mark.slow
def test_an_agent_log_at_the_limit_that_is_all_brackets_is_read_within_2_gib(tmp_path: Path) -> None:
    """No JSON takes more memory for its size."""
    run, trial = a_run_with_two_trials(tmp_path)
    file = trial / "agent-logs" / "trajectory.json"
    file.parent.mkdir()
    file.write_bytes(b"[" + b"[]," * ((MAX_FILE_BYTES - 4) // 3) + b"[]]")
    tasks, said = converted_within(2 * GIB + 512 * MIB, run)
    assert tasks == ["t1", "t2"]
    assert "too large" not in said


def test_a_file_one_byte_beyond_the_limit_is_not_read(tmp_path: Path) -> None:
    at, beyond = tmp_path / "at.json", tmp_path / "beyond.json"
    at.write_bytes(b" " * (MAX_FILE_BYTES - 2) + b"{}")
    beyond.write_bytes(b" " * (MAX_FILE_BYTES - 1) + b"{}")
    assert read_json(at) == {}
    with pytest.raises(FileError, match=f"{MAX_FILE_BYTES:,} are allowed"):
        read_json(beyond)


@pytest.mark.parametrize("name", ["agent-logs/trajectory.json", "sessions/agent.cast", "results.json"])
def test_a_directory_with_a_sparse_file_of_6_gb_is_followed(tmp_path: Path, name: str) -> None:
    _, trial = a_run_with_two_trials(tmp_path)
    sparse(trial / name)
    whole = {"t2"} if name == "results.json" else {"t1", "t2"}
    with followed(tmp_path) as following:
        wait_for(lambda: {event.get("task_id") for event in following.events} >= whole, "all is published")


def test_a_gzip_file_that_unpacks_to_one_line_of_6_gb_is_an_error_not_an_end(tmp_path: Path) -> None:
    bomb = gzip_bomb(tmp_path / "bomb.ndjson.gz", bytes(64 * MIB), 96)
    ended = streamer_within(GIB, "fold", bomb)
    assert ended.returncode == 1
    said = ended.stderr.decode()
    assert "line 1 has more than 67,108,864 bytes; events are lines of at most 1,048,576" in said
    assert "Traceback" not in said


def test_a_sparse_file_of_6_gb_is_an_error_not_an_end(tmp_path: Path) -> None:
    ended = streamer_within(GIB, "fold", sparse(tmp_path / "events.ndjson"))
    assert ended.returncode == 1
    assert "line 1 has more than 67,108,864 bytes" in ended.stderr.decode()


def test_a_line_too_long_for_an_event_is_a_rejection_and_the_rest_is_folded(tmp_path: Path) -> None:
    file = tmp_path / "events.ndjson.gz"
    long = json.dumps(a_trial(task_id="long", note="x" * 20 * MIB)).encode()
    right = json.dumps(a_trial()).encode()
    file.write_bytes(gzip.compress(long + b"\n" + right + b"\n"))
    ended = streamer_within(GIB, "fold", "--json", file)
    assert b"line 1: too_large" in ended.stderr
    assert b"2 events: 1 counted" in ended.stderr
