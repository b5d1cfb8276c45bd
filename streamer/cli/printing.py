"""Printing what agents and harnesses wrote, without letting it act on the terminal."""

from __future__ import annotations

import json
import shutil
import sys
import unicodedata
from collections.abc import Collection, Iterable, Sequence

import click

from streamer.cli.folded_lines import folded_lines
from streamer.text import ACTING, UNSEEN, dollars, percent, shown, visible

__all__ = [
    "UNSEEN",
    "dollars",
    "harmless_json",
    "percent",
    "print_json",
    "print_line",
    "print_table",
    "say",
    "shown",
    "visible",
    "width_of_output",
]

DELETE = "\x7f"

WIDE_OPTION = "streamer.wide"
"""Whether --wide was given, in the context of the command."""

WIDTH_OF_FILES = sys.maxsize
"""Columns where the output is no terminal: nothing is cut or folded there."""

WIDTH_OF_TERMINALS = 80
"""Columns of a terminal that does not say how many it has."""


def say(line: str) -> None:
    """One line of diagnostics, on stderr; hostile text in it is made visible."""
    click.echo(visible(line), err=True)


def print_json(value: bytes) -> None:
    """One JSON object as a line on stdout: byte for byte, but on a terminal with harmless escapes."""
    if sys.stdout.isatty():
        value = harmless_json(value)
    click.get_binary_stream("stdout").write(value + b"\n")


def harmless_json(value: bytes) -> bytes:
    r"""The same JSON, with what acts on a terminal as escapes of JSON.

    >>> print(harmless_json('{"id": "abc\u202edef"}'.encode()).decode())
    {"id": "abc\u202edef"}
    >>> harmless_json(b'{"id": "\x7f"}')
    b'{"id": "\\u007f"}'
    """
    text = value.decode("utf-8", "replace")
    if text.isascii() and DELETE not in text:
        return value  # JSON holds no other bare control characters than white space
    return "".join(
        _escaped(c) if unicodedata.category(c) in ACTING and c not in "\t\r\n" else c for c in text
    ).encode()


def _escaped(character: str) -> str:
    """The escape of JSON for a character, two of them beyond the basic plane; json leaves DEL as it is."""
    return r"\u007f" if character == DELETE else json.dumps(character)[1:-1]


def width_of_output() -> int:
    """Columns of stdout: the number in COLUMNS, else the width of the terminal."""
    unknown = WIDTH_OF_TERMINALS if sys.stdout.isatty() else WIDTH_OF_FILES
    return shutil.get_terminal_size((unknown, 0)).columns


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    left: Collection[int] = (0,),
    note: str = "",
) -> None:
    """A table on stdout; nothing if there are no rows.

    Args:
        title: stands above it.
        columns: their heads, of one line or more.
        rows: values as they are; unknown ones (None) become a dash.
        left: which columns, from 0, are aligned to the left; the others are to the right.
        note: lines below it; "": none.
    """
    texts = [[shown(value) for value in row] for row in rows]
    if not texts:
        return
    print_line(title)
    for line in folded_lines(columns, texts, left, width_of_output()):
        print_line(line)
    for line in note.splitlines():
        print_line(line)
    print_line()


def print_line(text: str = "") -> None:
    """A plain line on stdout; hostile text in it is made visible."""
    click.echo(visible(text))
