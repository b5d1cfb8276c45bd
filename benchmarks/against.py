"""This tree against another one, turn about in one run: drain, `fold`, latency, memory of a slot.

    python -m benchmarks.against TREE [--also DIR ...] [--events N] [--turns N]

TREE is a checkout of another version. `--also` names folders with packages that it needs and this environment
lacks. What disturbs the machine disturbs both trees alike, so the ratios hold. Every measure is taken from
outside: processor time and resident memory of the process, and what Redis answers. So the trees need no more
in common than the settings of a worker and the layout of `streamer:{RUN}:versions`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson
import redis
from aiokafka import AIOKafkaProducer

from benchmarks.common import events, ratios, spread, table
from benchmarks.machine import WORKERS, cpu_seconds, on_cores, resident_bytes
from benchmarks.site import Deployment, Site, Wanted, a_site, ready_at
from streamer.storage.kafka import partition_of
from tests.house.repository import ROOT
from tests.support.worker_process import WorkerProcess

TRICKLE = 200
"""Events whose latency is taken in a turn, one after the other."""

SMALL_SHARE = 10
"""Memory of a slot: what a worker holds after all events, less what it holds after a tenth of them."""

ARRIVE_SECONDS = 60.0

COMMAND = "from streamer.terminal import main; main()"


@dataclass
class Tree:
    """A version of the code, and its measurements, turn by turn."""

    name: str
    path: str
    measured: dict[str, list[float]] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """Variables by which Python imports this tree, whatever the working directory."""
        return {"PYTHONPATH": self.path, "PYTHONSAFEPATH": "1"}

    def note(self, what: str, value: float) -> None:
        """Keep a measured value."""
        self.measured.setdefault(what, []).append(value)


Measure = Callable[[Tree], None]


def worker_of(tree: Tree, deployment: Deployment) -> WorkerProcess:
    """A worker of that version, started; the caller ends it."""
    name = f"{tree.name}-{time.monotonic_ns():x}"
    worker = WorkerProcess(
        deployment.site.directory, deployment.given, name=name, environment=tree.environment
    )
    with on_cores(WORKERS):
        return worker.start(ready=False)


def drained(tree: Tree, deployment: Deployment, expected: Wanted) -> tuple[float, int]:
    """Drain what is loaded with one worker: its processor seconds once ready, and its memory at the end."""
    with worker_of(tree, deployment) as worker:
        ready_at(worker)
        before = cpu_seconds(worker.process.pid)
        deployment.wait_until_current(expected, worker)
        used = cpu_seconds(worker.process.pid) - before
        stored = resident_bytes(worker.process.pid)
        worker.stop()
    deployment.forget()
    return used, stored


def drain_of(site: Site, number: int) -> Measure:
    """Microseconds of the worker for an event, 32 runs of 7 tiers and 5 agents."""
    deployment = Deployment(site)
    expected = deployment.load(events(number))

    def measure(tree: Tree) -> None:
        used, _ = drained(tree, deployment, expected)
        tree.note("drain, us an event", used / number * 1e6)

    return measure


def memory_of(site: Site, number: int) -> Measure:
    """Bytes of a slot in a worker."""
    few, many = (Deployment(site, partitions=1) for _ in range(2))
    loads = [
        (deployment, count, deployment.load(events(count, runs=1)))
        for deployment, count in ((few, number // SMALL_SHARE), (many, number))
    ]

    def measure(tree: Tree) -> None:
        stored = [drained(tree, deployment, expected)[1] for deployment, _, expected in loads]
        slots = loads[1][1] - loads[0][1]
        tree.note("memory, bytes a slot", (stored[1] - stored[0]) / slots)

    return measure


def latency_of(site: Site) -> Measure:
    """Milliseconds from publishing an event to its run's summary in Redis, one event after the other."""

    def measure(tree: Tree) -> None:
        deployment = Deployment(site)
        with worker_of(tree, deployment) as worker:
            ready_at(worker)
            taken = sorted(asyncio.run(one_by_one(deployment)))
            worker.stop()
        tree.note("latency p50, ms", taken[len(taken) // 2] * 1e3)
        tree.note("latency p90, ms", taken[len(taken) * 9 // 10] * 1e3)

    return measure


async def one_by_one(deployment: Deployment) -> list[float]:
    """Publish events, each after the one before is readable; seconds of each, the first fifth left out."""
    topic, taken = deployment.names.trial_events, []
    with redis.Redis.from_url(deployment.site.redis_url) as client:
        async with AIOKafkaProducer(bootstrap_servers=deployment.site.bootstrap) as producer:
            for line in events(TRICKLE):
                run_id = orjson.loads(line)["run_id"]
                place, began = partition_of(run_id, deployment.partitions), time.monotonic()
                ack = await producer.send_and_wait(topic, line, key=run_id.encode(), partition=place)
                while not is_readable(client, deployment, run_id, ack.offset):
                    assert time.monotonic() - began < ARRIVE_SECONDS, f"{run_id} is not readable"
                taken.append(time.monotonic() - began)
    return taken[TRICKLE // 5 :]


def is_readable(client: redis.Redis, deployment: Deployment, run_id: str, offset: int) -> bool:
    """Whether Redis has a summary of the run that has folded that offset."""
    version = client.hget(deployment.keys.versions(run_id), "run")
    return isinstance(version, bytes) and int(version.split(b":")[1]) >= offset


def fold_of(directory: Path, number: int) -> Measure:
    """Microseconds of `streamer fold FILE` for an event, the start of the command included."""
    file = directory / "events.ndjson"
    file.write_bytes(b"".join(line + b"\n" for line in events(number)))

    def measure(tree: Tree) -> None:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-c", COMMAND, "fold", str(file), "--json"],
            env=os.environ | tree.environment,
            stdout=subprocess.DEVNULL,
            check=True,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        tree.note("fold, us an event", used / number * 1e6)

    return measure


def main() -> None:
    """Measure both trees and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("tree", type=Path, help="a checkout of another version")
    parser.add_argument("--also", type=Path, action="append", default=[], help="a folder with its packages")
    parser.add_argument("--events", type=int, default=50_000, help="events of a drain; default 50000")
    parser.add_argument("--turns", type=int, default=5, help="turns that count; one more warms up")
    given = parser.parse_args()
    trees = [
        Tree("other", ":".join(str(path.resolve()) for path in (given.tree, *given.also))),
        Tree("this", str(ROOT)),
    ]
    with TemporaryDirectory(prefix="against-") as folder, a_site("kafka") as site:
        measures = [
            drain_of(site, given.events),
            fold_of(Path(folder), given.events),
            latency_of(site),
            memory_of(site, 2 * given.events),
        ]
        for turn in range(given.turns + 1):
            for measure in measures:
                for tree in trees[:: (-1) ** turn]:
                    measure(tree if turn else Tree(tree.name, tree.path))
    print(
        table(
            [
                ["measured", "other", "this", "ratio", "from", "to"],
                *map(partial(row, *trees), trees[0].measured),
            ]
        )
    )


def row(other: Tree, this: Tree, what: str) -> list[object]:
    """Medians of both, and the ratios turn by turn."""
    result = ratios(this.measured[what], other.measured[what])
    ends = [spread(tree.measured[what])["median"] for tree in (other, this)]
    return [what, *ends, *(f"{result[name]:.2f}" for name in ("median", "min", "max"))]


if __name__ == "__main__":
    main()
