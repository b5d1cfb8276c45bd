r"""Values as text, on any surface: terminal, report, notice.

Text from agents and harnesses cannot act on the surface that shows it:

>>> visible("\x1b[31mred\u202e")
'\\x1b[31mred\\u202e'
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from decimal import ROUND_HALF_UP, Decimal
from typing import Any
from unicodedata import category, east_asian_width

UNSEEN = "–"
"""Text for an unknown value."""

_TENTH, _MOST_WRITTEN_OUT = Decimal("0.1"), 1e19

_INFINITE = {"Infinity": "inf", "-Infinity": "-inf"}

ACTING = {"Cc", "Cf", "Cs", "Zl", "Zp"}
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
    return "".join(_escaped(c) if unicodedata.category(c) in ACTING else c for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


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


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun, which gets an s unless a `plural` is given.

    >>> counted(0, "trial"), counted(1, "trial"), counted(1200, "planned trial")
    ('0 trials', '1 trial', '1,200 planned trials')
    """
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def dollars(value: Any) -> str:
    """An amount in US dollars.

    >>> dollars(0.1234567), dollars(-0.5), dollars(0.0), dollars(0.00002), dollars("Infinity"), dollars(None)
    ('$0.1235', '-$0.5000', '$0.0000', '$2e-05', 'inf', '–')
    """
    if not isinstance(value, int | float):
        return shown(value)
    size = abs(value)
    return f"{'-' if value < 0 else ''}${f'{size:.2g}' if 0 < size < 0.0001 else f'{size:,.4f}'}"


def cents(usd: float) -> str:
    """A forecast in US dollars, to the cent; below a cent as `dollars`.

    >>> cents(1234.567), cents(0.0042), cents(0.0)
    ('$1,234.57', '$0.0042', '$0.00')
    """
    return dollars(usd) if 0 < usd < 0.01 else f"${usd:,.2f}"


def estimated(part: Any, cost: Any, write: Callable[[Any], str] = dollars) -> str:
    """The part of a cost that is tokens x price instead of reported (R2); "" if there is none.

    >>> estimated(1.25, 10.5), estimated(2.5, 2.5), estimated(0.0, 2.5), estimated(None, None)
    ('$1.2500 of it estimated', 'estimated', '', '')
    """
    return "" if not part else "estimated" if part == cost else f"{write(part)} of it estimated"


def percent(value: float | None) -> str:
    """A share in percent, halves rounded up as on the page. Only the whole is 100 %, and only 0 is 0 %.

    >>> percent(0.41667), percent(1.0), percent(10_079 / 10_080), percent(0.0), percent(1 / 10_080)
    ('41.7 %', '100.0 %', '>99.9 %', '0.0 %', '<0.1 %')
    >>> percent(77 / 400), percent(-77 / 400), percent(1.9e30), percent(float("inf")), percent(None)
    ('19.3 %', '-19.3 %', '1.9e+32 %', 'inf %', '–')
    >>> percent(-10_079 / 10_080), percent(-0.0), percent(-1 / 10_080)
    ('<-99.9 %', '0.0 %', '>-0.1 %')
    """
    if value is None:
        return UNSEEN
    size, minus = abs(value), "-" if value < 0 else ""
    if 0.9995 <= size < 1:
        return f"{'<' if minus else '>'}{minus}99.9 %"
    if 0 < size < 0.0005:
        return f"{'>' if minus else '<'}{minus}0.1 %"
    if not size < _MOST_WRITTEN_OUT:
        return f"{100 * value:g} %"
    return f"{minus}{Decimal(100 * size).quantize(_TENTH, ROUND_HALF_UP)} %"


def points(difference: float | None, digits: int = 1) -> str:
    """A difference of two shares, in percentage points with its sign; it is 0 only for equal shares.

    >>> points(0.0333), points(-0.5), points(0.0), points(-0.0), points(None)
    ('+3.3 points', '-50.0 points', '+0.0 points', '+0.0 points', '–')
    >>> points(1 / 10_080), points(-1 / 10_080), points(-1 / 10_080, 2), points(0.0125)
    ('<+0.1 points', '>-0.1 points', '-0.01 points', '+1.3 points')
    """
    if difference is None:
        return UNSEEN
    least, size = Decimal(1).scaleb(-digits), Decimal(100 * abs(difference))
    rounded, sign = size.quantize(least, ROUND_HALF_UP), "-" if difference < 0 else "+"
    if size and not rounded:
        return f"{'>' if sign == '-' else '<'}{sign}{least} points"
    return f"{sign}{rounded} points"


def ends_in_points(low: float, high: float) -> str:
    """Both ends of a range of differences in percentage points, whose unit is written beside it.

    >>> ends_in_points(-0.0125, 0.5), ends_in_points(-0.0001, 0.0)
    ('[-1.3, 50.0]', '[0.0, 0.0]')
    """
    first, second = (Decimal(100 * end).quantize(_TENTH, ROUND_HALF_UP) + 0 for end in (low, high))
    return f"[{first}, {second}]"


def ratio(value: object) -> str:
    """A speedup or an advantage, to four decimals.

    >>> ratio(1.0), ratio("Infinity"), ratio(None)
    ('1.0000', 'inf', '–')
    """
    return f"{value:.4f}" if isinstance(value, int | float) and abs(value) < 1e6 else shown(value)


# -----------------------------------------------------------------------------
# The width of text in terminal columns; text cut, filled and folded to columns. Pure.
#
# Text must have been made visible (`streamer.text`), so that it cannot act on a terminal.
#
# The widths come from Python's own Unicode data. Characters of East Asia and emoji take two columns. Marks
# join the character before them. Everything else takes one. Terminals differ about signs that turn the
# previous symbol into an emoji. Here such a symbol takes two columns, as in newer terminals.


_AS_EMOJI = "\ufe0f"

_SKIN_TONES = "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"

_WORD = re.compile(r"\s*\S+|\s+$")


def text_width(text: str) -> int:
    r"""The number of columns that a text takes.

    >>> text_width("abc"), text_width("日本"), text_width("e\u0301"), text_width("\u26a0\ufe0f")
    (3, 4, 1, 2)
    """
    return len(text) if text.isascii() else sum(columns for _, columns in _pieces(text))


def clipped(text: str, width: int) -> str:
    """Text cut in the middle, where names differ least.

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
    """Text of exactly this width: cut (in the middle, or at the end as `prose`), or filled with spaces.

    >>> padded("12", 5, right=True), padded("ab", 4, right=False), padded("abcdef", 4, right=True, prose=True)
    ('   12', 'ab  ', 'abc…')
    """
    cut = f"{start_of(text, width - 1)}…" if prose and text_width(text) > width else clipped(text, width)
    space = " " * (width - text_width(cut))
    return space + cut if right else cut + space


def start_of(text: str, width: int) -> str:
    """The start of the text, as much as fits.

    >>> start_of("日本語", 5), start_of("abc", 0)
    ('日本', '')
    """
    return text[:width] if text.isascii() else "".join(_fitting(_pieces(text), width))


def folded(text: str, width: int) -> list[str]:
    """Text as lines of at most this width, broken at spaces, and within a word that is wider.

    The width is at least 1. A character of two columns gets its own line even if only one column is free.

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
    texts = []
    for text, columns in pieces:
        width -= columns
        if width < 0:
            break
        texts.append(text)
    return texts
