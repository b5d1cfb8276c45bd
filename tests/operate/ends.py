"""The ends of `up`, each as a function of the running stack; every one returns when `up` is gone."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable

from tests.operate.stack import Stack, descendants, runs
from tests.support.worker_process import wait_for

End = Callable[[Stack], None]


def orderly(*numbers: signal.Signals) -> End:
    """Signals to `up` alone, one after the other; everything below it ends too."""

    def end(stack: Stack) -> None:
        with stack.ending():
            for number in numbers:
                stack.process.send_signal(number)

    return end


def kill_one(part: str) -> End:
    def end(stack: Stack) -> None:
        os.kill(stack.pid_of(part), signal.SIGKILL)

    return end


def kill_the_broker(stack: Stack) -> None:
    """SIGKILL of the broker, without which `up` ends."""
    with stack.ending():
        kill_one("tansu")(stack)


def kill_the_tree(stack: Stack) -> None:
    """SIGKILL of all processes, as fast as we can, in any order."""
    pids = [stack.process.pid, *descendants(stack.process.pid)]
    random.shuffle(pids)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    stack.process.wait(60)


def kill_and_await_another(stack: Stack, part: str) -> None:
    pid = stack.pid_of(part)
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not runs(pid) and stack.other(part), f"another {part}")


def after_another(part: str) -> End:
    """SIGKILL of one process that `up` starts again, then SIGTERM of `up`."""

    def end(stack: Stack) -> None:
        kill_and_await_another(stack, part)
        orderly(signal.SIGTERM)(stack)

    return end
