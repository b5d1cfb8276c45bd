"""Which columns of a table fit, and how wide they are. Pure.

A column that is not on the screen was less important than those that are; see `BoardColumn.rank`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from streamer.text import UNSEEN

Row = TypeVar("Row")

WIDE = 100
"""From so many columns on, two spaces stand between columns; below, one."""

ESSENTIAL = 6
"""Columns up to this rank make names shorter; columns of a higher rank only get what names leave."""

NAME_WIDTH = 40
"""A longer name does not keep other columns away."""

MARKS = {False: "▲", True: "▼"}
"""Beside the head of the column that rows are sorted by: ascending, descending."""


@dataclass(frozen=True, slots=True)
class BoardColumn(Generic[Row]):
    """One column.

    Attributes:
        key: its name within the table.
        head: stands above it.
        text: of a row, already fit for showing.
        rank: columns of a lower rank stay longer as the terminal gets narrower.
        value: what rows are sorted by; None, or of a row None: not known, sorted last.
        descending: the direction that comes first when one sorts by it.
        least: as narrow as its text may be cut; 0: its text is never cut.
        left: aligned to the left; numbers are not.
        prose: cut at its end, not in its middle as names are.
        style: of the text of a row, a style of rich.
        empty: a text that says nothing; a column of these alone is left out.
    """

    key: str
    head: str
    text: Callable[[Row], str]
    rank: int
    value: Callable[[Row], Any] | None = None
    descending: bool = True
    least: int = 0
    left: bool = False
    prose: bool = False
    style: Callable[[Row], str] | None = None
    empty: str = UNSEEN


@dataclass(frozen=True, slots=True)
class Sort:
    """How a table is sorted."""

    key: str
    descending: bool


@dataclass(frozen=True, slots=True)
class Fitted:
    """A column on the screen: which one, and the width of its text, without the gap before it."""

    key: str
    width: int


def fit(
    columns: Sequence[BoardColumn[Any]],
    widest: Mapping[str, int],
    width: int,
    keep: frozenset[str] = frozenset(),
    gap: int | None = None,
) -> list[Fitted]:
    """The columns that fit, in their order.

    Args:
        columns: all that have something to show.
        widest: key to the width of the widest text in it, its head included.
        width: of the table.
        keep: keys of columns that stay as long as the ones of rank 0.
        gap: spaces between columns; None: as usual in a table of this width.
    """
    gap = gap_of(width) if gap is None else gap
    least = {c.key: min(widest[c.key], c.least) if c.least else widest[c.key] for c in columns}
    chosen: set[str] = set()
    left = width + gap  # the first column has no gap before it
    names = 0  # what the names chosen so far would like to have besides
    for column in sorted(columns, key=lambda c: 0 if c.key in keep else c.rank):
        need = least[column.key] + gap
        room = left - names if column.rank > ESSENTIAL and column.key not in keep else left
        if need <= room or not chosen:
            chosen.add(column.key)
            left -= min(need, left)
            names += max(0, min(widest[column.key], NAME_WIDTH) - least[column.key])
    widths = {key: min(least[key], width) for key in chosen}
    for column in columns:
        if column.key in chosen and column.least:
            more = min(left, widest[column.key] - widths[column.key])
            widths[column.key] += more
            left -= more
    return [Fitted(c.key, widths[c.key]) for c in columns if c.key in chosen]


def gap_of(width: int) -> int:
    """Spaces between columns of a table of this width."""
    return 2 if width >= WIDE else 1


def next_sort(columns: Sequence[BoardColumn[Any]], sort: Sort) -> Sort:
    """The next of the columns that can be sorted by, in its first direction; after the last the first."""
    sortable = [column for column in columns if column.value]
    if not sortable:
        return sort
    keys = [column.key for column in sortable]
    following = sortable[(keys.index(sort.key) + 1) % len(keys) if sort.key in keys else 0]
    return Sort(following.key, following.descending)


def ordered(
    rows: Sequence[Row],
    columns: Sequence[BoardColumn[Row]],
    sort: Sort,
    last: Callable[[Row], bool] | None = None,
) -> list[Row]:
    """Rows in order; those whose value is unknown come last, and after them those that `last` names."""
    value = next((column.value for column in columns if column.key == sort.key), None)
    if value is None:
        return list(rows)
    known = [row for row in rows if value(row) is not None]
    known.sort(key=value, reverse=sort.descending)
    found = known + [row for row in rows if value(row) is None]
    return sorted(found, key=last) if last else found
