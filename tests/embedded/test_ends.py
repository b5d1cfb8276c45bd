"""Every end of `up`, while publishers go on writing: nothing acknowledged is lost or moved."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.embedded.stack import Stack, descendants, running, runs
from tests.embedded.writers import Writers, missing
from tests.support.worker_process import wait_for

pytestmark = pytest.mark.stack

PARTITIONS = 4
TURNS = 2


def orderly(*numbers: signal.Signals) -> Callable[[Stack], None]:
    """Signals to `up` alone, one after the other."""

    def end(stack: Stack) -> None:
        below = descendants(stack.process.pid)
        for number in numbers:
            stack.process.send_signal(number)
        stack.process.wait(60)
        wait_for(lambda: not [pid for pid in below if runs(pid)], f"the end of all of {below}", 20)

    return end


def kill(part: str) -> Callable[[Stack], None]:
    """SIGKILL of one process below `up`, and SIGTERM of `up` if it goes on without."""

    def end(stack: Stack) -> None:
        os.kill(stack.pid_of(part), signal.SIGKILL)
        if part != "tansu":
            wait_for(lambda: stack.other(part), f"another {part}")
            stack.process.terminate()
        stack.process.wait(60)

    return end


def kill_the_tree(stack: Stack) -> None:
    """SIGKILL of all processes, as fast as we can, in any order."""
    pids = [stack.process.pid, *descendants(stack.process.pid)]
    random.shuffle(pids)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    stack.process.wait(60)


ENDS = {
    "Ctrl-C": orderly(signal.SIGINT),
    "Ctrl-C twice": orderly(signal.SIGINT, signal.SIGINT),
    "SIGTERM": orderly(signal.SIGTERM),
    "SIGHUP": orderly(signal.SIGHUP),
    "kill -9 of up": orderly(signal.SIGKILL),
    "kill -9 of the broker": kill("tansu"),
    "kill -9 of Redis": kill("valkey-server"),
    "kill -9 of the worker": kill("idle_worker"),
    "kill -9 of all": kill_the_tree,
}


@pytest.mark.parametrize("end", ENDS)
def test_what_was_acknowledged_survives_an_end_while_publishers_write(tmp_path: Path, end: str) -> None:
    acknowledged = {}
    for turn in range(TURNS):
        with running(tmp_path, partitions=PARTITIONS) as stack:
            assert missing(stack, acknowledged, PARTITIONS) == []
            writers = Writers(stack.found["bootstrap"], name=f"turn{turn}-").start()
            writers.go_on_for(random.randint(1, 1_000))
            ENDS[end](stack)
            writers.end()
            acknowledged |= writers.acknowledged
    with running(tmp_path, partitions=PARTITIONS) as stack:
        assert missing(stack, acknowledged, PARTITIONS) == []
        stack.end(signal.SIGTERM)


def test_publishers_that_outlive_several_ends_find_the_next_stack(tmp_path: Path) -> None:
    writers = None
    for number in (signal.SIGKILL, signal.SIGINT, signal.SIGKILL):
        with running(tmp_path, partitions=PARTITIONS) as stack:
            writers = writers or Writers(stack.found["bootstrap"]).start()
            writers.go_on_for(500)
            stack.end(number)
    assert writers is not None
    writers.end()
    with running(tmp_path, partitions=PARTITIONS) as stack:
        assert missing(stack, writers.acknowledged, PARTITIONS) == []
        stack.end(signal.SIGTERM)
