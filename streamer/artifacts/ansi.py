"""Terminal output as lines of text with attributes: colours and weights stay, all other control goes.

Only SGR sequences (ECMA-48 8.3.117) mean something. Others are dropped, as is what overwrites: a carriage
return begins the line again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import Field

from streamer.schemas.base import Message

MAX_LINES = 5_000
MAX_LINE_CHARACTERS = 4_000
MAX_CODES = 64
"""So many numbers of one SGR sequence count."""

_SEQUENCE = re.compile(
    r"\x1b\[([0-?]*)[ -/]*([@-~])"  # control sequence
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # strings: titles, links; none holds an escape
    r"|\x1b[ -/]*[0-~]?"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)
"""No alternative looks beyond the next escape, so a line takes time in proportion to its length."""


class Span(Message):
    """A piece of a line whose characters look alike."""

    text: str = Field(description="The characters; nothing in them controls a terminal.")
    color: int | None = Field(
        default=None, ge=0, le=15, description="Colour of the text, 0 to 15; null: as usual."
    )
    background: int | None = Field(default=None, ge=0, le=15, description="Colour behind it, likewise.")
    bold: bool = Field(default=False, description="Bold.")
    dim: bool = Field(default=False, description="Faint.")
    italic: bool = Field(default=False, description="Italic.")
    underline: bool = Field(default=False, description="Underlined.")


_Look = Mapping[str, Any]
"""The fields of a :class:`Span` besides its text that differ from their defaults."""

_FLAGS = {1: "bold", 2: "dim", 3: "italic", 4: "underline"}
_ENDS = {22: ("bold", "dim"), 23: ("italic",), 24: ("underline",), 39: ("color",), 49: ("background",)}
_COLOURS = ((30, "color", 0), (90, "color", 8), (40, "background", 0), (100, "background", 8))


def lines_of(text: str) -> tuple[list[list[Span]], int]:
    """The last :data:`MAX_LINES` lines, and how many come before them.

    >>> lines, _ = lines_of("\\x1b[31mred\\x1b[0m plain\\x1b]0;title\\x07\\n50 %\\r100 %")
    >>> [(span.text, span.color) for span in lines[0]], lines[1][0].text
    ([('red', 1), (' plain', None)], '100 %')
    """
    raw = text.replace("\r\n", "\n").split("\n")
    if raw and not raw[-1]:
        raw.pop()
    look: _Look = {}
    lines = []
    for line in raw[-MAX_LINES:]:
        spans, look = _spans(line, look)
        lines.append(spans)
    return lines, max(0, len(raw) - MAX_LINES)


def _spans(line: str, look: _Look) -> tuple[list[Span], _Look]:
    spans: list[tuple[str, _Look]] = []
    for piece, sequence in _pieces(line.rstrip("\r")):
        if sequence is not None:
            look = _after(look, sequence)
        elif "\r" in piece:
            spans = [(piece.rpartition("\r")[2], look)]
        else:
            spans.append((piece, look))
    left, made = MAX_LINE_CHARACTERS, []
    for text, one in spans:
        if text and left > 0:
            made.append(Span(text=text[:left], **one))
            left -= len(text)
    return made, look


def _pieces(line: str) -> Iterator[tuple[str, str | None]]:
    """Pieces of text, and between them the parameters of SGR sequences."""
    at = 0
    for found in _SEQUENCE.finditer(line):
        yield line[at : found.start()], None
        at = found.end()
        if found[2] == "m":
            yield "", found[1]
    yield line[at:], None


def _after(look: _Look, parameters: str) -> _Look:
    given = re.split("[;:]", parameters, maxsplit=MAX_CODES)[:MAX_CODES]
    codes = [int(code) if code.isdigit() and len(code) < 4 else 0 for code in given]
    at = 0
    while at < len(codes):
        code, at = codes[at], at + 1
        if code in (38, 48):
            number, taken = _extended(codes[at : at + 2])
            at += taken
            look = {**look, "color" if code == 38 else "background": number}
        else:
            look = _one(look, code)
    return look


def _extended(codes: list[int]) -> tuple[int | None, int]:
    """A colour of 256, as far as it is one of the 16, and how many codes it takes; others look as usual."""
    if codes[:1] == [5]:
        return (codes[1] if len(codes) > 1 and codes[1] < 16 else None), 2
    return None, 4 if codes[:1] == [2] else 0


def _one(look: _Look, code: int) -> _Look:
    if code == 0:
        return {}
    if code in _FLAGS:
        return {**look, _FLAGS[code]: True}
    if code in _ENDS:
        return {name: value for name, value in look.items() if name not in _ENDS[code]}
    for first, name, add in _COLOURS:
        if first <= code < first + 8:
            return {**look, name: code - first + add}
    return look
