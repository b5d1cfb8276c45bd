"""`streamer tail`: follow a run directory and publish what appears in it."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar, cast

import click

from streamer.cli.declared_plan import declared_plan
from streamer.cli.errors import FOUND_WRONG, INTERRUPTED
from streamer.cli.options import with_settings
from streamer.cli.status_line import StatusLine
from streamer.kafka.broker import refuse_other_protocol
from streamer.settings import Settings
from streamer.sources.base import AUTO, ConvertOptions
from streamer.sources.registry import HARNESSES
from streamer.sources.report import NO_RUN
from streamer.tail.difficulty import difficulties
from streamer.tail.follow import FollowStatus
from streamer.tail.session import TailResult, tail
from streamer.text import counted

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
