"""`streamer delete` asks, and forgets a run."""

from __future__ import annotations

import os
import pty
import subprocess

from tests.cli.calling import SECONDS, a_run, call, lines, published, settled
from tests.support.cli import COMMAND
from tests.support.online import Online


def test_a_run_is_deleted_when_that_is_confirmed(stack: Online) -> None:
    published(stack, a_run("doomed"))
    settled(stack, "doomed")
    unconfirmed = call(stack, "delete", "doomed")
    assert (unconfirmed.returncode, b"confirm with --yes" in unconfirmed.stderr) == (2, True)
    done = call(stack, "delete", "doomed", "--yes")
    assert (done.returncode, done.stderr) == (0, b"doomed: deleted, and gone from Redis\n")
    verified = call(stack, "verify", "doomed").stdout
    assert verified.splitlines()[1:] == [b"doomed: equal, deleted, and gone from Redis"]
    again = call(stack, "delete", "doomed", "--yes")
    assert (again.returncode, again.stderr.startswith(b"streamer: There is no run 'doomed'")) == (1, True)
    followed = ("subscribe", "run", "--run", "doomed", "--from-beginning", "--json", "--limit")
    assert any(m.get("deleted") for n in (1, 2) for m in lines(call(stack, *followed, n).stdout))


def test_on_a_terminal_delete_asks(stack: Online) -> None:
    published(stack, a_run("asked"))
    settled(stack, "asked")
    environment = os.environ | stack.environment
    for answer, code in ((b"n\n", 130), (b"y\n", 0)):
        master, slave = pty.openpty()
        process = subprocess.Popen(
            [*COMMAND, "delete", "asked"], stdin=slave, stderr=subprocess.PIPE, env=environment
        )
        os.write(master, answer)
        _, said = process.communicate(timeout=SECONDS)
        os.close(master)
        os.close(slave)
        assert (process.returncode, b"Delete run asked with 12 trials?" in said) == (code, True)
