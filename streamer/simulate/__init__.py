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


def simulate_run(
    layout: str,
    out: Path,
    trials: int,
    *,
    seed: int,
    start: datetime,
    pace_seconds: float = 0.0,
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
        pace_seconds: how long a trial takes.
        sleep: waits.
        written: called with each file when it is complete.
    """
    LAYOUTS[layout](Disk(out, seed, pace_seconds, sleep, written), trials, seed, start)
