"""Tables as lines that fit the terminal and lose nothing: long cells are folded. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
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
        heads: of the columns.
        rows: texts that are safe to print, as many in each as there are heads.
        left: which columns, from 0, are aligned to the left; the others are to the right.
        width: of the terminal, in columns.

    >>> print("\\n".join(folded_lines(["code", "message"], [["too_large", "It has 12 MB."]], (0, 1), 20)))
    code      message
    ────────────────────
    too_large It has 12
              MB.
    """
    texts = [heads, *rows]
    widest = [max(map(text_width, column)) for column in zip(*texts, strict=True)]
    gap = WIDE_GAP if sum(widest) + WIDE_GAP * (len(widest) - 1) <= width else NARROW_GAP
    words = [
        max(text_width(w) for text in column for w in text.split() or [""])
        for column in zip(*texts, strict=True)
    ]
    widths = _narrowed(widest, words, width - gap * (len(widest) - 1))
    for number, row in enumerate(texts):
        cells = [folded(text, columns) for text, columns in zip(row, widths, strict=True)]
        for line in zip_longest(*cells, fillvalue=""):
            parts = (padded(text, widths[at], right=at not in left) for at, text in enumerate(line))
            yield (" " * gap).join(parts).rstrip()
        if number == 0:
            yield "─" * (sum(widths) + gap * (len(widths) - 1))


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
