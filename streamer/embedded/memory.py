"""How much memory the embedded broker holds: it keeps every byte ever written to it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
WARN_FRACTION = 0.5
WARN_GROWTH = 1.25
"""After a warning, the next one comes when the broker has grown by this factor."""


class MemoryWatch:
    """Says when a process has outgrown a limit, and again whenever it has grown by a quarter since.

    >>> watch = MemoryWatch(limit_bytes=100)
    >>> [watch.outgrown(size) for size in (100, 101, 120, 130)]
    [False, True, False, True]
    """

    def __init__(self, limit_bytes: float) -> None:
        self._next = limit_bytes

    def outgrown(self, size_bytes: int) -> bool:
        """True if the size calls for a warning."""
        if size_bytes <= self._next:
            return False
        self._next = size_bytes * WARN_GROWTH
        return True


def default_limit_bytes() -> int:
    """Half of the memory that this machine, or this container, has."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = CGROUP_LIMIT.read_text().strip() if CGROUP_LIMIT.is_file() else ""
    return int(min(memory, int(limit) if limit.isdigit() else memory) * WARN_FRACTION)


def resident_bytes(pid: int) -> int:
    """Memory that a process holds now; 0 if it is gone."""
    try:
        if sys.platform == "linux":
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            return pages * os.sysconf("SC_PAGE_SIZE")
        shown = subprocess.run(  # noqa: S603
            ["/bin/ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=False
        )
        return int(shown.stdout) * 1024
    except (OSError, ValueError):
        return 0
