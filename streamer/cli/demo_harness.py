"""The demo's benchmark: simulated harnesses write run directories, and the tail follows them."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

from streamer.cli.boards import Messages, on_terminal, print_lines, show_screens
from streamer.client.reader import StateReader
from streamer.publish.publisher import Outgoing, ThreadedPublisher
from streamer.settings import Settings
from streamer.simulate import simulate_run
from streamer.sources.base import ConvertOptions
from streamer.tail.session import TailResult, tail

TIERED_RUN, SPEEDUP_RUN = "demo-tiers", "demo-speedups"
RUNS = {TIERED_RUN: ("scylla", 63), SPEEDUP_RUN: ("fc-eval", 40)}
"""Run -> its harness, and how many trials; of fc-eval's each is one of nop, oracle and an agent."""

SEED = 11
AT_ONCE = 3
"""Trials of each run that run at once."""

PACE_SECONDS = 0.42
"""How long a trial takes when one watches: both runs then end after some 33 seconds."""

HOURS_AGO = 12
"""The simulated runs started this long ago: their trials take longer in the files than in the demo."""

BROKEN = (
    b"not JSON at all",
    b'{"type":"trial_result","run_id":"demo-speedups","task_id":"task-1","resolved":"yes"}',
    b'{"type":"trial_result","run_id":"demo-speedups"}',
    b'{"type":"trial_resullt","run_id":"demo-tiers","task_id":"task-1"}',
    b'{"type":"trial_result","run_id":"demo-tiers","task_id":"task-1","cost_usd":-1}',
)
"""What harnesses with bugs send."""


class _DemoStopped(Exception):
    """The simulated harnesses are not awaited any more."""


def follow_simulated(settings: Settings, reader: StateReader, root: Path, pace_seconds: float) -> TailResult:
    """Let the harnesses write, follow them and show the boards, until they are done and all is published.

    Args:
        settings: of the stack.
        reader: what the view looks through.
        root: where the run directories are written; directories of an earlier demo are removed.
        pace_seconds: how long a trial takes, see `PACE_SECONDS`; 0: as fast as it goes.
    """
    for run_id in RUNS:
        shutil.rmtree(root / run_id, ignore_errors=True)
    root.mkdir(parents=True, exist_ok=True)
    start = datetime.now(UTC) - timedelta(hours=HOURS_AGO)
    stop = threading.Event()

    def write(run_id: str, layout: str, trials: int) -> None:
        def sleep(seconds: float) -> None:
            if stop.wait(seconds):
                raise _DemoStopped

        simulate_run(
            layout,
            root / run_id,
            trials,
            seed=SEED,
            start=start,
            pace_seconds=pace_seconds,
            concurrency=AT_ONCE,
            sleep=sleep,
        )

    with ThreadPoolExecutor(1 + len(RUNS)) as threads:
        messages = Messages()
        following = threads.submit(tail, settings, root, ConvertOptions(), stop, messages.say, lambda _: None)
        following.add_done_callback(lambda _: stop.set())
        writers = [threads.submit(write, run_id, *how) for run_id, how in RUNS.items()]
        try:
            _send_broken(settings)
            show(settings, reader, lambda: all(writer.done() for writer in writers), messages)
        finally:
            stop.set()
        outcome = following.result()
        for writer in writers:
            writer.result()
    return outcome


def show(settings: Settings, reader: StateReader, is_over: Callable[[], bool], messages: Messages) -> None:
    """Show the boards until the work is over; lines where there is no terminal, or the user quit the screens.

    Raises:
        KeyboardInterrupt: the user pressed Ctrl-C.
    """
    if on_terminal():
        show_screens(settings, is_over, messages)
    print_lines(reader, is_over)


def _send_broken(settings: Settings) -> None:
    with ThreadedPublisher(settings) as publisher:
        for line in BROKEN:
            publisher.send(Outgoing(None, line))
        publisher.flush()
