"""The clock of the worker's intervals: a suspended machine counts as time that passes."""

from __future__ import annotations

import time


def clock() -> float:
    """Seconds that pass also while the process or the machine sleeps."""
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boottime is None else time.clock_gettime(boottime)
