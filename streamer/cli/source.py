"""The records of a file or of stdin: NDJSON, plain or gzip, whatever it is called."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import IO, cast

import click
import orjson

from streamer.cli.printing import say
from streamer.records import Record, Rejected, records_of_lines
from streamer.schemas.limits import MAX_RECORD_BYTES

MAX_LINE_BYTES = 64 * 1024 * 1024
"""A file with a longer line holds no events, of which each has 1 MiB at most; so much is held at once."""

_GZIP = b"\x1f\x8b"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")

file_argument = click.argument(
    "file", default="-", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
)
"""Gives the command `file: Path`; `-`, the default, is stdin."""

from_option = click.option(
    "--from",
    "events",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    help="Fold the events of FILE, in place of asking any server; - is stdin.",
)
"""Gives the command `events: Path | None`."""


@contextmanager
def open_records(file: Path) -> Iterator[Iterator[Record]]:
    """The records of a file, see `records_of_lines`, read as they are asked for; `-` is stdin.

    Raises:
        click.UsageError: the file is UTF-16.
        click.ClickException: it is gzip and damaged, or has a line of more than 64 MiB.
    """
    if str(file) == "-" and sys.stdin.isatty():
        say("reading events from the terminal, one JSON object per line; Ctrl-D ends them")
    opened = click.open_file(str(file), "rb")
    # A buffer around a buffered pipe would wait until it is full: lines are wanted as they come.
    peekable = hasattr(opened, "peek")
    with cast("BufferedReader", opened) if peekable else BufferedReader(cast("RawIOBase", opened)) as stream:
        start = stream.peek(2)[:2]
        if start in _UTF_16:
            raise click.UsageError(
                f"{file} is UTF-16; events are UTF-8 (in PowerShell: Out-File -Encoding utf8)"
            )
        lines = _unpacked(file, stream) if start == _GZIP else _lines(file, stream)
        yield records_of_lines(lines, str(file))


def report_rejected(rejected: Rejected) -> None:
    """Say on stderr which line could not be folded, and why."""
    rejection = orjson.loads(rejected.value)
    say(f"line {rejection['source_offset'] + 1}: {rejection['code']}: {rejection['message']}")


def _unpacked(file: Path, stream: IO[bytes]) -> Iterator[bytes]:
    try:
        with gzip.GzipFile(fileobj=stream) as unpacked:
            yield from _lines(file, unpacked)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise click.ClickException(f"{file} is damaged gzip: {error}") from error


def _lines(file: Path, stream: IO[bytes] | gzip.GzipFile) -> Iterator[bytes]:
    """The lines. No line is read beyond its limit, since a gzip file may unpack to any size."""
    number = 0
    while line := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            raise click.ClickException(
                f"{file}: line {number} has more than {MAX_LINE_BYTES:,} bytes; events are lines of at most "
                f"{MAX_RECORD_BYTES:,}. Nothing from there on was read."
            )
        yield line
