"""Tables as lines that fit the terminal and lose nothing: long cells are folded. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import zip_longest

from streamer.text_width import folded, padded, text_width

WIDE_GAP, NARROW_GAP = 3, 1
"""Spaces between columns where all of them fit, and where they do not."""

NARROWEST = 2
"""Columns that every character fits into."""


def folded_lines(
    heads: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[int], width: int
) -> Iterator[str]:
    """The heads, a line, and the rows; a row takes as many lines as its longest cell.

    Args:
        heads: of the columns; each may have several lines.
        rows: texts that are safe to print, as many in each as there are heads.
        left: which columns, from 0, are aligned to the left; the others are to the right.
        width: of the terminal, in columns.

    >>> print("\\n".join(folded_lines(["code", "message"], [["too_large", "It has 12 MB."]], (0, 1), 20)))
    code      message
    ────────────────────
    too_large It has 12
              MB.
    """
    columns = list(zip(heads, *rows, strict=True))
    widest = [max(text_width(line) for text in column for line in text.split("\n")) for column in columns]
    words = [max(text_width(word) for text in column for word in text.split() or [""]) for column in columns]
    gap = WIDE_GAP if sum(widest) + WIDE_GAP * (len(widest) - 1) <= width else NARROW_GAP
    widths = _narrowed(widest, words, width - gap * (len(widest) - 1))

    def lines_of(cells: Iterable[Iterable[str]]) -> Iterator[str]:
        for line in zip_longest(*cells, fillvalue=""):
            parts = (padded(text, widths[at], right=at not in left) for at, text in enumerate(line))
            yield (" " * gap).join(parts).rstrip()

    upside_down = lines_of(reversed(_cell(head, size)) for head, size in zip(heads, widths, strict=True))
    yield from reversed(list(upside_down))  # so all heads end just above the line
    yield "─" * (sum(widths) + gap * (len(widths) - 1))
    for row in rows:
        yield from lines_of(_cell(text, size) for text, size in zip(row, widths, strict=True))


def _cell(text: str, width: int) -> list[str]:
    """The lines of a cell."""
    return [part for line in text.split("\n") for part in folded(line, width)]


def _narrowed(widest: Sequence[int], words: Sequence[int], room: int) -> list[int]:
    """The widths of columns that together have so much room: a column gives before a word must be broken.

    >>> _narrowed([40, 10, 30], [8, 10, 20], 50), _narrowed([40, 10], [40, 10], 30)
    ([20, 10, 20], [20, 10])
    >>> _narrowed([9, 9], [9, 9], 1)
    [2, 2]
    """
    widths = list(widest)
    while sum(widths) > room:
        at = max(range(len(widths)), key=lambda one: (widths[one] > words[one], widths[one]))
        if widths[at] <= NARROWEST:
            break
        widths[at] -= 1
    return widths
