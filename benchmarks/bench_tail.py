"""How long a trial's result takes from the last write to its file until `streamer tail` publishes it.

    python -m benchmarks.bench_tail [--trials 100]

A simulated harness writes a run directory in place, trial by trial; a follower with the settings of
`streamer tail` reads it. Seconds from the file's time of change until the event is handed to the publisher:
median, 99th percentile, longest.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.common import table
from streamer.client.tail.follow import Follower
from streamer.client.tail.ledger import Ledger
from streamer.sources.base import ConvertOptions
from streamer.sources.simulate import simulate_run

RESULT = {"terminal-bench": "results.json", "harbor": "result.json"}
"""Layouts whose trials name their directory, and the file that holds the result."""

START = datetime(2026, 1, 1, tzinfo=UTC)
PACE_SECONDS = 0.1
DEADLINE_SECONDS = 120.0


def delays(layout: str, directory: Path, trials: int) -> list[float]:
    """Seconds of each timed trial; raises TimeoutError if one never came."""
    came: dict[str, float] = {}

    def publish(events: list[dict[str, Any]]) -> None:
        now = time.time()
        for event in events:
            if event["type"] == "trial_result":
                came.setdefault(event["trial_name"], now)

    stop = threading.Event()
    follower = Follower(directory, ConvertOptions(), Ledger(), publish, lambda _: None, lambda _: None)
    thread = threading.Thread(target=follower.follow, args=(stop, lambda: None))
    thread.start()
    try:
        simulate_run(layout, directory / "run", trials, seed=1, start=START, pace_seconds=PACE_SECONDS)
        _until(lambda: len(came) >= trials)
    finally:
        stop.set()
        thread.join()
    written = {path.parent.name: path.stat().st_mtime for path in directory.rglob(RESULT[layout])}
    return [at - written[name] for name, at in came.items()]


def _until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError("not all trials were published")
        time.sleep(0.01)


def row(layout: str, found: Sequence[float]) -> tuple[Any, ...]:
    """One line of the table."""
    ordered = sorted(found)
    return (layout, len(ordered), *(ordered[int(q * (len(ordered) - 1))] for q in (0.5, 0.99, 1)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--trials", type=int, default=100, help="trials that are timed; default 100")
    args = parser.parse_args()
    rows: list[tuple[Any, ...]] = [("layout", "trials", "median s", "p99 s", "longest s")]
    for layout in RESULT:
        with tempfile.TemporaryDirectory() as directory:
            rows.append(row(layout, delays(layout, Path(directory), args.trials)))
    print(table(rows))


if __name__ == "__main__":
    main()
