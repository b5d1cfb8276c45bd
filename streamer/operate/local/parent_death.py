"""Start a program that must not outlive the process that asked for it, not even after SIGKILL.

Run by path as `python -I -S parent_death.py PARENT_PID PROGRAM ARGUMENT...`; imports nothing of ours.

- Linux: asks the kernel for SIGKILL at the parent's death (PR_SET_PDEATHSIG), then becomes the program with
  the same pid. For the kernel the parent is the *thread* that started this process, so that thread must live
  as long as the program.
- Elsewhere: stays the program's parent, hands on SIGTERM and SIGINT, and kills the program when its own
  parent is gone, which it checks every 200 ms.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from types import FrameType

PR_SET_PDEATHSIG = 1
POLL_SECONDS = 0.2


def become(parent: int, argv: list[str]) -> None:
    """Replace this process by the program; it gets SIGKILL when the parent ends (Linux)."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:  # it ended before the kernel knew
        sys.exit(1)
    os.execvp(argv[0], argv)  # noqa: S606  (the caller chose the program)


def watch(parent: int, argv: list[str]) -> int:
    """Run the program as a child, and kill it when the parent is gone (any POSIX system)."""
    program = subprocess.Popen(argv)  # noqa: S603  (the caller chose the program)

    def hand_on(number: int, _frame: FrameType | None) -> None:
        program.send_signal(number)

    signal.signal(signal.SIGTERM, hand_on)
    signal.signal(signal.SIGINT, hand_on)
    while True:
        try:
            return program.wait(POLL_SECONDS)
        except subprocess.TimeoutExpired:
            if os.getppid() != parent:
                program.kill()


if __name__ == "__main__":
    if sys.platform == "linux":
        become(int(sys.argv[1]), sys.argv[2:])
    else:
        sys.exit(watch(int(sys.argv[1]), sys.argv[2:]))
