"""A simulated harness: writes a run directory as a real one does, trial by trial, in place.

The same seed, trials and start give the same files, whatever the pace.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from streamer.simulate.disk import Disk
from streamer.simulate.fc_eval import write_fc_eval
from streamer.simulate.harbor import write_harbor
from streamer.simulate.scylla import write_scylla
from streamer.simulate.terminal_bench import write_terminal_bench

LAYOUTS = {
    "fc-eval": write_fc_eval,
    "terminal-bench": write_terminal_bench,
    "scylla": write_scylla,
    "harbor": write_harbor,
}
"""Harness -> what writes its directories."""

SHUFFLES = "harbor"
"""The one harness that starts tasks in the order of the list that it gets."""


def simulate_run(
    layout: str,
    out: Path,
    trials: int,
    *,
    seed: int,
    start: datetime,
    pace_seconds: float = 0.0,
    concurrency: int = 1,
    shuffle: bool = False,
    sleep: Callable[[float], None] = time.sleep,
    written: Callable[[Path], None] = lambda _: None,
) -> None:
    """Write a run directory.

    Args:
        layout: one of `LAYOUTS`.
        out: the run directory; made if need be. Its name is the run's id.
        trials: how many, >= 1; those that are run again count once.
        seed: of everything random.
        start: when the run began, with a zone; the times in the files follow from it.
        pace_seconds: how long a trial takes on average. One that does not pass takes twice as long as one
            that does.
        concurrency: so many trials run at once.
        shuffle: start the tasks in a random order; only harbor can.
        sleep: waits.
        written: called with each file when it is complete.

    Raises:
        ValueError: the harness cannot shuffle.
    """
    disk = Disk(out, seed, pace_seconds, sleep, written)
    if shuffle and layout != SHUFFLES:
        raise ValueError(f"shuffle is for {SHUFFLES}; {layout} starts tasks in an order of its own")
    if shuffle:
        write_harbor(disk, trials, seed, start, concurrency, shuffle=True)
    else:
        LAYOUTS[layout](disk, trials, seed, start, concurrency)
