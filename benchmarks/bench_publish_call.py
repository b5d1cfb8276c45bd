"""How long one `TrialPublisher.publish` holds up the thread of a harness.

    python -m benchmarks.bench_publish_call [--calls 20000] [--bootstrap HOST:PORT]

Without --bootstrap an embedded broker is started for it. Each case is printed with p50, p99 and the longest
call, in microseconds: typical trials (about 430 bytes) one after the other with pauses and without, from four
threads, while the broker is away (events go to the disk), and large trials.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from streamer.client import Settings, TrialPublisher
from streamer.embedded.broker import Broker
from streamer.embedded.probe import free_port
from streamer.worker.topics import ensure_topics

PAUSE_SECONDS = 0.001


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
        ratios = {"agent/nop": 0.8312, "oracle/nop": 0.5123}
        trial["benchmarks"] = {f"bench.module.Suite.time_{index}": ratios for index in range(benchmarks)}
    return trial


def timed_calls(
    publisher: TrialPublisher, calls: int, pause_seconds: float, benchmarks: int = 0
) -> list[float]:
    """Microseconds of each call."""
    taken = []
    for number in range(calls):
        trial = a_trial(number, benchmarks)
        before = time.perf_counter_ns()
        publisher.publish(trial)
        taken.append((time.perf_counter_ns() - before) / 1e3)
        if pause_seconds:
            time.sleep(pause_seconds)
    return taken


def timed_threads(publisher: TrialPublisher, calls: int, threads: int) -> list[float]:
    """The same from several threads at once."""
    taken: list[float] = []
    workers = [
        threading.Thread(target=lambda: taken.extend(timed_calls(publisher, calls // threads, PAUSE_SECONDS)))
        for _ in range(threads)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return taken


def report(name: str, taken: list[float]) -> None:
    """One line."""
    percentiles = statistics.quantiles(taken, n=1000)
    print(
        f"{name:42} calls {len(taken):>7,}  p50 {percentiles[499]:8.1f}  p99 {percentiles[989]:8.1f}  "
        f"p99.9 {percentiles[998]:8.1f}  max {max(taken):9.1f} us"
    )


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
        publisher.flush()
        report("one thread, 1 ms of work between", timed_calls(publisher, calls, PAUSE_SECONDS))
        publisher.flush()
        report("one thread, nothing between", timed_calls(publisher, calls, 0.0))
        publisher.flush()
        report("four threads, 1 ms of work between", timed_threads(publisher, calls, 4))
        publisher.flush()
        report(
            "one thread, 100 benchmarks in each trial",
            timed_calls(publisher, calls // 10, PAUSE_SECONDS, 100),
        )
        publisher.flush()
        report("one thread, 10,000 benchmarks", timed_calls(publisher, 20, PAUSE_SECONDS, 10_000))
        publisher.flush()
        print(f"{'':44} {publisher.counts}")
    nowhere = settings.model_copy(update={"bootstrap": f"127.0.0.1:{free_port()}"})
    with TrialPublisher(nowhere, spill_dir=directory, close_seconds=0) as publisher:
        report("broker away, 1 ms of work between", timed_calls(publisher, calls, PAUSE_SECONDS))
    print(f"{'':44} spilled {publisher.counts.spilled:,}, pending {publisher.counts.pending:,}")


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--calls", type=int, default=20_000, help="calls of each case")
    parser.add_argument("--bootstrap", help="a broker to use instead of an embedded one")
    arguments = parser.parse_args()
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    with deployment(arguments.bootstrap) as settings, tempfile.TemporaryDirectory() as directory:
        measure(settings, arguments.calls, Path(directory))


if __name__ == "__main__":
    main()
