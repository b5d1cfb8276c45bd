"""The page inside `streamer up`."""

from __future__ import annotations

import os
import signal
import subprocess
import urllib.request
from pathlib import Path

import pytest

from streamer.operate.local.processes import free_port
from tests.embedded.stack import descendants, runs
from tests.support.cli import COMMAND
from tests.support.worker_process import wait_for

STOP_SECONDS = 40


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/runs", timeout=2) as answer:
            return bool(answer.read() == b"[]")
    except OSError:
        return False


def page_of(pid: int) -> int:
    """Process id of the page below a process, 0 if there is none."""
    found = [child for child, command in descendants(pid).items() if "-m streamer.web" in command]
    return found[0] if found else 0


@pytest.mark.slow
def test_up_serves_the_page_starts_it_again_and_ends_it(tmp_path: Path) -> None:
    port = free_port()
    clean = {name: value for name, value in os.environ.items() if not name.startswith("STREAMER_")}
    environment = clean | {"STREAMER_DISCOVERY": str(tmp_path / "running.json")}
    log = tmp_path / "up.log"
    command = [*COMMAND, "up", "--ephemeral", "--web-port", str(port)]
    with log.open("wb") as out:
        up = subprocess.Popen(command, stdout=out, stderr=out, env=environment)
    try:
        wait_for(lambda: answers(port), "the page answers")
        assert f"Web page   http://127.0.0.1:{port}/" in log.read_text()
        first = page_of(up.pid)
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: page_of(up.pid) not in (0, first), "another page is started")
        wait_for(lambda: answers(port), "the other page answers")
        below = descendants(up.pid)
        up.send_signal(signal.SIGINT)
        assert up.wait(STOP_SECONDS) == 0
        wait_for(lambda: not [pid for pid in below if runs(pid)], "everything has ended")
    finally:
        if up.poll() is None:
            up.kill()
            up.wait()
