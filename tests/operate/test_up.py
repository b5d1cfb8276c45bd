"""Notices beside `streamer up` and `streamer live`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from streamer.settings import Settings
from tests.operate.receiving import SECRET, Receiver, followed
from tests.operate.stack import descendants, runs
from tests.support.cli import staying, streamer
from tests.support.events import a_trial
from tests.support.layouts import simulate_run
from tests.support.worker_process import wait_for

pytestmark = pytest.mark.slow


@contextmanager
def a_process(tmp_path: Path, *arguments: str) -> Iterator[tuple[Path, dict[str, str]]]:
    """A command that stays, until it is interrupted; its output, and the environment to find it in."""
    ours = {"STREAMER_DISCOVERY": str(tmp_path / "running.json"), "STREAMER_PARTITIONS": "2"}
    log = tmp_path / "output.txt"
    with staying(log, *arguments, environment=ours) as process:
        yield log, ours
        below = descendants(process.pid)
    wait_for(lambda: not [pid for pid in below if runs(pid)], "everything has ended")
    assert SECRET not in log.read_text()


def test_up_tells_of_every_run_and_hands_the_url_on_where_nobody_sees_it(tmp_path: Path) -> None:
    def telling() -> list[str]:
        return [line for line in descendants(os.getpid()).values() if "notify --all" in line]

    with Receiver() as receiver:
        arguments = ("--notify", receiver.url, "--stalled-after", "0.05")
        with a_process(tmp_path, "up", "--ephemeral", "--no-web", *arguments) as (log, environment):
            wait_for(lambda: b"streamer is up" in log.read_bytes(), "the stack", 120)
            wait_for(telling, "the process that tells")
            assert not [line for line in telling() if SECRET in line]
            result = json.loads((tmp_path / "running.json").read_text())
            wait_for(lambda: followed(Settings(redis=result["redis"])), "it follows the runs")
            event = json.dumps(a_trial(run_id="nightly")).encode()
            assert streamer("publish", "-", stdin=event, environment=environment).returncode == 0
            wait_for(lambda: len(receiver.titles) == 2, "both notices", 120)
        started, stalled = receiver.titles
        assert started == "nightly started"
        assert stalled.startswith("nightly is running: no result for ")


def test_live_tells_of_the_run_that_it_follows(tmp_path: Path) -> None:
    with Receiver() as receiver:
        directory = tmp_path / "nightly"
        arguments = ("--ephemeral", "--notify", receiver.url, str(directory))
        with a_process(tmp_path, "live", *arguments) as (log, _):
            wait_for(lambda: b"following" in log.read_bytes(), "the start", 120)
            simulate_run("scylla", directory, 6, seed=1, start=datetime(2026, 1, 1, tzinfo=UTC))
            wait_for(lambda: "started" in " ".join(receiver.titles), "the notice", 120)
        assert "nightly" in receiver.titles[0]


def test_up_refuses_a_url_that_no_service_has_before_it_starts_anything(tmp_path: Path) -> None:
    done = streamer("up", "--ephemeral", "--notify", f"nosuch://{SECRET}", cwd=tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert SECRET.encode() not in done.stderr
