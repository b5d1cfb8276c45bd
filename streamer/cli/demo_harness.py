"""The demo at work: a simulated harness writes, the tail follows, a judge scores what it reads in the log."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from streamer.cli.demo_benchmark import OPTIONS, RUN, write_benchmark
from streamer.cli.demo_judge import judge
from streamer.publish.publisher import Outgoing, ThreadedPublisher
from streamer.settings import Settings
from streamer.tail.session import TailResult, tail

BROKEN = (
    b"not JSON at all",
    b'{"type":"trial_result","run_id":"demo","task_id":"task-1","resolved":"yes"}',
    b'{"type":"trial_result","run_id":"demo","task_id":"task-1","cost_usd":-1}',
)
"""What harnesses with bugs send."""


class _DemoStopped(Exception):
    """The simulated harness is not awaited any more."""


def run_benchmark(
    settings: Settings, root: Path, stop: threading.Event, say: Callable[[str], None], *, fast: bool
) -> TailResult:
    """Let the harness write, follow and judge it, until all is published.

    Args:
        settings: of the stack.
        root: where the run directory is written; one of an earlier demo is removed.
        stop: set: the user has left, so it ends at once.
        say: takes lines for the user, from any thread.
        fast: as fast as it goes.
    """
    shutil.rmtree(root / RUN, ignore_errors=True)
    root.mkdir(parents=True, exist_ok=True)
    written, published = threading.Event(), threading.Event()
    hurry = threading.Event()
    with ThreadPoolExecutor(2) as threads:
        following = threads.submit(tail, settings, root, OPTIONS, written, say, lambda _: None)
        judging = threads.submit(judge, settings, published, hurry)
        try:
            _send_broken(settings)
            _write_benchmark(root / RUN, stop, fast=fast)
        finally:
            written.set()
            if fast or stop.is_set():
                hurry.set()
            try:
                outcome = following.result()
            finally:
                published.set()
        while not judging.done():
            if stop.wait(0.1):
                hurry.set()
        judging.result()
    return outcome


def _write_benchmark(directory: Path, stop: threading.Event, *, fast: bool) -> None:
    """Write the benchmark, by a clock: what other work of this machine costs is made good."""
    due = time.monotonic()

    def sleep(seconds: float) -> None:
        nonlocal due
        due += seconds
        if stop.wait(max(0.0, due - time.monotonic())):
            raise _DemoStopped

    try:
        write_benchmark(directory, datetime.now(UTC), sleep, fast=fast)
    except _DemoStopped:
        return


def _send_broken(settings: Settings) -> None:
    with ThreadedPublisher(settings) as publisher:
        for line in BROKEN:
            publisher.send(Outgoing(None, line))
        publisher.flush()
