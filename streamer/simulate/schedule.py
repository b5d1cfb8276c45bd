"""Simulated trials that run at once: each goes on when its time has come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from heapq import heappop, heappush

from streamer.simulate.disk import Disk
from streamer.simulate.outcomes import Fate

Steps = Iterator[float]
"""A trial as it goes on: it writes, then gives the seconds until it writes again."""


def run_queue(disk: Disk, fate: Fate, queue: Iterable[Steps], at_once: int) -> None:
    """Run trials to their ends, started in the order of the queue.

    The clock of `fate` goes on with them. That clock alone decides which trial goes on next, never the pace.

    Args:
        disk: waits between two steps.
        fate: has the clock.
        queue: a trial begins when its first step is asked for.
        at_once: so many trials run at once, >= 1.
    """
    waiting = iter(queue)
    running: list[tuple[datetime, int, Steps]] = []
    number = 0
    while True:
        while len(running) < at_once and (steps := next(waiting, None)) is not None:
            number += 1
            _go_on(running, fate.now, number, steps)
        if not running:
            return
        due, place, steps = heappop(running)
        disk.pass_time((due - fate.now).total_seconds())
        fate.now = due
        _go_on(running, due, place, steps)


def _go_on(running: list[tuple[datetime, int, Steps]], now: datetime, place: int, steps: Steps) -> None:
    """One step of a trial; it is put back unless that was its last."""
    seconds = next(steps, None)
    if seconds is not None:
        heappush(running, (now + timedelta(seconds=seconds), place, steps))
