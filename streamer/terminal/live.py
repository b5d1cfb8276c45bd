"""`streamer live`: the stack, the tail and the board in one command."""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from streamer.client.readers import StateReader
from streamer.operate.local.processes import Child
from streamer.schemas.summaries import RunSummary
from streamer.settings import Settings, read_discovery
from streamer.sources.base import ConvertOptions
from streamer.sources.tail.follow import FollowStatus
from streamer.sources.tail.session import TailResult, tail
from streamer.terminal import FOUND_WRONG, print_line, say
from streamer.terminal.boards import print_run
from streamer.terminal.harness import stopping, summary_of, tail_options
from streamer.terminal.local import PROGRAM, READY_SECONDS, STOP_SECONDS, Asked, check_urls, notify_options
from streamer.terminal.options import read_settings, with_settings
from streamer.text import percent, shown, visible
from streamer.views.columns import best_first, primary_of
from streamer.views.tables import progress

# -----------------------------------------------------------------------------
# Boards while a command works: the screens of `streamer watch` on a terminal, plain lines elsewhere.


LOOK_SECONDS = 0.1
LINES_SECONDS = 4.0
"""How often a line is printed where there is no terminal."""

SHOWN_RUNS = 3

Summary = dict[str, Any]


class Messages:
    """Messages to the user: on stderr, and while the screens have the terminal first as notes on these."""

    def __init__(self) -> None:
        self._held: list[str] | None = None
        self._noted = 0
        self._lock = threading.Lock()

    def say(self, line: str) -> None:
        """Say one line; from any thread."""
        with self._lock:
            if self._held is None:
                say(line)
            else:
                self._held.append(line)

    def new(self) -> list[str]:
        """The held lines since the last call."""
        with self._lock:
            lines = (self._held or [])[self._noted :]
            self._noted += len(lines)
            return lines

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lines while the block runs, and print them after it."""
        with self._lock:
            self._held, self._noted = [], 0
        try:
            yield
        finally:
            with self._lock:
                lines, self._held = self._held or [], None
            for line in lines:
                say(line)


def on_terminal() -> bool:
    """True if input and output are a terminal, so that screens can be shown and have keys."""
    return all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def show_screens(
    settings: Settings,
    is_over: Callable[[], bool],
    messages: Messages,
    *,
    shows: Callable[[str], bool] = lambda _: True,
    opens: Callable[[], str | None] = lambda: None,
    line: Callable[[], str] = str,
) -> None:
    """Show the screens of `streamer watch` until the work is over, or the user quits them.

    Args:
        settings: where Redis and the broker are.
        is_over: True once the work is over.
        messages: what the work says meanwhile.
        shows: whether a run, by its id, belongs to the work.
        opens: the run whose screen is opened as soon as this names one.
        line: stands below the title of every screen; "": nothing does.

    Raises:
        KeyboardInterrupt: the user pressed Ctrl-C.
    """
    from streamer.terminal.watch import Session, run_watch

    with messages.held():
        interrupted = run_watch(settings, None, Session(is_over, messages.new, shows, opens, line))
    if interrupted:
        raise KeyboardInterrupt


def print_lines(reader: StateReader, is_over: Callable[[], bool]) -> None:
    """Print how the latest runs stand every few seconds until the work is over."""
    lines = _Lines(reader)
    while not is_over():
        lines.look()
        time.sleep(LOOK_SECONDS)


class _Lines:
    """A line for each of the latest runs, and one for each grade that changed since the last look."""

    def __init__(self, reader: StateReader) -> None:
        self._reader = reader
        self._grades: dict[tuple[str, str], str | None] = {}
        self._start = time.monotonic()
        self._due = 0.0

    def look(self) -> None:
        """Look and print, if it is time."""
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + LINES_SECONDS
        found = self._reader.runs()[:SHOWN_RUNS]
        changes = []
        for run in sorted((run.model_dump(mode="json") for run in found), key=lambda run: run["run_id"]):
            run_id = run["run_id"]
            agents = [agent.model_dump(mode="json") for agent in self._reader.agents(run_id)]
            tiers = [tier.model_dump(mode="json") for tier in self._reader.tiers(run_id)]
            ahead = _best(agents, primary_of(run))
            print_line(f"{now - self._start:3.0f} s  {run_id}: {progress(run)}; ahead: {ahead}")
            for group in (*agents, *tiers):
                changes += self._changed(run_id, group.get("tier") or group["agent_model"], group["grade"])
        for change in changes:
            print_line(f"       {change}")
        sys.stdout.flush()

    def _changed(self, run_id: str, who: str, grade: str | None) -> list[str]:
        before = self._grades.get((run_id, who))
        self._grades[run_id, who] = grade
        return [] if before in (None, grade) else [f"{run_id} {who}: grade {before} -> {shown(grade)}"]


def _best(agents: list[Summary], primary: str) -> str:
    contestants = [agent for agent in agents if not agent["baseline"]]
    if not contestants:
        return shown(None)
    best = min(contestants, key=best_first(primary))
    rate = best["statistics"]["pass_rate"]["mean"]
    return f"{visible(best['agent_model'])} with pass rate {percent(rate)}"


# -----------------------------------------------------------------------------
# `streamer live`: the stack, the tail and the board in one command.


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
    from streamer.operate.notify import Watch, watching

    def watch() -> Watch:
        return Watch(stack, asked.urls, asked.rules, messages.say, reader.follows)

    with watching(watch, messages.say):
        yield


@contextmanager
def _stack(settings: Settings, ephemeral: bool) -> Iterator[Settings]:
    """Settings of the stack that runs, or is named; else of one that is started, and ends with the block.

    Raises:
        streamer.operate.local.processes.ServerFailed: it did not start; the message says what it printed.
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
