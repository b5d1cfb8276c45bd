"""`streamer convert`: run directories of a harness in, events out."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from streamer.schemas.events import RunStarted
from streamer.schemas.wire import Reason, canonical_json, decode
from streamer.settings import Settings
from streamer.sources.base import AUTO, NO_RUN, ConvertOptions, ConvertReport, Explanation, fit_event
from streamer.sources.convert import HARNESSES
from streamer.sources.files import FileError, read_object
from streamer.sources.simulate import LAYOUTS, SHUFFLES
from streamer.terminal import FOUND_WRONG, INTERRUPTED, StatusLine, print_json, say
from streamer.terminal.options import FiniteRange, file_argument, open_records, with_settings
from streamer.text import counted, shown

if TYPE_CHECKING:
    from streamer.sources.tail.follow import FollowStatus
    from streamer.sources.tail.session import TailResult
    from streamer.storage.outbox import ThreadedPublisher


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--harness", type=click.Choice(HARNESSES), default=AUTO, help="Who wrote it; found out by itself."
)
@click.option("--run-id", metavar="RUN", help="Pool all runs into this one; each becomes a shard of it.")
@click.option("--agent", help="Agent of runs whose files name none.")
@click.option("--model", help="Model of runs whose files name none.")
@click.option("--trial-files-only", is_flag=True, help="Leave out trials that stand only in run-level files.")
@click.option("--explain", is_flag=True, help="Say of each trial where its tokens, cost and length are from.")
@with_settings
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
    for event in convert(paths, options, report):
        print_json(canonical_json(event))
    for line in (*(explained(report) if explain else ()), *lines_of(report)):
        say(line)
    if report.unreadable or not report.runs:
        raise click.exceptions.Exit(FOUND_WRONG)


def explained(report: ConvertReport) -> list[str]:
    """Where the numbers of each trial come from; then of how many trials the logs gave some."""
    trials = len(report.explanations)
    with_logs = sum(
        any(file not in ("", found.path.name) for _, file in found.values.values())
        for found in report.explanations
    )
    return [
        *map(_explained, report.explanations),
        f"{with_logs} of {counted(trials, 'trial')} with numbers from agent logs or recordings; "
        "a cost that nobody reports is estimated when scored: tokens x price (streamer prices MODEL)",
    ]


def _explained(found: Explanation) -> str:
    values = [
        f"{name} {value} from {file}" if file else f"{name} unknown"
        for name, (value, file) in found.values.items()
    ]
    return f"{found.path}: {', '.join(values)}" + "".join(f"; {hint}" for hint in found.hints)


def lines_of(report: ConvertReport) -> list[str]:
    """The report for people: what was left out and why, then the counts."""
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
# What the user declares of a run's plan, beyond what the harness's files say.


NOT_DECLARED = frozenset({"type", "run_id", "revision", "schema_version"})
"""Fields of `run_started` that are not about the plan."""


def declared_plan(file: Path | None, order_kind: str | None) -> dict[str, Any]:
    """Fields of `run_started` from a file and an option; the option comes first.

    Raises:
        click.UsageError: the file holds something else.
    """
    plan = _read(file) if file is not None else {}
    return plan | ({"order_kind": order_kind} if order_kind else {})


def _read(file: Path) -> dict[str, Any]:
    try:
        plan = read_object(file)
    except FileError as error:
        raise click.UsageError(f"--plan {file}: {error}") from error
    fields = RunStarted.model_fields.keys() - NOT_DECLARED
    if unknown := sorted(plan.keys() - fields):
        raise click.UsageError(
            f"--plan {file}: {unknown[0]!r} is no field of a plan; {', '.join(sorted(fields))} are"
        )
    _, wrong = fit_event({"type": "run_started", "run_id": "any", **plan})
    if wrong:
        raise click.UsageError(f"--plan {file}: {'; '.join(f'{name} {why}' for name, why in wrong.items())}")
    return plan


# -----------------------------------------------------------------------------
# `streamer tail`: follow a run directory and publish what appears in it.


Command = TypeVar("Command", bound=Callable[..., Any])

ORDER_KINDS = ("shuffled", "chosen", "unknown")

SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


def tail_options(command: Command) -> Command:
    """RUN_DIR and how to read it: `run_dir`, `options` (ConvertOptions) and `keep_deleted`."""

    @wraps(command)
    def read(
        *args: Any,
        harness: str,
        run_id: str | None,
        agent: str | None,
        model: str | None,
        plan: Path | None,
        order_kind: str | None,
        **others: Any,
    ) -> Any:
        declared = declared_plan(plan, order_kind)
        options = ConvertOptions(run_id, agent, model, harness=harness, declared=declared)
        return command(*args, options=options, **others)

    for option in reversed(
        (
            click.argument("run_dir", type=click.Path(path_type=Path)),
            click.option(
                "--harness",
                type=click.Choice(HARNESSES),
                default=AUTO,
                help="Who writes it; found out by itself.",
            ),
            click.option("--run-id", metavar="RUN", help="Pool all runs into this one, as shards of it."),
            click.option("--agent", help="Agent of runs whose files name none."),
            click.option("--model", help="Model of runs whose files name none."),
            click.option("--keep-deleted", is_flag=True, help="A result stays when its file is deleted."),
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
    ):
        read = option(read)
    return cast(Command, read)


@click.command()
@tail_options
@click.option("--once", is_flag=True, help="Publish what is there, then end.")
@click.option(
    "--difficulty-from",
    metavar="RUN",
    help="Declare how difficult tasks are: their share of failures in RUN.",
)
@with_settings
def tail_command(
    run_dir: Path,
    options: ConvertOptions,
    keep_deleted: bool,
    once: bool,
    difficulty_from: str | None,
    settings: Settings,
) -> None:
    """Publish what is in RUN_DIR, then each result as its file becomes complete, until Ctrl-C.

    RUN_DIR is a run directory or one above several, and need not exist yet. The log ends up saying what
    `streamer convert RUN_DIR` says at that moment; starting again is always safe.
    """

    from streamer.sources.tail.session import difficulties, tail
    from streamer.storage.kafka import refuse_other_protocol

    asyncio.run(refuse_other_protocol(settings))
    if difficulty_from is not None:
        difficulty = {"task_difficulty": difficulties(settings, difficulty_from)}
        options = replace(options, declared={**options.declared, **difficulty})
    line = StatusLine()
    with stopping() as stop:
        line.say(
            f"{'reading' if once else 'following'} {run_dir}{'' if run_dir.exists() else ' (not there yet)'}"
        )
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
        line.say(f"{run_dir}: {NO_RUN if run_dir.exists() else 'there is no such directory'}")
    line.say(summary_of(outcome))
    bad = outcome.pending or (once and (outcome.status.unreadable or not outcome.status.runs))
    if bad:
        raise click.exceptions.Exit(FOUND_WRONG)


@contextmanager
def stopping() -> Iterator[threading.Event]:
    """Set by the first signal that asks us to end; the second one ends the process at once."""
    stop = threading.Event()

    def handle(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            os._exit(INTERRUPTED)
        stop.set()

    before = {number: signal.signal(number, handle) for number in SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def progress_of(status: FollowStatus) -> str:
    """How far it is, in one line."""
    if not status.runs:
        return "no run yet"
    runs = status.runs[0] if len(status.runs) == 1 else counted(len(status.runs), "run")
    return f"{runs}: {_counts(status)}"


def summary_of(outcome: TailResult) -> str:
    """The work done, in one line."""
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
# `streamer publish`: events from a file or a pipe to the event topic.


SHOWN_SECONDS = 0.1
"""How often the progress is shown."""

UNKNOWN_SHOWN = 10
"""Names of unknown fields in the report."""


@click.command()
@file_argument
@click.option("--raw", is_flag=True, help="Also send lines that are no events, as they are.")
@with_settings
def publish_command(file: Path, raw: bool, settings: Settings) -> None:
    """Publish the events in FILE (or on stdin), one JSON object per line, plain or gzip.

    Each line is checked first; one that is no event is reported with its number and reason, is not
    sent, and makes the exit code 1. The command ends when the broker has acknowledged everything;
    the same events may be published again at any time, since duplicates do not count. From a pipe,
    each line is sent as it comes.
    """

    from streamer.storage.outbox import Outgoing, ThreadedPublisher

    sent = bad = 0
    unknown: Counter[str] = Counter()
    with (
        open_records(file) as records,
        ThreadedPublisher(settings) as publisher,
        _shown(progress := _Progress(file, publisher)) as line,
    ):
        for record in records:
            value = record.value or b""
            event = decode(value)
            if isinstance(event, Reason):
                bad += 1
                line.say(f"line {record.offset + 1}: {event.code}: {event.message}")
            else:
                unknown.update(list(event.model_extra or ()))  # a mapping would be added up
            if raw or not isinstance(event, Reason):
                key = None if isinstance(event, Reason) else event.run_id.encode()
                publisher.send(Outgoing(key, value))
                sent += 1
            progress.read += len(value) + 1
        publisher.flush()
    unsent = "" if raw or not bad else " not sent"
    say(f"{counted(sent, 'event')} sent and acknowledged; {counted(bad, 'bad line')}{unsent}")
    if unknown:
        say(f"fields that no event has, sent along and ignored: {_named(unknown)}")
    if bad:
        raise click.exceptions.Exit(FOUND_WRONG)


def _named(unknown: Counter[str]) -> str:
    """The most frequent unknown fields and how often each came."""
    shown_fields = ", ".join(
        f"{shown(name)} ({count:,})" for name, count in unknown.most_common(UNKNOWN_SHOWN)
    )
    return shown_fields + (", ..." if len(unknown) > UNKNOWN_SHOWN else "")


class _Progress:
    """How far the command is.

    Args:
        file: the input.
        publisher: knows how many events are acknowledged.
    """

    def __init__(self, file: Path, publisher: ThreadedPublisher) -> None:
        self.read = 0  # bytes
        self._publisher = publisher
        self._bytes = file.stat().st_size if file.is_file() and file.suffix != ".gz" else 0
        self._begun = time.monotonic()

    def __str__(self) -> str:
        share = f"{min(100, 100 * self.read // self._bytes)} % read, " if self._bytes else ""
        seconds = timedelta(seconds=int(time.monotonic() - self._begun))
        return f"{share}{counted(self._publisher.acknowledged, 'event')} acknowledged, {seconds}"


@contextmanager
def _shown(progress: _Progress) -> Iterator[StatusLine]:
    """A line on stderr that tells of the progress several times a second, if that is a terminal."""
    line, over = StatusLine(), threading.Event()

    def show() -> None:
        while not over.wait(SHOWN_SECONDS):
            line.show(str(progress))

    thread = threading.Thread(target=show, name="progress", daemon=True)
    thread.start()
    try:
        yield line
    finally:
        over.set()
        thread.join()
        line.end()


# -----------------------------------------------------------------------------
# `streamer simulate`: write a run directory as a harness does.


@click.command()
@click.option("--layout", type=click.Choice(list(LAYOUTS)), required=True, help="Whose directory to write.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="The run directory; its name is the run's id.",
)
@click.option("--trials", type=click.IntRange(min=1), default=40, show_default=True, help="How many.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of everything random.")
@click.option(
    "--pace",
    type=FiniteRange(min=0),
    default=0.0,
    show_default=True,
    help="Seconds that a trial takes on average; failures take twice as long as passes.",
)
@click.option(
    "--concurrency", type=click.IntRange(min=1), default=1, show_default=True, help="Trials that run at once."
)
@click.option("--shuffle", is_flag=True, help=f"Start the tasks in a random order; for {SHUFFLES} only.")
@with_settings
def simulate_command(
    layout: str,
    out: Path,
    trials: int,
    seed: int,
    pace: float,
    concurrency: int,
    shuffle: bool,
    settings: Settings,
) -> None:
    """Write a run directory as a harness does: trial by trial, in place, with crashes, timeouts, retries.

    A trial's directory appears when it starts, its result when it ends. Point `streamer tail` at the run
    directory while it is being written.
    """

    from streamer.sources.simulate import simulate_run

    if shuffle and layout != SHUFFLES:
        raise click.UsageError(f"--shuffle is for {SHUFFLES}; {layout} starts tasks in an order of its own")
    if out.exists() and any(out.iterdir()):
        raise click.UsageError(f"--out {out} is not empty; name a new directory")
    simulate_run(
        layout,
        out,
        trials,
        seed=seed,
        start=datetime.now(UTC),
        pace_seconds=pace,
        concurrency=concurrency,
        shuffle=shuffle,
    )
    say(f"{counted(trials, 'trial')} written to {out}")
