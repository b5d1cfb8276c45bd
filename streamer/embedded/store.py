"""The broker that remembers: a process of its own, `python -m streamer.embedded.store`.

It runs the memory-only broker together with the journaller, and outlives `up` for a moment: when `up` goes,
orderly or by SIGKILL, its standard input closes; the process then journals what the broker still holds, ends
the broker and itself. So no acknowledged event is lost by the death of `up`.

Settings come as STREAMER_* variables (bootstrap, namespace, partitions). It tells its parent what happens in
JSON lines on standard output: {"say": text}, {"ready": {...}}, {"failed": text}.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

from streamer.embedded.broker import Broker
from streamer.embedded.errors import EmbeddedError
from streamer.embedded.journal import Journal
from streamer.embedded.journaller import Positions, create_event_topic, drain, follow, replay
from streamer.embedded.locks import locked
from streamer.settings import Settings

LOCK_SECONDS = 20.0
"""The store of an `up` that was killed may still be journalling: longer than it may take to drain."""

WATCH_SECONDS = 0.2
STDIN = 0


def tell(kind: str, content: object) -> None:
    """One line to the parent; nothing happens if it is gone."""
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(json.dumps({kind: content}) + "\n")
        sys.stdout.flush()


async def serve(settings: Settings, journal: Journal, log: Path, stop: asyncio.Event) -> None:
    """Run broker and journal until `stop`; EmbeddedError or OSError if they cannot go on."""
    with Broker(int(settings.bootstrap.rpartition(":")[2]), log=log) as broker:
        loading = load(settings, journal)
        positions = await first_of(loading, stop, broker)
        if positions is None:
            return
        tell("ready", {"loaded": sum(positions.values()), "broker_pid": broker.child.pid})
        await first_of(follow(settings, journal, positions), stop, broker)
        await first_of(drain(settings, journal, positions), asyncio.Event(), broker)


async def load(settings: Settings, journal: Journal) -> Positions:
    """Publish the journal into the fresh broker."""
    await create_event_topic(settings)
    _, positions = await replay(settings, journal.read(lambda text: tell("say", text)))
    return positions


async def first_of(work: Awaitable[Any], stop: asyncio.Event, broker: Broker) -> Any:
    """The result of the work; None if `stop` came first. ServerFailed if the broker ended first."""
    task = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        while not task.done() and not stopping.done():
            await asyncio.wait({task, stopping}, timeout=WATCH_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            broker.check()
        return task.result() if task.done() else None
    finally:
        for pending in (task, stopping):
            pending.cancel()
        await asyncio.gather(task, stopping, return_exceptions=True)


async def until_told(settings: Settings, journal: Journal, log: Path) -> None:
    """Serve until SIGTERM, SIGINT or the end of standard input, which is the end of the parent."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)

    def parent_gone() -> None:
        if not os.read(STDIN, 4096):
            loop.remove_reader(STDIN)
            stop.set()

    loop.add_reader(STDIN, parent_gone)
    await serve(settings, journal, log, stop)


def main() -> int:
    """Entry point; 0 after an orderly end, 1 after telling the parent what failed."""
    parser = argparse.ArgumentParser(prog="python -m streamer.embedded.store")
    parser.add_argument("--journal", type=Path, required=True)
    parser.add_argument("--log", type=Path, required=True)
    arguments = parser.parse_args()
    journal = Journal(arguments.journal)
    try:
        with locked(arguments.journal / "lock", "The journal", LOCK_SECONDS):
            try:
                asyncio.run(until_told(Settings(), journal, arguments.log))
            finally:
                journal.close()
    except EmbeddedError as error:
        tell("failed", str(error))
        return 1
    except OSError as error:
        tell(
            "failed", f"The journal {arguments.journal} cannot be written: {error}. So no event is accepted."
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
