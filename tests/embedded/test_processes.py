"""One server process: awaited until it is ready, stopped, and never left behind."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamer.operate.local.processes import Child, ServerFailed
from tests.support.worker_process import wait_for

pytestmark = pytest.mark.stack

STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
time.sleep(600)
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "server.log"


def a_child(code: str, log: Path) -> Child:
    return Child("The server", [sys.executable, "-c", code], log=log)


@pytest.fixture
def stubborn(log: Path) -> Iterator[Child]:
    """A program that ends on SIGKILL alone, once it is up."""
    child = a_child(STUBBORN, log)
    child.start()
    child.wait_ready(lambda: b"up" in log.read_bytes())
    yield child
    child.kill()


def test_a_server_that_ends_before_it_is_ready_is_an_error_with_its_last_words(log: Path) -> None:
    child = a_child("raise SystemExit('no disk')", log)
    child.start()
    with pytest.raises(ServerFailed, match=r"(?s)The server ended \(1\) before it was ready.*no disk"):
        child.wait_ready(lambda: False)
    assert (child.alive, child.exit_code) == (False, 1)


def test_a_server_that_does_not_answer_in_time_is_killed(stubborn: Child) -> None:
    with pytest.raises(ServerFailed, match=r"did not answer within 0\.1 s"):
        stubborn.wait_ready(lambda: False, 0.1)
    assert not stubborn.alive


def test_who_ignores_sigterm_is_killed_after_its_time(stubborn: Child) -> None:
    assert not stubborn.wait(0.05)
    stubborn.stop(0.1)
    assert not stubborn.alive


def test_a_paused_program_is_stopped_too(log: Path) -> None:
    child = a_child("print('up', flush=True); import time; time.sleep(600)", log)
    child.start()
    child.wait_ready(lambda: b"up" in log.read_bytes())
    child.signal(signal.SIGSTOP)
    child.stop()
    wait_for(lambda: not child.alive, "it has ended")


def test_a_program_runs_once_and_one_that_never_ran_has_nothing_to_stop(stubborn: Child, log: Path) -> None:
    with pytest.raises(RuntimeError, match="already runs as process"):
        stubborn.start()
    idle = a_child("", log)
    idle.stop()
    assert (idle.alive, idle.exit_code, idle.wait(0)) == (False, None, True)
    with pytest.raises(RuntimeError, match=r"call start\(\) first"):
        _ = idle.pid
