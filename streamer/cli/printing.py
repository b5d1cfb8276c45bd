r"""Printing what agents and harnesses wrote, without letting it act on the terminal.

>>> visible("\x1b[31mred\u202e")
'\\x1b[31mred\\u202e'
"""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console

UNSEEN = "–"
"""Stands for a value that is unknown."""

_INFINITE = {"Infinity": "inf", "-Infinity": "-inf"}

WIDTH_OF_FILES = 1000
"""Columns where the output is no terminal: nothing is cut or wrapped there."""

_ACTING = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Unicode categories that move the cursor, hide or reorder text: control, format, surrogate, separators."""


def visible(value: object) -> str:
    r"""Text with every control character, ANSI escape and bidirectional control made visible.

    >>> visible("tab\there"), visible(None)
    ('tab\\there', '–')
    """
    if value is None:
        return UNSEEN
    text = str(value)
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(c) if unicodedata.category(c) in _ACTING else c for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def say(line: str) -> None:
    """One line of diagnostics, on stderr; hostile text in it is made visible."""
    click.echo(visible(line), err=True)


def print_json(value: bytes) -> None:
    """One JSON object as a line on stdout: byte for byte, but for a terminal without what acts on it."""
    if sys.stdout.isatty():
        value = harmless_json(value)
    click.get_binary_stream("stdout").write(value + b"\n")


def harmless_json(value: bytes) -> bytes:
    r"""The same JSON, with what acts on a terminal as escapes of JSON.

    >>> print(harmless_json('{"id": "abc\u202edef"}'.encode()).decode())
    {"id": "abc\u202edef"}
    """
    text = value.decode("utf-8", "replace")
    if text.isascii():
        return value  # JSON holds no bare control characters but white space
    return "".join(
        json.dumps(c)[1:-1] if unicodedata.category(c) in _ACTING and c not in "\t\r\n" else c for c in text
    ).encode()


def console() -> Console:
    """Console on stdout: no markup, no highlighting; NO_COLOR and COLUMNS respected."""
    from rich.console import Console

    plain = not sys.stdout.isatty()
    width = WIDTH_OF_FILES if plain and not os.environ.get("COLUMNS") else None
    return Console(file=sys.stdout, markup=False, highlight=False, emoji=False, width=width)


def print_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], *, names: int = 1
) -> None:
    """A table on stdout; nothing if there are no rows.

    Args:
        title: stands above it.
        columns: their heads.
        rows: values as they are; unknown ones (None) become a dash.
        names: so many first columns are aligned to the left, the others to the right.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    held = list(rows)
    if not held:
        return
    print_line(title)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for index, column in enumerate(columns):
        table.add_column(Text(column), justify="left" if index < names else "right", overflow="fold")
    for row in held:
        table.add_row(*(Text(shown(value)) for value in row))
    console().print(table)
    print_line()


def print_line(text: str = "") -> None:
    """A plain line on stdout; hostile text in it is made visible."""
    click.echo(visible(text))


def shown(value: object) -> str:
    """A value in a table.

    >>> shown(0.123456), shown(12345), shown("Infinity"), shown(None), shown(True)
    ('0.1235', '12,345', 'inf', '–', 'yes')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1 or abs(value) >= 1e6 else f"{value:,.2f}"
    return _INFINITE.get(value, visible(value)) if isinstance(value, str) else visible(value)


def dollars(value: Any) -> str:
    """An amount in US dollars.

    >>> dollars(0.1234567), dollars("Infinity"), dollars(None)
    ('$0.1235', 'inf', '–')
    """
    return f"${value:,.4f}" if isinstance(value, int | float) else shown(value)


def percent(value: float | None) -> str:
    """A share in percent.

    >>> percent(0.41667), percent(None)
    ('41.7 %', '–')
    """
    return UNSEEN if value is None else f"{value:.1%}".replace("%", " %")
