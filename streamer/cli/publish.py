"""`streamer publish`: events from a file or a pipe to the event topic."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import click

from streamer.cli.errors import FOUND_WRONG
from streamer.cli.options import with_settings
from streamer.cli.printing import say, shown
from streamer.cli.source import file_argument, open_records
from streamer.cli.status_line import StatusLine
from streamer.publish.publisher import Outgoing, ThreadedPublisher
from streamer.schemas.decode import Reason, decode
from streamer.settings import Settings
from streamer.text import counted

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
