"""The machine: on which core what runs, what a process has used of it."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cores() -> list[int]:
    """The cores that this process may use, at least one."""
    return sorted(os.sched_getaffinity(0))


_CPUCLOCK_SCHED = 2
"""Linux: the clock of process p that ticks while it runs is (~p << 3) | 2 (see clock_getcpuclockid(3))."""

SERVERS, WORKERS = cores()[0], cores()[-1]
"""Cores: brokers, Redis and the benchmark itself on the first, the measured process on the last."""


@contextmanager
def on_cores(*expected: int) -> Iterator[None]:
    """Within the block this thread runs on these cores, and what it starts stays on them."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, expected)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def move(pid: int, *expected: int) -> None:
    """Let all threads of a process run on these cores, and on no others."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), expected)


def cpu_seconds(pid: int) -> float:
    """Processor time of a process, all threads, user and system, from the process's own clock."""
    return time.clock_gettime((~pid << 3) | _CPUCLOCK_SCHED)


def resident_bytes(pid: int | None = None) -> int:
    """Resident memory of a process, of this one if None."""
    pages = int(Path(f"/proc/{pid or 'self'}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def description() -> dict[str, object]:
    """What the figures were measured on."""
    return {
        "python": platform.python_version(),
        "system": platform.system(),
        "processor": _processor(),
        "cores": len(cores()),
        "load_before": round(os.getloadavg()[0], 2),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
