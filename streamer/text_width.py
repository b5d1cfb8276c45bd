r"""How many columns of a terminal text takes; text cut, filled and folded to columns. Pure.

Text must have been made visible (`streamer.text`): it holds nothing that acts on a terminal.

The widths come from Python's own Unicode data. Characters of East Asia and emoji take two columns. Marks join
the character before them. Everything else takes one. Terminals differ where a sign makes the symbol before it
an emoji. Here such a symbol takes two columns, as newer terminals draw it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from unicodedata import category, east_asian_width

_AS_EMOJI = "\ufe0f"
"""Variation selector 16: the character before it is drawn as an emoji."""

_SKIN_TONES = "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"

_WORD = re.compile(r"\s*\S+|\s+$")
"""A word with the spaces before it; or the spaces at the end."""


def text_width(text: str) -> int:
    r"""How many columns it takes.

    >>> text_width("abc"), text_width("日本"), text_width("e\u0301"), text_width("\u26a0\ufe0f")
    (3, 4, 1, 2)
    """
    return len(text) if text.isascii() else sum(columns for _, columns in _pieces(text))


def clipped(text: str, width: int) -> str:
    """Text cut in its middle, where names differ least.

    >>> clipped("claude-code:anthropic/claude-opus-4-5", 20), clipped("short", 20), clipped("ab", 1)
    ('claude…aude-opus-4-5', 'short', '…')
    """
    if text_width(text) <= width:
        return text
    head = (width - 1) // 3
    pieces = _pieces(text)
    end = _fitting(reversed(pieces), width - 1 - head)
    return f"{''.join(_fitting(pieces, head)).rstrip()}…{''.join(reversed(end)).lstrip()}"


def padded(text: str, width: int, *, right: bool, prose: bool = False) -> str:
    """Text of exactly this width: cut (in its middle, or as prose at its end), or filled with spaces.

    >>> padded("12", 5, right=True), padded("ab", 4, right=False), padded("abcdef", 4, right=True, prose=True)
    ('   12', 'ab  ', 'abc…')
    """
    cut = f"{start_of(text, width - 1)}…" if prose and text_width(text) > width else clipped(text, width)
    space = " " * (width - text_width(cut))
    return space + cut if right else cut + space


def start_of(text: str, width: int) -> str:
    """As much of the text, from its start, as fits.

    >>> start_of("日本語", 5), start_of("abc", 0)
    ('日本', '')
    """
    return text[:width] if text.isascii() else "".join(_fitting(_pieces(text), width))


def folded(text: str, width: int) -> list[str]:
    """Text as lines of at most this width: broken at spaces, and within a word that alone is wider.

    Args:
        text: any.
        width: 1 or more; a character of two columns is a line even where there is one.

    >>> folded("a line of words", 9), folded("abcdefgh i", 3), folded("", 5)
    (['a line of', 'words'], ['abc', 'def', 'gh', 'i'], [''])
    """
    lines, used = [""], 0
    for word in _WORD.findall(text):
        if used + text_width(word) <= width:
            lines[-1] += word
            used += text_width(word)
            continue
        rest = word.lstrip() if lines[-1] else word
        if lines[-1] and rest:
            lines.append("")
            used = 0
        for piece, columns in _pieces(rest):
            if lines[-1] and used + columns > width:
                lines.append("")
                used = 0
            lines[-1] += piece
            used += columns
    return lines


def _pieces(text: str) -> list[tuple[str, int]]:
    """Each character with what joins it, and the columns of both."""
    pieces: list[tuple[str, int]] = []
    for character in text:
        if pieces and _joins(character, pieces[-1][0]):
            before, columns = pieces[-1]
            emoji = character == _AS_EMOJI or character in _SKIN_TONES
            pieces[-1] = before + character, 2 if emoji else columns
        else:
            pieces.append((character, _columns(character)))
    return pieces


def _joins(character: str, before: str) -> bool:
    return not _columns(character) or (character in _SKIN_TONES and category(before[0]) == "So")


def _columns(character: str) -> int:
    if (
        category(character).startswith("M")
        or "\u1160" <= character <= "\u11ff"
        or "\ud7b0" <= character <= "\ud7ff"
    ):
        return 0  # marks; the later parts of a Korean syllable that is written in parts
    return 2 if east_asian_width(character) in "WF" else 1


def _fitting(pieces: Iterable[tuple[str, int]], width: int) -> list[str]:
    """The first characters that together fit."""
    found = []
    for text, columns in pieces:
        width -= columns
        if width < 0:
            break
        found.append(text)
    return found
