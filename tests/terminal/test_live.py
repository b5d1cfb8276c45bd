"""`streamer live`: one command, from a directory that does not exist yet to a board."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.operate.stack import descendants, runs
from tests.sources.test_harbor import JOB, Answers, a_trial_result, address, listed
from tests.support.cli import COMMAND
from tests.support.layouts import simulate_run
from tests.support.worker_process import wait_for

pytestmark = pytest.mark.stack

TRIALS = 12

__all__ = ["address"]


@contextmanager
def following(tmp_path: Path, what: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """`streamer live` of a directory or an address, once it follows that; and the file of its output."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("STREAMER_")}
    environment = clean | {
        "STREAMER_DISCOVERY": str(tmp_path / "running.json"),
        "STREAMER_DATA_DIR": str(tmp_path / "data"),
        "STREAMER_PARTITIONS": "2",
    }
    out = tmp_path / "output.txt"
    with out.open("wb") as output:
        command = [*COMMAND, "live", "--ephemeral", what]
        live = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    try:
        wait_for(lambda: b"following" in out.read_bytes() or live.poll() is not None, "the start")
        yield live, out
        live.send_signal(signal.SIGINT)
        assert live.wait(60) == 0, out.read_text()
    finally:
        live.kill()
        live.wait()


def test_one_command_shows_a_running_benchmark_and_ends_with_all_that_it_started(tmp_path: Path) -> None:
    with following(tmp_path, str(tmp_path / "nightly")) as (live, out):
        simulate_run("scylla", tmp_path / "nightly", TRIALS, seed=1, start=datetime(2026, 1, 1, tzinfo=UTC))
        wait_for(lambda: f"nightly: {TRIALS} of" in out.read_text() or live.poll() is not None, "the board")
        below = descendants(live.pid)
        assert below
    assert f"{TRIALS} trials" in out.read_text()
    wait_for(lambda: not [pid for pid in below if runs(pid)], "the end of the stack", 20)


def test_it_follows_the_server_at_an_address(tmp_path: Path, address: str) -> None:
    """Also before the job has a lock."""
    rollout = "00000000-1111-2222-3333-444444444444"
    job = {"id": JOB, "name": "nightly", "state": "running", "finished_at": None}
    result = a_trial_result(reward_valid=True) | {"config": {"job_id": JOB, "agent": {"name": "codex"}}}
    ended = {"id": rollout, "job_id": JOB, "name": "t__abc1234", "state": "finished", "result": result}
    Answers.answers |= {
        "/jobs": listed(job),
        f"/jobs/{JOB}": (200, {}, json.dumps({"job": job}).encode()),
        "/rollouts": listed(ended),
        f"/rollouts/{rollout}": (200, {}, json.dumps({"rollout": ended}).encode()),
    }
    with following(tmp_path, address) as (live, out):
        wait_for(lambda: f"{JOB}: 1 " in out.read_text() or live.poll() is not None, "the board")
    assert "1 trial" in out.read_text()
