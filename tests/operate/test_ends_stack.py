"""Every end of `up`, while publishers go on writing: nothing acknowledged is lost or moved."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from tests.operate.ends import after_another, kill_the_broker, kill_the_tree, orderly
from tests.operate.stack import running
from tests.operate.writers import Writers, missing

pytestmark = pytest.mark.stack

PARTITIONS = 4
TURNS = 2


ENDS = {
    "Ctrl-C": orderly(signal.SIGINT),
    "Ctrl-C twice": orderly(signal.SIGINT, signal.SIGINT),
    "SIGTERM": orderly(signal.SIGTERM),
    "SIGHUP": orderly(signal.SIGHUP),
    "kill -9 of up": orderly(signal.SIGKILL),
    "kill -9 of the broker": kill_the_broker,
    "kill -9 of Redis": after_another("valkey-server"),
    "kill -9 of the worker": after_another("idle_worker"),
    "kill -9 of all": kill_the_tree,
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.in_turn(3)
def test_what_was_acknowledged_survives_an_end_while_publishers_write(tmp_path: Path, end: str) -> None:
    acknowledged = {}
    for turn in range(TURNS):
        with running(tmp_path, partitions=PARTITIONS) as stack:
            assert missing(stack, acknowledged, PARTITIONS) == []
            writers = Writers(stack.addresses["bootstrap"], name=f"turn{turn}-").start()
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
            writers = writers or Writers(stack.addresses["bootstrap"]).start()
            writers.go_on_for(500)
            stack.end(number)
    assert writers is not None
    writers.end()
    with running(tmp_path, partitions=PARTITIONS) as stack:
        assert missing(stack, writers.acknowledged, PARTITIONS) == []
        stack.end(signal.SIGTERM)
