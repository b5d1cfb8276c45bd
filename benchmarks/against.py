"""This tree against another one, turn about in one run: drain, fan-out, `fold`, trickle, memory of a slot.

    python -m benchmarks.against TREE [--also DIR ...] [--only NAME ...] [--events N] [--turns N]

TREE is a checkout of another version. `--also` names folders with packages that it needs and this environment
lacks. What disturbs the machine disturbs both trees alike, so the ratios hold. Every measure is taken from
outside: processor time and resident memory of the process, and what Redis answers. So the trees need no more
in common than the settings of a worker, the channel of updates and the layout of `streamer:{RUN}:versions`.
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
from statistics import quantiles
from tempfile import TemporaryDirectory

import orjson
import redis
from aiokafka import AIOKafkaProducer

from benchmarks.common import events, ratios, spread, table
from benchmarks.latency import send_slowly
from benchmarks.machine import WORKERS, cpu_seconds, on_cores, resident_bytes
from benchmarks.site import Deployment, Site, Wanted, a_site, ready_at
from streamer.storage.kafka import partition_of
from streamer.text import counted
from tests.house.repository import ROOT
from tests.support.worker_process import WorkerProcess

QUIET = 40
"""Events whose latency is taken in a turn, each the first of its run."""

TRICKLE, TRICKLE_RATE = 2_000, 200.0
"""Events of a trickle, and how many of them come in a second."""

FAN_OUT_RUNS = 2_000
"""Runs of 7 tiers and 5 agents, over which as many events are spread as in a drain."""

SMALL_SHARE = 10
"""Memory of a slot: what a worker holds after all events, less what it holds after a tenth of them."""

PAUSE_SECONDS = 0.1
ARRIVE_SECONDS = 60.0

MEASURES = ("drain", "fan-out", "fold", "trickle", "trickle-of-one", "quiet", "memory")

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


def fan_out_of(site: Site, number: int) -> Measure:
    """Microseconds of the worker for an event, over many runs with few events each."""
    deployment = Deployment(site)
    expected = deployment.load(events(number, runs=FAN_OUT_RUNS))

    def measure(tree: Tree) -> None:
        used, _ = drained(tree, deployment, expected)
        tree.note(f"drain over {FAN_OUT_RUNS:,} runs, us an event", used / number * 1e6)

    return measure


def trickle_of(site: Site, runs: int) -> Measure:
    """A trickle over so many runs: the worker's time for an event, bytes written, and when it is readable."""
    what, lines = f"{TRICKLE_RATE:g} events/s, {counted(runs, 'run')}", list(events(TRICKLE, runs=runs))

    def measure(tree: Tree) -> None:
        with Deployment(site) as deployment, worker_of(tree, deployment) as worker:
            deployment.keep_all_that_is_written()
            ready_at(worker)
            before, sent = cpu_seconds(worker.process.pid), redis_bytes(site)
            taken = asyncio.run(send_slowly(deployment, lines, TRICKLE_RATE)).milliseconds()
            used, to_redis = cpu_seconds(worker.process.pid) - before, redis_bytes(site) - sent
            worker.stop()
            to_kafka = sum(deployment.written_by_topic().values())
        cuts = quantiles(taken, n=100)
        tree.note(f"{what}: worker, us an event", used / TRICKLE * 1e6)
        tree.note(f"{what}: p50, ms", cuts[49])
        tree.note(f"{what}: p99, ms", cuts[98])
        tree.note(f"{what}: bytes to Kafka an event", to_kafka / TRICKLE)
        tree.note(f"{what}: bytes to Redis an event", to_redis / TRICKLE)

    return measure


def redis_bytes(site: Site) -> int:
    """Bytes that Redis has received so far."""
    with redis.Redis.from_url(site.redis_url) as client:
        return int(client.info("stats")["total_net_input_bytes"])


def quiet_of(site: Site) -> Measure:
    """Milliseconds from publishing the first event of a run to its summary in Redis, one after the other."""

    def measure(tree: Tree) -> None:
        with Deployment(site) as deployment, worker_of(tree, deployment) as worker:
            ready_at(worker)
            taken = sorted(asyncio.run(one_by_one(deployment)))
            worker.stop()
        tree.note("first event of a run: p50, ms", taken[len(taken) // 2] * 1e3)
        tree.note("first event of a run: p90, ms", taken[len(taken) * 9 // 10] * 1e3)

    return measure


async def one_by_one(deployment: Deployment) -> list[float]:
    """Publish events, each after the one before is readable; seconds of each, the first fifth left out."""
    topic, taken = deployment.names.trial_events, []
    with redis.Redis.from_url(deployment.site.redis_url) as client:
        async with AIOKafkaProducer(bootstrap_servers=deployment.site.bootstrap) as producer:
            for line in events(QUIET, runs=QUIET):
                run_id = orjson.loads(line)["run_id"]
                place, began = partition_of(run_id, deployment.partitions), time.monotonic()
                ack = await producer.send_and_wait(topic, line, key=run_id.encode(), partition=place)
                while not is_readable(client, deployment, run_id, ack.offset):
                    assert time.monotonic() - began < ARRIVE_SECONDS, f"{run_id} is not readable"
                    await asyncio.sleep(0.001)
                taken.append(time.monotonic() - began)
                await asyncio.sleep(PAUSE_SECONDS)
    return taken[QUIET // 5 :]


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
    parser.add_argument("--only", action="append", choices=MEASURES, help="one measure, or several; all")
    given = parser.parse_args()
    trees = [
        Tree("other", ":".join(str(path.resolve()) for path in (given.tree, *given.also))),
        Tree("this", str(ROOT)),
    ]
    with TemporaryDirectory(prefix="against-") as folder, a_site("kafka") as site:
        made = {
            "drain": partial(drain_of, site, given.events),
            "fan-out": partial(fan_out_of, site, given.events),
            "fold": partial(fold_of, Path(folder), given.events),
            "trickle": partial(trickle_of, site, 32),
            "trickle-of-one": partial(trickle_of, site, 1),
            "quiet": partial(quiet_of, site),
            "memory": partial(memory_of, site, 2 * given.events),
        }
        measures = [made[name]() for name in given.only or MEASURES]
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
