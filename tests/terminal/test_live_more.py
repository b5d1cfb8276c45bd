"""`streamer live`: one command, from a directory that does not exist yet to a board."""

from __future__ import annotations

import os
import signal
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.operate.stack import descendants, runs
from tests.support.cli import COMMAND
from tests.support.layouts import simulate_run
from tests.support.worker_process import wait_for

pytestmark = pytest.mark.stack

TRIALS = 12


def test_one_command_shows_a_running_benchmark_and_ends_with_all_that_it_started(tmp_path: Path) -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("STREAMER_")}
    environment = clean | {
        "STREAMER_DISCOVERY": str(tmp_path / "running.json"),
        "STREAMER_DATA_DIR": str(tmp_path / "data"),
        "STREAMER_PARTITIONS": "2",
    }
    out = tmp_path / "output.txt"
    with out.open("wb") as output:
        live = subprocess.Popen(
            [*COMMAND, "live", "--ephemeral", str(tmp_path / "nightly")],
            env=environment,
            stdout=output,
            stderr=output,
        )
    try:
        wait_for(lambda: b"following" in out.read_bytes() or live.poll() is not None, "the start")
        simulate_run("scylla", tmp_path / "nightly", TRIALS, seed=1, start=datetime(2026, 1, 1, tzinfo=UTC))
        wait_for(lambda: f"nightly: {TRIALS} of" in out.read_text() or live.poll() is not None, "the board")
        below = descendants(live.pid)
        assert below
        live.send_signal(signal.SIGINT)
        assert live.wait(60) == 0, out.read_text()
    finally:
        live.kill()
        live.wait()
    assert f"{TRIALS} trials" in out.read_text()
    wait_for(lambda: not [pid for pid in below if runs(pid)], "the end of the stack", 20)
