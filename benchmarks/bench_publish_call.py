"""How long one `TrialPublisher.publish` holds up the thread of a harness.

    python -m benchmarks.bench_publish_call [--calls 5000] [--bootstrap HOST:PORT]

Without --bootstrap an embedded broker is started for it. Each case is printed with p50, p99 and the longest
call, in microseconds. The trials have 0 to 10,000 benchmarks. They come paced as a harness would and back to
back, from four threads, and while the broker is away (events go to the disk).

`none, beside 10,000 of its own` is a trial without benchmarks, at the pace of trials with 10,000. It comes
from a thread that has just made so many for itself. Its extra time over the first case is due to the
processor's cold caches, whatever is published. `put` is a reference measured in the same loop just before
each call: one `queue.SimpleQueue.put` of the same trial without a reader, clock included. Nothing can be
faster than that on this machine at this moment, and the ratio to it travels better than microseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import queue
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamer.client import Settings, TrialPublisher
from streamer.operate.local.broker import Broker
from streamer.operate.local.processes import free_port
from streamer.worker.process import ensure_topics

PACED = {0: 0.005, 10: 0.005, 100: 0.005, 1_000: 0.02, 10_000: 0.1}
"""Benchmarks in a trial, and seconds from one trial to the next."""

PAUSE_SECONDS = 0.001
BACK_TO_BACK_BYTES = 32 * 1024 * 1024
"""So much is published without a pause: half of what may wait in memory."""


def a_trial(number: int, benchmarks: int = 0) -> dict[str, Any]:
    """A trial as Terminal-Bench would give it, or with so many benchmarks as FormulaCode."""
    trial: dict[str, Any] = {
        "type": "trial_result",
        "run_id": f"nightly-{number % 8}",
        "task_id": f"task-{number}",
        "agent": "terminus",
        "model": "openai/gpt-5",
        "harness": "terminal-bench",
        "trial_name": f"task-{number}.1-of-5.nightly",
        "resolved": number % 3 == 0,
        "failure_mode": "unset",
        "input_tokens": 12_345,
        "output_tokens": 2_345,
        "cost_usd": 0.1234,
        "duration_seconds": 12.5,
        "started_at": "2026-01-31T09:30:00Z",
        "finished_at": "2026-01-31T09:31:00Z",
        "tests": {"status": "ok", "passed": 5, "failed": 0},
    }
    if benchmarks:
        trial["benchmarks"] = {
            f"bench.module.Suite.time_{index}": {"agent/nop": 0.8312 + index, "oracle/nop": 0.5123}
            for index in range(benchmarks)
        }
    return trial


@dataclass(frozen=True, slots=True)
class Taken:
    """Microseconds of each call, and of each reference before it."""

    calls: list[float]
    references: list[float]


def timed_calls(
    publisher: TrialPublisher, calls: int, pause_seconds: float, benchmarks: int = 0, own_work: int = 0
) -> Taken:
    """Publish so many trials; `own_work`: the thread makes a trial of so many benchmarks and keeps it."""
    taken = Taken([], [])
    reference: queue.SimpleQueue[object] = queue.SimpleQueue()
    clock = time.perf_counter_ns
    for number in range(calls):
        own = a_trial(number, own_work)
        trial = a_trial(number, benchmarks) if benchmarks != own_work else own
        if pause_seconds:
            time.sleep(pause_seconds)
        before = clock()
        reference.put(trial)
        between = clock()
        publisher.publish(trial)
        after = clock()
        reference.get()
        taken.references.append((between - before) / 1e3)
        taken.calls.append((after - between) / 1e3)
    return taken


def timed_threads(publisher: TrialPublisher, calls: int, threads: int) -> Taken:
    """The same from several threads at once."""
    taken = Taken([], [])

    def work() -> None:
        own = timed_calls(publisher, calls // threads, PAUSE_SECONDS)
        taken.calls.extend(own.calls)
        taken.references.extend(own.references)

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return taken


def report(name: str, taken: Taken) -> None:
    """One line."""
    p50, p99 = percentiles(taken.calls)
    put50, put99 = percentiles(taken.references)
    print(
        f"{name:32} {len(taken.calls):>6,} calls  p50 {p50:6.1f}  p99 {p99:6.1f}  max {max(taken.calls):8.1f}"
        f"  put: p50 {put50:4.1f}  p99 {put99:5.1f}  ratio {p50 / put50:5.1f} and {p99 / put99:5.1f}"
    )


def percentiles(values: list[float]) -> tuple[float, float]:
    """p50 and p99."""
    cuts = statistics.quantiles(values, n=100)
    return cuts[49], cuts[98]


@contextmanager
def deployment(bootstrap: str | None) -> Iterator[Settings]:
    """The broker named, or an embedded one; with its topics."""
    if bootstrap:
        settings = Settings(bootstrap=bootstrap, namespace=f"bench-{os.getpid()}")
        asyncio.run(ensure_topics(settings))
        yield settings
        return
    with Broker() as broker:
        settings = Settings(bootstrap=broker.bootstrap, embedded=True)
        asyncio.run(ensure_topics(settings))
        yield settings


def measure(settings: Settings, calls: int, directory: Path) -> None:
    """All cases."""
    with TrialPublisher(settings, spill_dir=directory) as publisher:
        timed_calls(publisher, 500, PAUSE_SECONDS)  # connects
        for benchmarks, seconds in PACED.items():
            publisher.flush()
            count = max(200, min(calls, int(20 / seconds)))
            report(
                f"{benchmarks:,} benchmarks, {1 / seconds:.0f}/s",
                timed_calls(publisher, count, seconds, benchmarks),
            )
        most = max(PACED)
        publisher.flush()
        report(
            f"none, beside {most:,} of its own",
            timed_calls(publisher, max(200, min(calls, int(20 / PACED[most]))), PACED[most], 0, most),
        )
        for benchmarks in PACED:
            publisher.flush()
            count = min(calls, BACK_TO_BACK_BYTES // (450 + 80 * benchmarks))
            report(f"{benchmarks:,} benchmarks, back to back", timed_calls(publisher, count, 0.0, benchmarks))
        publisher.flush()
        report("four threads, 1 ms between", timed_threads(publisher, calls, 4))
        publisher.flush()
        print(publisher.counts)
    nowhere = settings.model_copy(update={"bootstrap": f"127.0.0.1:{free_port()}"})
    with TrialPublisher(nowhere, spill_dir=directory, close_seconds=0) as publisher:
        report("broker away, 1 ms between", timed_calls(publisher, calls, PAUSE_SECONDS))
    print(f"spilled {publisher.counts.spilled:,}, pending {publisher.counts.pending:,}")


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--calls", type=int, default=5_000, help="calls of each case")
    parser.add_argument("--bootstrap", help="a broker to use instead of an embedded one")
    arguments = parser.parse_args()
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    with deployment(arguments.bootstrap) as settings, tempfile.TemporaryDirectory() as directory:
        measure(settings, arguments.calls, Path(directory))


if __name__ == "__main__":
    main()
