"""`streamer live`: the stack, the tail and the board in one command."""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import click

from streamer.cli.boards import Messages, on_terminal, print_lines, show_screens
from streamer.cli.errors import FOUND_WRONG
from streamer.cli.notify_options import Asked, check_urls, notify_options
from streamer.cli.options import read_settings, with_settings
from streamer.cli.printing import print_line, say
from streamer.cli.tables import print_run
from streamer.cli.tail import stopping, summary_of, tail_options
from streamer.cli.up import PROGRAM, READY_SECONDS, STOP_SECONDS
from streamer.client.reader import StateReader
from streamer.discovery import read_discovery
from streamer.embedded.processes import Child
from streamer.schemas.summaries import RunSummary
from streamer.settings import Settings
from streamer.sources.base import ConvertOptions
from streamer.tail.follow import FollowStatus
from streamer.tail.session import TailResult, tail


@click.command()
@tail_options
@click.option("--ephemeral", is_flag=True, help="If a stack is started: it keeps nothing.")
@notify_options
@with_settings
def live_command(
    run_dir: Path,
    options: ConvertOptions,
    keep_deleted: bool,
    ephemeral: bool,
    asked: Asked | None,
    settings: Settings,
) -> None:
    """Show the boards of the benchmark that writes into RUN_DIR, as it goes, until `q` or Ctrl-C.

    Uses the stack that `streamer up` runs, or the servers that are named; without any it starts one, which
    ends with this command and keeps its events. Other commands find it meanwhile.
    """
    if asked:
        check_urls(asked)
    with stopping() as stop, _stack(settings, ephemeral) as stack:
        say(f"following {run_dir}; Ctrl-C ends it")
        outcome = _watch_directory(stack, run_dir, options, stop, keep_deleted, asked)
    say(summary_of(outcome))
    if outcome.pending:
        raise click.exceptions.Exit(FOUND_WRONG)


class _FollowedRuns(StateReader):
    """Sees only the runs that are followed."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.wanted: frozenset[str] = frozenset()

    def runs(self) -> list[RunSummary]:
        """The ones that Redis has."""
        return [run for run in super().runs() if run.run_id in self.wanted] if self.wanted else []

    def follows(self, run_id: str) -> bool:
        """True if this run is followed."""
        return run_id in self.wanted

    def only(self) -> str | None:
        """The run, if just one is followed."""
        return next(iter(self.wanted)) if len(self.wanted) == 1 else None


def _watch_directory(
    stack: Settings,
    run_dir: Path,
    options: ConvertOptions,
    stop: threading.Event,
    keep_deleted: bool,
    asked: Asked | None,
) -> TailResult:
    """The tail in a thread, the board in this one, until stopped; then the results in full."""
    with _FollowedRuns(stack) as reader, ThreadPoolExecutor(1) as thread:
        messages = Messages()

        def tick(status: FollowStatus) -> None:
            reader.wanted = frozenset([options.run_id] if options.run_id else status.runs)

        following: Future[TailResult] = thread.submit(
            tail, stack, run_dir, options, stop, messages.say, tick, keep_deleted=keep_deleted
        )
        following.add_done_callback(lambda _: stop.set())
        try:
            with _notices(stack, asked, reader, messages):
                if on_terminal():
                    with suppress(KeyboardInterrupt):  # which ends it, as `q` does
                        show_screens(stack, stop.is_set, messages, shows=reader.follows, opens=reader.only)
                else:
                    print_lines(reader, stop.is_set)
        finally:
            stop.set()
        outcome = following.result()
        for run in reader.runs():
            found = reader.snapshot(run.run_id)
            tiers = [tier for tier in found.tiers if tier.agent_model is None]
            groups = (found.run, *found.agents, *tiers)
            print_run((summary.model_dump(mode="json") for summary in groups), datetime.now(UTC))
        return outcome


@contextmanager
def _notices(
    stack: Settings, asked: Asked | None, reader: _FollowedRuns, messages: Messages
) -> Iterator[None]:
    """Send notices of the followed runs while the block runs; nothing unless they were asked for."""
    if asked is None:
        yield
        return
    from streamer.notifications.background import watching
    from streamer.notifications.watch import Watch

    def watch() -> Watch:
        return Watch(stack, asked.urls, asked.rules, messages.say, reader.follows)

    with watching(watch, messages.say):
        yield


@contextmanager
def _stack(settings: Settings, ephemeral: bool) -> Iterator[Settings]:
    """Settings of the stack that runs, or is named; else of one that is started, and ends with the block.

    Raises:
        streamer.embedded.errors.ServerFailed: it did not start; the message says what it printed.
    """
    if read_discovery() is not None or settings.bootstrap != Settings.model_fields["bootstrap"].default:
        yield settings
        return
    print_line("Starting broker, Redis and worker ...")
    sys.stdout.flush()
    with tempfile.TemporaryDirectory(prefix="streamer-live-") as folder:
        more = ["--ephemeral"] if ephemeral else []
        namespace = ["--namespace", settings.namespace] if settings.namespace else []
        log = Path(folder) / "up.log"
        up = Child("The stack", [sys.executable, "-c", PROGRAM, "up", *more, *namespace], log=log)
        try:
            up.start()
            up.wait_ready(lambda: read_discovery() is not None, READY_SECONDS)
            yield read_settings({"namespace": settings.namespace})
        finally:
            up.stop(STOP_SECONDS)
