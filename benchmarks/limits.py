"""What a worker bears: a long backlog, one very large run, very many runs; its memory meanwhile.

`python -m benchmarks.limits` prints a table. Needs what Apache Kafka needs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from benchmarks.common import events, table
from benchmarks.machine import cores, resident_bytes
from benchmarks.site import Deployment, Site, a_site, ready_at
from streamer.client.readers import StateReader
from streamer.folding.prices import PriceTable
from streamer.operate.verify import Verification
from tests.support.worker_process import WorkerProcess

CASES = ("again", "slots", "run", "runs")
STEPS = 10
LOOK_SECONDS = 0.2
DEADLINE_SECONDS = 3_600.0
IDLE_SECONDS = 60.0
EACH = 2
"""Events of each of very many runs, before they are closed."""

SESSION_SECONDS = 30.0
"""Long: a worker that is starved for a session ends, and what is measured here is memory."""

MIB = 2**20


@dataclass
class Curve:
    """Resident memory of a worker while it drains a backlog.

    Attributes:
        empty: bytes, with its partitions and nothing folded.
        steps: bytes, at each tenth of the backlog.
        peak: greatest that was seen, bytes.
        seconds: until all of it was folded.
        outcome: what `verify` says of all runs, topics included.
    """

    empty: int
    steps: list[int] = field(default_factory=list)
    peak: int = 0
    seconds: float = 0.0
    outcome: str = ""

    def row(self, what: str, count: int, slots: int) -> list[object]:
        """One line of the table."""
        told = [f"{size / MIB:,.0f}" for size in (self.empty, *self.steps, self.peak)]
        per_slot = (self.steps[-1] - self.empty) / slots
        return [what, *told, round(per_slot), f"{count / self.seconds:,.0f}", self.outcome]


def revisions(slots: int, count: int) -> Iterator[bytes]:
    """`count` events that fill `slots` slots again and again with the same result, the revision growing."""
    lines = list(events(slots))
    for turn in range(count // slots):
        yield from (line[:-1] + b',"revision":%d}' % turn for line in lines)


def drained(site: Site, lines: Iterable[bytes], count: int) -> Curve:
    """Load a backlog, drain it with one worker, compare with a fold of the log."""
    with Deployment(site, more={"session_timeout_seconds": SESSION_SECONDS}) as deployment:
        deployment.load(lines)
        worker = deployment.worker(*cores())
        try:
            curve = watched(deployment, worker, count)
            curve.outcome = verified(deployment)
        finally:
            worker.kill()
    return curve


def watched(deployment: Deployment, worker: WorkerProcess, count: int) -> Curve:
    """Look at the worker until it says that it has folded everything."""
    began = ready_at(worker)
    curve = Curve(resident_bytes(worker.process.pid))
    deadline = time.monotonic() + DEADLINE_SECONDS
    with StateReader(deployment.settings) as reader:
        while len(curve.steps) < STEPS:
            assert worker.alive, f"the worker ended:\n{worker.output[-4000:]}"
            assert time.monotonic() < deadline, f"not drained in {DEADLINE_SECONDS:g} s"
            size = resident_bytes(worker.process.pid)
            curve.peak = max(curve.peak, size)
            done = count - _lag(reader)
            while len(curve.steps) < STEPS and done >= (len(curve.steps) + 1) * count / STEPS:
                curve.steps.append(size)
            time.sleep(LOOK_SECONDS)
    curve.seconds = time.time() - began
    return curve


def verified(deployment: Deployment) -> str:
    """`equal`, if every run is, in the topics and in Redis."""
    verification = Verification(
        deployment.settings, prices=PriceTable.default(), wait_seconds=600, topics=True
    )
    return " ".join(sorted({verdict.outcome for verdict in verification.verify(None)}))


def closed(site: Site, runs: int, idle_seconds: float = IDLE_SECONDS) -> list[list[object]]:
    """Runs that go idle leave memory; all of them come back at once."""
    rows: list[list[object]] = []
    with Deployment(
        site, more={"run_idle_seconds": idle_seconds, "session_timeout_seconds": SESSION_SECONDS}
    ) as deployment:
        lines = events((EACH + 1) * runs, runs=runs, tiers=1, agents=1)
        expected = deployment.load(islice(lines, EACH * runs))
        worker = deployment.worker(*cores())
        try:
            began = ready_at(worker)
            empty = resident_bytes(worker.process.pid)
            seconds = deployment.wait_until_current(expected, worker) - began
            rows.append([f"{EACH} events each", _mib(worker, empty), seconds, verified(deployment)])
            began = time.time()
            _wait_for_closed(deployment, worker, runs)
            rows.append(["closed", _mib(worker, empty), time.time() - began, verified(deployment)])
            began = time.time()
            seconds = deployment.wait_until_current(deployment.load(lines), worker) - began
            rows.append(["one more event each", _mib(worker, empty), seconds, verified(deployment)])
        finally:
            worker.kill()
    return rows


def _wait_for_closed(deployment: Deployment, worker: WorkerProcess, runs: int) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    with StateReader(deployment.settings) as reader:
        while sum(told["closed_runs"] for told in _statuses(reader)) < runs:
            assert worker.alive, f"the worker ended:\n{worker.output[-4000:]}"
            assert time.monotonic() < deadline, f"not closed in {DEADLINE_SECONDS:g} s"
            time.sleep(LOOK_SECONDS)


def _mib(worker: WorkerProcess, empty: int) -> str:
    return f"{(resident_bytes(worker.process.pid) - empty) / MIB:,.0f}"


def _lag(reader: StateReader) -> int:
    """Events that the worker says it has not folded; all of them before it says anything."""
    told = [sum(status["lag"].values()) for status in _statuses(reader) if status["partitions"]]
    return sum(told) if told else 2**62


def _statuses(reader: StateReader) -> list[dict[str, Any]]:
    return [dict(worker.status) for worker in reader.workers() if not worker.stale()]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000, help="of each backlog; default 1,000,000")
    parser.add_argument("--runs", type=int, default=10_000, help="runs at once; default 10,000")
    parser.add_argument(
        "--only", choices=CASES, nargs="+", default=CASES, help="cases to measure; default all"
    )
    args = parser.parse_args()
    count, few = args.events, min(10_000, args.events // 10)
    backlogs = {
        "again": (f"{few:,} slots, each {count // few} times", lambda: revisions(few, count), few),
        "slots": (f"{count:,} slots in 32 runs", lambda: events(count), count),
        "run": (f"{count:,} slots in one run", lambda: events(count, runs=1), count),
    }
    tenths = [f"{step}0%" for step in range(1, STEPS + 1)]
    rows: list[list[object]] = [["MiB at", "start", *tenths, "peak", "bytes/slot", "events/s", "verify"]]
    with a_site("kafka") as site:
        for what, lines, slots in (case for name, case in backlogs.items() if name in args.only):
            rows.append(drained(site, lines(), count).row(what, count, slots))
            print(table(rows[:1] + rows[-1:]), flush=True)
        print(f"\n{table(rows)}", flush=True)
        if "runs" in args.only:
            head: list[list[object]] = [[f"{args.runs:,} runs at once", "MiB more", "seconds", "verify"]]
            print(f"\n{table(head + closed(site, args.runs))}")


if __name__ == "__main__":
    main()
