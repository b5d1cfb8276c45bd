"""The ends of `up`, each as a function of the running stack; every one returns when `up` is gone."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable

from tests.operate.stack import Stack, descendants
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
    """SIGKILL of the one process below `up` whose command line holds this."""

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


def after_another(part: str) -> End:
    """SIGKILL of one process that `up` starts again, then SIGTERM of `up`."""

    def end(stack: Stack) -> None:
        kill_one(part)(stack)
        wait_for(lambda: stack.other(part), f"another {part}")
        orderly(signal.SIGTERM)(stack)

    return end
