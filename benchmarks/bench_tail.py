"""How long a trial's result takes from the last write to its file until `streamer tail` publishes it.

    python -m benchmarks.bench_tail [--trials 100] [--there 5000 --where same|other] [--layout harbor]

A simulated harness, a process of its own, writes a run directory in place, trial by trial. A follower with
the settings of `streamer tail` reads it and keeps its journal. Seconds from the moment at which the harness
had written the file with that very result until the event is handed to the publisher. Median, 99th percentile
and longest are given twice: for trials with a file of their own, and for trials that stand only in a
run-level file.

`--there`: so many trials lie in the directory, and were published, before the first one that is timed: in the
same run, or in another beside it. `whole` is how often the whole directory was read while trials were timed.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common import table
from benchmarks.harness import OTHER, RESULT, SAME, Plan, Written, harness
from streamer.sources.base import ConvertOptions
from streamer.sources.tail import LedgerFile
from streamer.sources.tail.follow import Follower

PACE_SECONDS = 0.1
DEADLINE_SECONDS = 180.0


class Followed:
    """A directory that is being followed.

    Attributes:
        came: when each trial's result was handed over first, in Unix seconds, by the harness's id.
        wholes: how often the whole was read.
    """

    def __init__(self, directory: Path, journal: Path) -> None:
        self.came: dict[str, float] = {}
        self.wholes = 0
        self._directory = directory
        self._journal = journal
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow)

    def __enter__(self) -> Followed:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _follow(self) -> None:
        with LedgerFile(self._journal, self._directory) as journal:
            follower = Follower(
                self._directory, ConvertOptions(), journal.load(), self._publish, journal.append, print
            )
            follower.follow(self._stop, lambda: self._tick(follower))

    def _tick(self, follower: Follower) -> None:
        self.wholes = follower.status.readings

    def _publish(self, events: list[dict[str, Any]]) -> None:
        now = time.time()
        for event in events:
            if event["type"] == "trial_result":
                self.came.setdefault(event["trial_id"], now)


@dataclass(frozen=True, slots=True)
class Timed:
    """Seconds of each timed trial, and how often the whole was read meanwhile.

    Attributes:
        own: of trials with a file of their own.
        run_level: of those that stood nowhere but in the run-level file.
    """

    own: list[float]
    run_level: list[float]
    wholes: int


def timed(plan: Plan, journal: Path) -> Timed:
    """Follow a harness. TimeoutError if a trial never came."""
    with harness(plan) as pipe:
        there: Written = pipe.recv()
        with Followed(plan.directory, journal) as followed:
            _until(lambda: there.own.keys() <= followed.came.keys(), "what was there")
            before = followed.wholes
            pipe.send("go on")
            _until(pipe.poll, "the harness")
            written: Written = pipe.recv()
            wholes = followed.wholes - before
            expected = written.own | written.run_level
            _until(lambda: expected.keys() <= followed.came.keys(), "every trial")
            came = dict(followed.came)
    own, run_level = (
        [came[id_] - at for id_, at in times.items()] for times in (written.own, written.run_level)
    )
    return Timed(own, run_level, wholes)


def _until(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited in vain for {what}")
        time.sleep(0.01)


def rows(plan: Plan, result: Timed) -> Iterator[tuple[Any, ...]]:
    """Lines of the table."""
    there = (
        f"{plan.there:,} in {'the same run' if plan.where == SAME else 'another run'}" if plan.there else "-"
    )
    for kind, seconds in (("of its own", result.own), ("run-level", result.run_level)):
        if seconds:
            ordered = sorted(seconds)
            figures = (ordered[math.ceil(q * len(ordered)) - 1] for q in (0.5, 0.99, 1))
            yield (plan.layout, there, kind, len(ordered), *figures, result.wholes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--trials", type=int, default=100, help="trials that are timed; default 100")
    parser.add_argument("--there", type=int, default=0, help="trials that are there before; default 0")
    parser.add_argument("--where", choices=(SAME, OTHER), help="where those are; default both, one by one")
    parser.add_argument("--layout", choices=RESULT, help="only this one")
    parser.add_argument("--pace", type=float, default=PACE_SECONDS, help="seconds that a trial takes")
    args = parser.parse_args()
    wheres = [args.where] if args.where else [SAME, OTHER] if args.there else [SAME]
    table_rows: list[tuple[Any, ...]] = [
        ("layout", "there before", "file", "trials", "median s", "p99 s", "longest s", "whole read")
    ]
    for layout in [args.layout] if args.layout else RESULT:
        for where in wheres:
            with tempfile.TemporaryDirectory() as directory:
                plan = Plan(layout, Path(directory, "runs"), args.there, where, args.trials, args.pace)
                table_rows += rows(plan, timed(plan, Path(directory, "journal.ndjson")))
    print(table(table_rows))


if __name__ == "__main__":
    main()
