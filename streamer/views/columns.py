"""A column of a board, and a board as a title with columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from streamer.text import UNSEEN

Surface = Literal["page", "terminal", "text"]
"""The page, the screens of `streamer watch`, and the tables of commands and reports."""

LIVE: tuple[Surface, ...] = ("page", "terminal")
EVERYWHERE: tuple[Surface, ...] = ("page", "terminal", "text")

NAMES = frozenset(("agent", "failure", "id", "list", "name", "run", "task", "tier"))
"""Formats of text from outside."""

WORDS = NAMES | {"basis", "grade", "letter", "outcome", "state", "verdict"}
"""Formats aligned to the left; all others are numbers, aligned to the right."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a board.

    Attributes:
        name: its name within the board.
        title: stands above it; the page begins it with a capital.
        format: how a cell is written, one of those in `streamer/views/cells.py`.
        path: fields to follow from the row to the value, which rows are also sorted by.
        beside: the same for a second value that the cell shows; (): it shows one.
        sort: the order that comes first when one sorts by it; None: one cannot sort by it.
        rank: columns of a lower rank stay longer as the terminal gets narrower; 0: the first column.
        least: the terminal cuts the text to no fewer characters than this; 0: never.
        empty: the text of a cell that says nothing; a column of these alone is left out.
        hint: more words about it, for the page; "": none.
        on: the surfaces that show it.
        outside: the title is text from outside: a plan or a harness wrote it.
    """

    name: str
    title: str
    format: str
    path: tuple[str, ...]
    beside: tuple[str, ...] = ()
    sort: Literal["greatest", "least"] | None = None
    rank: int = 14
    least: int = 0
    empty: str = UNSEEN
    hint: str = ""
    on: tuple[Surface, ...] = EVERYWHERE
    outside: bool = False

    @property
    def left(self) -> bool:
        """True for words, which are aligned to the left."""
        return self.format in WORDS

    @property
    def named(self) -> bool:
        """True for text that agents and harnesses wrote: HTML and Markdown mark it as a name."""
        return self.format in NAMES


@dataclass(frozen=True, slots=True)
class Board:
    """One board. A column that no row has a value for is left out, except the first.

    Attributes:
        title: stands above it.
        columns: in their order on every surface.
    """

    title: str
    columns: tuple[Column, ...]

    def shown_on(self, surface: Surface) -> list[Column]:
        """The columns of one surface."""
        return [column for column in self.columns if surface in column.on]


def found(row: Any, path: Sequence[str]) -> Any:
    """The value at the end of a path of fields; None where a field is missing."""
    for step in path:
        row = row.get(step) if isinstance(row, Mapping) else getattr(row, step, None)
    return row


def unsorted(columns: Iterable[Column]) -> tuple[Column, ...]:
    """The same columns, by which one cannot sort."""
    return tuple(replace(column, sort=None) for column in columns)
