"""`streamer publish`: events from a file or a pipe to the event topic."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import click

from streamer.cli.errors import FOUND_WRONG
from streamer.cli.options import with_settings
from streamer.cli.printing import say, shown
from streamer.cli.source import file_argument, open_records
from streamer.publish.publisher import Outgoing, ThreadedPublisher
from streamer.schemas.decode import Reason, decode
from streamer.settings import Settings
from streamer.text import counted

if TYPE_CHECKING:
    from rich.progress import Task

UNKNOWN_SHOWN = 10
"""Names of unknown fields in the report."""


@click.command()
@file_argument
@click.option("--raw", is_flag=True, help="Also send lines that are no events, as they are.")
@with_settings
def command(file: Path, raw: bool, settings: Settings) -> None:
    """Publish the events in FILE (or on stdin), one JSON object per line, plain or gzip.

    Each line is checked first; one that is no event is reported with its number and reason, is not
    sent, and makes the exit code 1. The command ends when the broker has acknowledged everything;
    the same events may be published again at any time, since duplicates do not count. From a pipe,
    each line is sent as it comes.
    """
    sent = bad = 0
    unknown: Counter[str] = Counter()
    with (
        open_records(file) as records,
        ThreadedPublisher(settings) as publisher,
        _progress(file, publisher) as progress,
    ):
        for record in records:
            value = record.value or b""
            event = decode(value)
            if isinstance(event, Reason):
                bad += 1
                say(f"line {record.offset + 1}: {event.code}: {event.message}")
            else:
                unknown.update(list(event.model_extra or ()))  # a mapping would be added up
            if raw or not isinstance(event, Reason):
                key = None if isinstance(event, Reason) else event.run_id.encode()
                publisher.send(Outgoing(key, value))
                sent += 1
            progress.advance(len(value) + 1)
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


class Advancing(Protocol):
    """Shows how far something is."""

    def advance(self, read: int) -> None:
        """Count so many bytes more as read."""


class _Unseen:
    def advance(self, read: int) -> None:
        """No progress is shown."""


@contextmanager
def _progress(file: Path, publisher: ThreadedPublisher) -> Iterator[Advancing]:
    """A bar on stderr, if that is a terminal; it pulses where the size of the input is not known."""
    if not sys.stderr.isatty():
        yield _Unseen()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, TimeElapsedColumn
    from rich.text import Text

    class Acknowledged(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{counted(publisher.acknowledged, 'event')} acknowledged")

    plain = file.is_file() and file.suffix != ".gz"
    with Progress(BarColumn(), Acknowledged(), TimeElapsedColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task("publish", total=file.stat().st_size if plain else None)

        class Bar:
            def advance(self, read: int) -> None:
                bar.advance(task, read)

        yield Bar()
