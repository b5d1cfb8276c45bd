"""Boards as lines that fit the terminal: columns are dropped, names shortened, no word is broken. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter

import click

from streamer.cli.folded_lines import NARROW_GAP, WIDE_GAP
from streamer.cli.printing import WIDE_OPTION, WIDTH_OF_FILES, print_line, width_of_output
from streamer.text import UNSEEN, visible
from streamer.text_width import folded, padded, text_width
from streamer.views.columns import Column
from streamer.views.tables import Table
from streamer.watch.columns import BoardColumn, fit


def board_lines(table: Table, width: int) -> Iterator[str]:
    """The head, a line, and the rows.

    Args:
        table: with at least one row.
        width: of the terminal, in columns.

    >>> name, cost = Column("a", "agent", "name", (), least=6), Column("c", "cost", "dollars", (), rank=1)
    >>> few = Table("Agents", [name, cost], [["a-long-name", "$1.00"], ["b", "$12.00"]])
    >>> print("\\n".join(board_lines(few, 20)))
    agent           cost
    ────────────────────
    a-long-name    $1.00
    b             $12.00
    >>> print("\\n".join(board_lines(few, 15)))
    agent      cost
    ───────────────
    a-…-name  $1.00
    b        $12.00
    >>> print("\\n".join(board_lines(few, 12)))
    agent
    ───────────
    a-long-name
    b
    >>> left_out(few, 12)
    'No room for: cost. --wide, or --json, has all.'
    """
    gap, kept, space = _fitted(table, width)
    yield space.join(padded(c.head, size, right=not c.left) for c, size in kept).rstrip()
    yield "─" * (sum(size for _, size in kept) + gap * (len(kept) - 1))
    for row in table.rows:
        yield space.join(padded(c.text(row), size, right=not c.left) for c, size in kept).rstrip()


def lists_below(table: Table) -> Table:
    """The same with its lists of names as lines below it: in a column a list takes the room of all others.

    >>> side, which = Column("a", "only in", "state", ()), Column("b", "which", "list", ())
    >>> below = lists_below(Table("Tasks", [side, which], [["A", "t1, t2"], ["B", "t3"]]))
    >>> below.heads, below.rows, below.note
    (['only in'], [['A'], ['B']], 'A: t1, t2\\nB: t3')
    """
    kept = [at for at, column in enumerate(table.columns) if column.format != "list"]
    lists = [at for at, column in enumerate(table.columns) if column.format == "list"]
    words = [at for at in kept if table.columns[at].left]
    lines = [
        f"{', '.join(row[at] for at in words if row[at] != UNSEEN)}: {row[listed]}"
        for row in table.rows
        for listed in lists
    ]
    return table._replace(
        columns=[table.columns[at] for at in kept],
        rows=[[row[at] for at in kept] for row in table.rows],
        note="\n".join([*lines, *table.note.splitlines()]),
    )


def left_out(table: Table, width: int) -> str:
    """Which columns have no room, in a sentence; "" where all have."""
    _, kept, _ = _fitted(table, width)
    shown = {column.key for column, _ in kept}
    missing = [column.title for at, column in enumerate(table.columns) if str(at) not in shown]
    return f"No room for: {', '.join(missing)}. --wide, or --json, has all." if missing else ""


def _fitted(table: Table, width: int) -> tuple[int, list[tuple[BoardColumn[Sequence[str]], int]], str]:
    """The gap, the columns that fit with their widths, and the space between two."""
    columns = [_column(at, column) for at, column in enumerate(table.columns)]
    widest = {c.key: max(map(text_width, [c.head, *map(c.text, table.rows)])) for c in columns}
    room_for_all = sum(widest.values()) + WIDE_GAP * (len(columns) - 1) <= width
    gap = WIDE_GAP if room_for_all else NARROW_GAP
    fitted = fit(columns, widest, width, gap=gap)
    kept = [(columns[int(one.key)], one.width) for one in fitted]
    return gap, kept, " " * gap


def _column(at: int, column: Column) -> BoardColumn[Sequence[str]]:
    return BoardColumn(
        str(at), column.title, itemgetter(at), column.rank if at else 0, least=column.least, left=column.left
    )


def print_board(*tables: Table, empty: str = "") -> None:
    """Tables of summaries on stdout, as wide as the terminal at most; with --wide as wide as they are.

    Args:
        tables: those without rows are left out.
        empty: a line if no table has rows; "": none.
    """
    context = click.get_current_context(silent=True)
    wide = context is not None and context.meta.get(WIDE_OPTION, False)
    width = WIDTH_OF_FILES if wide else width_of_output()
    for table in map(lists_below, tables):
        if table.rows:
            for line in (table.title, *board_lines(table, width)):
                print_line(line)
            for note in filter(None, (left_out(table, width), *table.note.splitlines())):
                for line in folded(visible(note), width):
                    print_line(line)
            print_line()
    if empty and not any(table.rows for table in tables):
        print_line(empty)
