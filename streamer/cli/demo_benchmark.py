"""The demo's benchmark: a simulated job of harbor, six agents on the same shuffled tasks, in a minute."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from streamer.simulate.disk import MEAN_SECONDS, Disk
from streamer.simulate.harbor import HarborAgent, write_harbor
from streamer.sources.base import ConvertOptions

RUN = "demo"

AGENTS = (
    HarborAgent("aspen", "simulated", "large", 0.80),
    HarborAgent("birch", "simulated", "large", 0.52),
    HarborAgent("cedar", "simulated", "large", 0.46),
    HarborAgent("aspen", "simulated", "small", 0.40),
    HarborAgent("birch", "simulated", "small", 0.30),
    HarborAgent("cedar", "simulated", "small", 0.15),
)
"""Invented names, so that these numbers are not taken for results of a real agent."""

TASKS = 40
"""Each agent tries each of them once."""

AT_ONCE = 12
"""Trials that run at once, of all agents together."""

SEED = 433
"""Chosen for what it shows: an overtaking, a retry, and the two best told apart before the end."""

SPEED = 24.0
"""A trial of the demo takes some seconds; its times are true, so ages and forecasts on the boards are too."""

PIECE_SECONDS = 0.01

DECLARED = {
    "order_kind": "shuffled",
    "judged": True,
    "display_name": "Demo: six simulated agents",
}
"""What the run's files do not say: the tasks were shuffled, and a judge will score the trials."""

OPTIONS = ConvertOptions(declared=DECLARED)


def write_benchmark(
    directory: Path,
    start: datetime,
    sleep: Callable[[float], None],
    written: Callable[[Path], None] = lambda _: None,
    *,
    fast: bool = False,
    seed: int = SEED,
) -> None:
    """Write the job's directory from its first file to its last.

    Args:
        directory: whose name is the run's id.
        start: when the job begins, with a zone.
        sleep: waits; as long in all as the trials take.
        written: called with each file when it is complete.
        fast: do not wait.
        seed: of everything random.
    """
    disk = Disk(directory, seed, 0.0 if fast else MEAN_SECONDS, sleep, written, PIECE_SECONDS)
    write_harbor(disk, TASKS, seed, start, AT_ONCE, shuffle=True, agents=AGENTS, attempts=1, speed=SPEED)
