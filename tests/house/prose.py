"""The prose of the repository, sentence by sentence: Markdown pages and Python docstrings.

Only words that people read as sentences count. Code, tables, headings and the targets of links are left out.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.house.repository import ROOT, tracked_files

_MARKDOWN = MarkdownIt("commonmark").enable("table")
_ABBREVIATION = re.compile(r"\b(e\.g|i\.e|etc|vs|cf|Dr|No|approx)\.$")
_END = re.compile(r"(?<=[.!?])[)\"”*_]*\s+(?=[\"“(*_\[]*[A-Z0-9ÄÖÜ\x00])")
_CODE = "\x00"
"""Stands for a code span: it can begin a sentence, and is no word."""
_WORD = re.compile(r"[^\W_](?:[\w'’/.,:%+-]*\w)?%?")
_SECTION = re.compile(r"^(Args|Arguments|Attributes|Returns|Raises|Yields|Examples?|Note):$")
_COLUMNS = re.compile(r"\S {2,}\S")
_ITEM = re.compile(r"^ {4}(?! )")


@dataclass(frozen=True)
class Sentence:
    """One sentence, and where its paragraph begins; each code span is `…` and no word."""

    path: str
    line: int
    text: str
    words: int
    is_summary: bool = False


def sentences_of_markdown(text: str, path: str, first_line: int = 1) -> Iterator[Sentence]:
    """Sentences of the paragraphs and list items of a page, in its order.

    >>> [s.text for s in sentences_of_markdown("# No\\n\\nRun `make`. It [works](x).\\n\\n- One item", "")]
    ['Run `…`.', 'It works.', 'One item']
    """
    in_heading = in_table = False
    for token in _MARKDOWN.parse(text):
        in_heading = (in_heading or token.type == "heading_open") and token.type != "heading_close"
        in_table = (in_table or token.type == "table_open") and token.type != "table_close"
        if token.type == "inline" and not in_heading and not in_table and token.map:
            yield from _split(_plain(token.children or []), path, first_line + token.map[0])


def sentences_of_python(source: str, path: str) -> Iterator[Sentence]:
    """Sentences of every docstring of a module, of its classes, functions and constants."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                markdown = _docstring_as_markdown(inspect.cleandoc(text))
                for number, sentence in enumerate(sentences_of_markdown(markdown, path, node.lineno)):
                    yield replace(sentence, is_summary=number == 0)


def pages() -> list[Path]:
    """The Markdown pages of the top folder and of docs/."""
    return [path for path in tracked_files() if path.suffix == ".md" and path.parent in (ROOT, ROOT / "docs")]


def modules() -> list[Path]:
    return [
        path
        for path in tracked_files()
        if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in ("streamer", "benchmarks")
    ]


def sentences_of(path: Path) -> list[Sentence]:
    name, text = path.relative_to(ROOT).as_posix(), path.read_text("utf-8")
    read = sentences_of_python if path.suffix == ".py" else sentences_of_markdown
    return list(read(text, name))


def _plain(tokens: list[Token]) -> str:
    """Text of an inline token's children. A link is its text, a picture is nothing."""
    parts = {"code_inline": lambda _: _CODE, "text": lambda t: t.content, "softbreak": lambda _: " "}
    return "".join(parts[token.type](token) for token in tokens if token.type in parts)


def _split(text: str, path: str, line: int) -> Iterator[Sentence]:
    """The sentences of a paragraph; an abbreviation ends none."""
    begun = ""
    for part in _END.split(text.strip()):
        begun = f"{begun} {part}".strip()
        if not _ABBREVIATION.search(begun):
            yield _sentence(begun, path, line)
            begun = ""
    if begun:
        yield _sentence(begun, path, line)


def _sentence(text: str, path: str, line: int) -> Sentence:
    return Sentence(path, line, text.replace(_CODE, "`…`"), len(_WORD.findall(text)))


def _docstring_as_markdown(text: str) -> str:
    """A docstring without examples and drawings, each entry of a section as a paragraph of its own.

    The number of lines stays the same up to the first entry, so that line numbers are near.
    """
    lines: list[str] = []
    in_example = in_section = False
    for line in text.splitlines():
        in_example = line.strip().startswith(">>>") or (in_example and bool(line.strip()))
        if in_example:
            lines.append("")
            continue
        if _SECTION.match(line):
            in_section = True
            lines.append("")
        elif in_section and _ITEM.match(line):
            lines += ["", line.strip()]
        else:
            in_section = in_section and (not line or line.startswith(" "))
            is_drawing = not in_section and (line.startswith("    ") or _COLUMNS.search(line))
            lines.append("" if is_drawing else line.strip() if in_section else line)
    return "\n".join(lines)
