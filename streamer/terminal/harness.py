"""The commands about run directories of a harness.

- `streamer convert`: run directories in, events out.
- `streamer tail`: follow a run directory, and publish each result as its file becomes complete.
- `streamer simulate`: write the directory of a job as harbor does.
- `streamer live`: the stack, the tail and the board in one command.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from streamer.schemas.base import canonical_json
from streamer.settings import Settings, read_discovery
from streamer.sources.base import AUTO, NO_RUN, ConvertOptions, ConvertReport, Explanation, fit_event
from streamer.sources.files import FileError, read_object
from streamer.terminal import INTERRUPTED, StatusLine, fail_if, meanwhile, print_json, print_line, say
from streamer.terminal.local import Asked, check_urls, notify_options, started_stack
from streamer.terminal.options import FiniteRange, bundled, read_settings, with_local_settings, with_settings
from streamer.text import counted, shown, visible

if TYPE_CHECKING:
    from streamer.client.readers import SomeRunsReader, StateReader
    from streamer.schemas.summaries import Leader
    from streamer.sources.tail.follow import FollowStatus
    from streamer.sources.tail.session import TailResult


class LazyChoice(click.Choice):  # type: ignore[type-arg]
    """A choice that resolves its names only on use, because they would load other modules."""

    def __init__(self, names: Callable[[], Iterable[str]]) -> None:
        self._names = names
        super().__init__(())

    @property
    def choices(self) -> tuple[str, ...]:
        return tuple(self._names())

    @choices.setter
    def choices(self, _: object) -> None: ...


def _harnesses() -> Iterable[str]:
    from streamer.sources.convert import HARNESSES

    return HARNESSES


# -----------------------------------------------------------------------------
# `streamer convert`: run directories of a harness in, events out.


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--harness", type=LazyChoice(_harnesses), default=AUTO, help="Its harness; detected by default."
)
@click.option("--run-id", metavar="RUN", help="Pool all runs into this one; each becomes a shard of it.")
@click.option("--agent", help="Agent of runs whose files name none.")
@click.option("--model", help="Model of runs whose files name none.")
@click.option("--trial-files-only", is_flag=True, help="Leave out trials found only in run-level files.")
@click.option("--explain", is_flag=True, help="Show where each trial's tokens, cost and length come from.")
@with_local_settings
def convert_command(
    paths: tuple[Path, ...],
    harness: str,
    run_id: str | None,
    agent: str | None,
    model: str | None,
    trial_files_only: bool,
    explain: bool,
    settings: Settings,
) -> None:
    """Turn the run directories at or below PATHS into events on stdout, one JSON object per line.

    What was read is reported on stderr. The exit code is 1 if something could not be read.
    """
    from streamer.sources.convert import convert

    options = ConvertOptions(
        run_id=run_id, agent=agent, model=model, trial_files_only=trial_files_only, harness=harness
    )
    report = ConvertReport()

    def tell() -> None:
        what, where = report.activity
        say(f"{what} {where}: {counted(report.trials, 'trial')} so far")

    with meanwhile(tell, FIRST_SECONDS, LATER_SECONDS):
        for event in convert(paths, options, report):
            print_json(canonical_json(event))
    for line in (*(explained(report) if explain else ()), *lines_of(report)):
        say(line)
    fail_if(report.unreadable or not report.runs)


FIRST_SECONDS, LATER_SECONDS = 1.5, 10.0
"""Seconds until a slow conversion first reports its progress, and between later reports."""


def explained(report: ConvertReport) -> list[str]:
    trials = len(report.explanations)
    with_logs = sum(
        any(file not in ("", explanation.path.name) for _, file in explanation.values.values())
        for explanation in report.explanations
    )
    return [
        *map(_explained, report.explanations),
        f"{with_logs} of {counted(trials, 'trial')} with numbers from agent logs or recordings; an "
        "unreported cost is estimated when scored: tokens x price (streamer prices MODEL)",
    ]


def _explained(explanation: Explanation) -> str:
    values = [
        f"{name} {value} from {file}" if file else f"{name} unknown"
        for name, (value, file) in explanation.values.items()
    ]
    return f"{explanation.path}: {', '.join(values)}" + "".join(f"; {hint}" for hint in explanation.hints)


def lines_of(report: ConvertReport) -> list[str]:
    lines = [f"note: {note}" for note in (*report.notes, *report.remarks.values())]
    lines += [f"{path}: {name} left out: {reason}" for path, name, reason in report.left_out]
    lines += [f"{path}: {name} cut: {reason}" for path, name, reason in report.cut]
    lines += [f"{path}: {reason}" for path, reason in report.unreadable]
    if not report.runs:
        lines.append(NO_RUN)
    counts = (
        f"{counted(len(report.runs), 'run')}, {counted(report.trials, 'trial')} "
        f"({report.run_file_trials} only in run-level files), {counted(report.duplicates, 'duplicate')}, "
        f"{len(report.unreadable)} unreadable, {counted(len(report.left_out), 'value')} left out"
    )
    return [*lines, counts]


# -----------------------------------------------------------------------------
# The user's declarations about a run's plan, beyond the harness's files.


NOT_DECLARED = frozenset({"type", "run_id", "revision", "schema_version"})


def declared_plan(file: Path | None, order_kind: str | None) -> dict[str, Any]:
    """Fields of `run_started` from a file and an option, which takes precedence."""
    plan = _read(file) if file is not None else {}
    return plan | ({"order_kind": order_kind} if order_kind else {})


def _read(file: Path) -> dict[str, Any]:
    from streamer.schemas.events import RunStarted

    try:
        plan = read_object(file)
    except FileError as error:
        raise click.UsageError(f"--plan {file}: {error}") from error
    fields = RunStarted.model_fields.keys() - NOT_DECLARED
    if unknown := sorted(plan.keys() - fields):
        raise click.UsageError(
            f"--plan {file}: {unknown[0]!r} is not a plan field; use {', '.join(sorted(fields))}"
        )
    _, wrong = fit_event({"type": "run_started", "run_id": "any", **plan})
    if wrong:
        raise click.UsageError(f"--plan {file}: {'; '.join(f'{name} {why}' for name, why in wrong.items())}")
    return plan


# -----------------------------------------------------------------------------
# `streamer tail`: follow a run directory and publish its results.


ORDER_KINDS = ("shuffled", "chosen", "unknown")

SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class _Place(click.Path):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path | str:
        if isinstance(value, str) and value.startswith(("http://", "https://")):
            if "@" in value.split("/")[2]:  # it would be printed with each message
                self.fail("an address has no user or password: HARBOR_API_KEY is the key", param, ctx)
            return value
        return Path(os.fsdecode(super().convert(value, param, ctx)))


def _tail_options(
    harness: str,
    run_id: str | None,
    agent: str | None,
    model: str | None,
    plan: Path | None,
    order_kind: str | None,
) -> ConvertOptions:
    declared = declared_plan(plan, order_kind)
    return ConvertOptions(run_id, agent, model, harness=harness, declared=declared)


tail_options = bundled(
    "options",
    _tail_options,
    click.argument("run_dir", type=_Place()),
    click.option(
        "--harness", type=LazyChoice(_harnesses), default=AUTO, help="Its harness; detected by default."
    ),
    click.option("--run-id", metavar="RUN", help="Pool all runs into this one, as shards of it."),
    click.option("--agent", help="Agent of runs whose files name none."),
    click.option("--model", help="Model of runs whose files name none."),
    click.option("--keep-deleted", is_flag=True, help="Keep a result when its file is deleted."),
    click.option(
        "--order-kind",
        type=click.Choice(ORDER_KINDS),
        help="Declare the order of the trials; `shuffled` only if it was, before the first start.",
    ),
    click.option(
        "--plan",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Declare fields of the plan: a JSON object, as `streamer shuffle --json` prints it.",
    ),
)
"""Decorator for RUN_DIR and how to read it: `run_dir`, `options` and `keep_deleted`."""


@click.command()
@tail_options
@click.option("--once", is_flag=True, help="Publish what exists, then exit.")
@click.option(
    "--difficulty-from", metavar="RUN", help="Declare how difficult tasks are: the share of failures in RUN."
)
@with_settings
def tail_command(
    run_dir: Path | str,
    options: ConvertOptions,
    keep_deleted: bool,
    once: bool,
    difficulty_from: str | None,
    settings: Settings,
) -> None:
    """Publish what is in RUN_DIR, then each result as its file becomes complete, until Ctrl-C.

    RUN_DIR is a run directory or a parent of several, and need not exist yet; or the address of a Harbor
    server (http://127.0.0.1:8390). The log ends up with what `streamer convert RUN_DIR` prints at that
    moment; restarting is always safe.
    """

    import asyncio  # the other commands here have no event loop

    from streamer.sources.tail.session import difficulties, tail
    from streamer.storage.kafka import refuse_other_protocol

    asyncio.run(refuse_other_protocol(settings))
    if difficulty_from is not None:
        difficulty = {"task_difficulty": difficulties(settings, difficulty_from)}
        options = replace(options, declared={**options.declared, **difficulty})
    line = StatusLine()
    with stopping() as stop:
        is_there = isinstance(run_dir, str) or run_dir.exists()
        line.say(f"{'reading' if once else 'following'} {run_dir}{'' if is_there else ' (not there yet)'}")
        try:
            outcome = tail(
                settings,
                run_dir,
                options,
                stop,
                line.say,
                lambda status: line.show(progress_of(status)),
                once=once,
                keep_deleted=keep_deleted,
            )
        finally:
            line.end()
    if once and not outcome.status.runs:
        line.say(
            f"{run_dir}: {NO_RUN if is_there or Path(run_dir).exists() else 'there is no such directory'}"
        )
    line.say(summary_of(outcome))
    fail_if(outcome.pending or (once and (outcome.status.unreadable or not outcome.status.runs)))


@contextmanager
def stopping() -> Iterator[threading.Event]:
    """An event that the first signal sets, but not nohup's SIGHUP; the second ends the process at once."""
    stop = threading.Event()

    def handle(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            os._exit(INTERRUPTED)
        stop.set()

    ignored = [number for number in SIGNALS[2:] if signal.getsignal(number) is signal.SIG_IGN]
    before = {number: signal.signal(number, handle) for number in SIGNALS if number not in ignored}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def progress_of(status: FollowStatus) -> str:
    if not status.runs:
        return "no run yet"
    runs = status.runs[0] if len(status.runs) == 1 else counted(len(status.runs), "run")
    return f"{runs}: {_counts(status)}"


def summary_of(outcome: TailResult) -> str:
    acknowledged = "all acknowledged" if not outcome.pending else f"{outcome.pending:,} not acknowledged"
    return (
        f"{counted(len(outcome.status.runs), 'run')}, {_counts(outcome.status)}; "
        f"{counted(outcome.status.published, 'event')} published, {acknowledged}"
    )


def _counts(status: FollowStatus) -> str:
    parts = [
        counted(status.trials, "trial"),
        f"{status.waiting} being written" if status.waiting else "",
        f"{len(status.unreadable)} unreadable" if status.unreadable else "",
        f"{status.withdrawn} withdrawn" if status.withdrawn else "",
    ]
    return ", ".join(filter(None, parts))


# -----------------------------------------------------------------------------
# `streamer simulate`: write the directory of a job as harbor does.


@click.command()
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="The run directory; its name is the run's id.",
)
@click.option("--trials", type=click.IntRange(min=1), default=40, show_default=True, help="How many.")
@click.option("--seed", type=int, default=1, show_default=True, help="Random seed.")
@click.option(
    "--pace",
    type=FiniteRange(min=0),
    default=0.0,
    show_default=True,
    help="Mean seconds per trial; failures take twice as long as passes.",
)
@click.option(
    "--concurrency", type=click.IntRange(min=1), default=1, show_default=True, help="Trials that run at once."
)
@click.option("--shuffle", is_flag=True, help="Start the tasks in a random order.")
@with_local_settings
def simulate_command(
    out: Path, trials: int, seed: int, pace: float, concurrency: int, shuffle: bool, settings: Settings
) -> None:
    """Write a job directory as Harbor does: trial by trial, in place, with crashes, timeouts, retries.

    A trial's directory appears when it starts, its result when it ends. Point `streamer tail` at the run
    directory while it is being written.
    """

    from streamer.terminal.simulate import Disk, write_harbor

    if out.exists() and any(out.iterdir()):
        raise click.UsageError(f"--out {out} is not empty; name a new directory")
    disk = Disk(out, seed, pace)
    write_harbor(disk, trials, seed, datetime.now(UTC), concurrency, shuffle=shuffle)
    say(f"{counted(trials, 'trial')} written to {out}")


# -----------------------------------------------------------------------------
# Boards while a command works: the screens of `streamer watch` on a terminal, plain lines elsewhere.


LOOK_SECONDS = 0.1
LINES_SECONDS = 4.0

SHOWN_RUNS = 3

Summary = dict[str, Any]


class Messages:
    """Messages to the user: on stderr or, while a screen is open, as notes on it."""

    def __init__(self) -> None:
        self._deferred: list[str] | None = None
        self._noted = 0
        self._lock = threading.Lock()

    def say(self, line: str) -> None:
        with self._lock:
            if self._deferred is None:
                say(line)
            else:
                self._deferred.append(line)

    def new(self) -> list[str]:
        with self._lock:
            lines = (self._deferred or [])[self._noted :]
            self._noted += len(lines)
            return lines

    @contextmanager
    def deferred(self) -> Iterator[None]:
        with self._lock:
            self._deferred, self._noted = [], 0
        try:
            yield
        finally:
            with self._lock:
                lines, self._deferred = self._deferred or [], None
            for line in lines:
                say(line)


def on_terminal() -> bool:
    """Whether input and output are a terminal, so that screens and keys work."""
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
    """Show the screens of `streamer watch` until the work is over or the user quits; see `Session`."""
    from streamer.terminal.watch import Session, run_watch

    with messages.deferred():
        interrupted = run_watch(settings, None, Session(is_over, messages.new, shows, opens, line))
    if interrupted:
        raise KeyboardInterrupt


def print_lines(reader: StateReader, is_over: Callable[[], bool]) -> None:
    """Print the state of the latest runs every few seconds until the work is over."""
    lines = _Lines(reader)
    while not is_over():
        with _without_redis():
            lines.look()
        time.sleep(LOOK_SECONDS)


@contextmanager
def _without_redis() -> Iterator[None]:
    """Report that Redis does not answer; the work goes on without a board."""
    from streamer.client.queries import RedisUnavailable

    try:
        yield
    except RedisUnavailable as error:
        say(f"no board: {error}")


class _Lines:
    def __init__(self, reader: StateReader) -> None:
        self._reader = reader
        self._grades: dict[tuple[str, str], str | None] = {}
        self._start = time.monotonic()
        self._due = 0.0

    def look(self) -> None:
        from streamer.views.tables import progress

        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + LINES_SECONDS
        result = self._reader.runs()[:SHOWN_RUNS]
        changes, leaders = [], self._reader.leaders(result)
        for run in sorted((run.model_dump(mode="json") for run in result), key=lambda run: run["run_id"]):
            run_id = run["run_id"]
            agents = [agent.model_dump(mode="json") for agent in self._reader.agents(run_id)]
            tiers = [tier.model_dump(mode="json") for tier in self._reader.tiers(run_id)]
            ahead = _ahead(run, leaders.get(run_id))
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


def _ahead(run: Summary, leader: Leader | None) -> str:
    from streamer.views.cells import text
    from streamer.views.columns import leading

    if leader is None:
        return shown(None)
    column, title = leading(run)
    name, value = visible(leader.agent_model), text(column, {"leader": leader})
    return f"{name} with {visible(title or 'pass rate')} {value}"


# -----------------------------------------------------------------------------
# `streamer live`: the stack, the tail and the board in one command.


@click.command()
@tail_options
@click.option("--ephemeral", is_flag=True, help="If a stack is started, it keeps nothing.")
@notify_options
@with_settings
def live_command(
    run_dir: Path | str,
    options: ConvertOptions,
    keep_deleted: bool,
    ephemeral: bool,
    asked: Asked | None,
    settings: Settings,
) -> None:
    """Show the boards of the benchmark that writes into RUN_DIR, as it runs, until `q` or Ctrl-C.

    RUN_DIR may also be the address of a Harbor server (http://127.0.0.1:8390).

    Uses the stack of `streamer up`, or the servers you name; without either it starts a stack, which ends
    with this command and keeps its events. Other commands find it meanwhile.
    """
    if asked:
        check_urls(asked)
    with stopping() as stop, _stack(settings, ephemeral) as stack:
        say(f"following {run_dir}; Ctrl-C ends it")
        outcome = _watch_directory(stack, run_dir, options, stop, keep_deleted, asked)
    say(summary_of(outcome))
    fail_if(outcome.pending)


def _watch_directory(
    stack: Settings,
    run_dir: Path | str,
    options: ConvertOptions,
    stop: threading.Event,
    keep_deleted: bool,
    asked: Asked | None,
) -> TailResult:
    from streamer.client.readers import SomeRunsReader
    from streamer.sources.tail.session import tail
    from streamer.terminal.boards import print_run

    with SomeRunsReader(stack) as reader, ThreadPoolExecutor(1) as thread:
        messages = Messages()

        def tick(status: FollowStatus) -> None:
            reader.chosen = frozenset([options.run_id] if options.run_id else status.runs)

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
        with _without_redis():
            for run in reader.runs():
                value = reader.snapshot(run.run_id)
                tiers = [tier for tier in value.tiers if tier.agent_model is None]
                groups = (value.run, *value.agents, *tiers)
                print_run((summary.model_dump(mode="json") for summary in groups), datetime.now(UTC))
        return outcome


@contextmanager
def _notices(
    stack: Settings, asked: Asked | None, reader: SomeRunsReader, messages: Messages
) -> Iterator[None]:
    if asked is None:
        yield
        return
    from streamer.operate.notice_delivery import Watch, watching

    def watch() -> Watch:
        return Watch(stack, asked.urls, asked.rules, messages.say, reader.follows)

    with watching(watch, messages.say):
        yield


@contextmanager
def _stack(settings: Settings, ephemeral: bool) -> Iterator[Settings]:
    if {"bootstrap", "redis"} & settings.model_fields_set:  # named, or found as those of `up`
        yield settings
        return
    print_line("Starting broker, Redis and worker ...")
    sys.stdout.flush()
    options = ["--ephemeral"] if ephemeral else []
    options += ["--namespace", settings.namespace] if settings.namespace else []
    with (
        tempfile.TemporaryDirectory(prefix="streamer-live-") as folder,
        started_stack(
            "The stack", *options, ready=lambda: read_discovery() is not None, log=Path(folder) / "up.log"
        ),
    ):
        yield read_settings({"namespace": settings.namespace})
