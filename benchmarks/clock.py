"""What a trickle costs by the worker's clock, the seconds between two publications of a run.

    python -m benchmarks.clock [--events N] [--turns N]

The clock is `streamer.worker.partition.PUBLISH_SECONDS`; one worker is started for each value.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from statistics import median, quantiles

from benchmarks.common import SCALES, events, table
from benchmarks.latency import send_slowly
from benchmarks.machine import WORKERS, cpu_seconds, on_cores
from benchmarks.site import Deployment, Site, a_site, ready_at
from streamer.settings import Settings
from streamer.worker import partition
from streamer.worker.process import run_worker
from tests.support.worker_process import WorkerProcess

CLOCKS = (0.1, 0.25, 0.5, 0.75, 1.0)
VARIABLE = "CLOCK"


def main() -> int:
    if clock := os.environ.get(VARIABLE):  # as a worker, started by `_measured`
        partition.PUBLISH_SECONDS = float(clock)
        return run_worker(Settings())
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--events", type=int, default=2_000, help="events of a turn; default 2,000")
    parser.add_argument("--turns", type=int, default=3, help="turns that count; default 3")
    args = parser.parse_args()
    with a_site("kafka") as site:
        rows = [_measured(site, clock, args.events, args.turns) for clock in CLOCKS]
    print(table([("clock s", "p50 ms", "p99 ms", "CPU us an event"), *rows]))
    return 0


def _measured(site: Site, clock: float, number: int, turns: int) -> tuple[float, float, float, float]:
    """One worker with this clock, over 32 runs, after a turn that does not count."""
    figures = []
    with Deployment(site) as deployment:
        worker = WorkerProcess(
            site.directory,
            deployment.given,
            module="benchmarks.clock",
            name=f"{deployment.namespace}-worker",
            environment={VARIABLE: str(clock)},
        )
        with on_cores(WORKERS):
            worker.start(ready=False)
        try:
            ready_at(worker)
            for turn in range(turns + 1):
                lines, before = list(events(number, seed=turn + 1)), cpu_seconds(worker.process.pid)
                sent = asyncio.run(send_slowly(deployment, lines, SCALES["full"].trickle_rate))
                used = (cpu_seconds(worker.process.pid) - before) / number * 1e6
                percentiles = quantiles(sent.milliseconds(), n=100)
                figures.append((percentiles[49], percentiles[98], used))
        finally:
            worker.kill()
    p50, p99, used = (median(column) for column in zip(*figures[1:], strict=True))
    return clock, round(p50), round(p99), round(used)


if __name__ == "__main__":
    sys.exit(main())
