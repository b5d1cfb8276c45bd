"""The writing rules that a machine can check: how long sentences are, and which turns they avoid.

Only words that people read as sentences count. Code, tables, headings and the targets of links are left out.
`python -m tests.house.language [FILE...]` prints what breaks a rule. `--write` records what is left in
language_allowed.toml; that file may only shrink.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

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
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                markdown = _docstring_as_markdown(inspect.cleandoc(text))
                for number, sentence in enumerate(sentences_of_markdown(markdown, path, node.lineno)):
                    yield replace(sentence, is_summary=number == 0)


def pages() -> list[Path]:
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


MAX_WORDS = 30
"""Words of one sentence at most."""

MAX_MEAN = 18.0
"""Words of the sentences of one page on average, at most."""

ALLOWED = ROOT / "tests" / "house" / "language_allowed.toml"
"""How many sentences of a file still break a rule."""


@dataclass(frozen=True)
class Turn:
    """A turn that readers stumble over; its pattern finds it in `example`, and passes over `fine`."""

    name: str
    pattern: str
    instead: str
    example: str
    fine: str


_VERB = r"(?:is|are|was|were|has|have|had|can|may|must|will|would|does|do)"
TURNS = (
    Turn("anew", r"\b[Aa]new\b", "again", "It writes them anew.", "It writes them again."),
    Turn("be it", r"\bbe it\b", "even if", "It decides, be it only by its time.", "It must be its own."),
    Turn("whoever", r"\b[Ww]ho(?:so)?m?ever\b", "the noun: a client, a user, a process",
         "Whoever reaches the port may read.", "A client that reaches the port may read."),
    Turn("that which", r"\b(?:that|those) which\b", "the noun", "It is that which limits it.",
         "This limit, which is fixed, applies."),
    Turn("that of, those of", r"\b(?:[Tt]hat|[Tt]hose) of\b",
         "repeat the noun, or use a possessive: the worker's", "The grade is that of its mean.",
         "It says that, of all runs, two differ."),
    Turn("nobody", r"\b[Nn]obody\b", "say what is missing, or who acts: no client, without a reader",
         "It is kept where nobody reads.", "It is kept where no client reads."),
    Turn("none as a subject", rf"\bnone(?: of \w+)? {_VERB}\b|^None of\b",
         "no + noun, or a sentence that says what holds", "The page, or null while none is known.",
         "None if the run is unknown."),
    Turn("is none", r"(?<![Tt]here )\b(?:is|are|was|were) none\b",
         "is not one; better the noun: an invalid event", "An event that is none is put aside.",
         "If there is none, it is made."),
    Turn("had better", r"\b(?:had|has) better\b", "should", "A caller had better wait.",
         "The run had two results."),
    Turn("as of any", r"\b[Aa]s of any\b", "the same as for other values", "The mean, as of any values.",
         "As in any other run."),
    Turn("a pronoun as a whole clause", r"^(?:Those|They|These|It|That)[:,]", "the noun and a verb",
         "They, as a list.", "They stand in a list."),
    Turn("what is ... of", r"\b[Ww]hat (?:is|was|are|were|has|have) (?:\w+ )?of\b",
         "the noun: the files, the summaries of the run", "What is read of the run is shown.",
         "The files of the run are shown."),
    Turn("but for", r"\bbut for\b", "except", "All are sent, but for the last.",
         "All are sent, except the last."),
    Turn("for ever", r"\bfor ever\b(?! (?:event|run|message|record|value|model))",
         "always, or: without a limit", "It waits for ever.", "It waits until the broker answers."),
    Turn("told", r"\b[Tt]old\b(?! apart|:)", "reported, shown, sent, called with",
         "What changed is told once.", "Two runs of one name are told apart by their folders."),
    Turn("three clauses with semicolons", r";.*;", "two or three sentences, or a list",
         "One is read; two are kept; three are lost.", "One is read; two are kept."),
)  # fmt: skip
"""Each with what to write instead, an example, and a sentence that is fine."""

SUMMARY_OPENS = re.compile(r"^(?:They|It|Those|Of|Whose)\b")
"""Words without a noun of their own: a docstring that opens so needs its surroundings to be understood."""


@dataclass(frozen=True)
class Offence:
    """A sentence that breaks a rule; printed as a line that says what to do."""

    sentence: Sentence
    rule: str
    instead: str

    def __str__(self) -> str:
        where = f"{self.sentence.path}:{self.sentence.line}"
        return f"{where}: {self.rule}. Write: {self.instead}.\n    {self.sentence.text}"


def offences(sentences: Iterable[Sentence]) -> Iterator[Offence]:
    for sentence in sentences:
        if sentence.words > MAX_WORDS:
            rule = f"{sentence.words} words in one sentence, {MAX_WORDS} are allowed"
            yield Offence(sentence, rule, "one idea a sentence, or a list")
        if sentence.is_summary and SUMMARY_OPENS.search(sentence.text):
            instead = "a noun that a reader of this line alone understands"
            yield Offence(sentence, "a docstring that opens without a noun", instead)
        for turn in TURNS:
            if re.search(turn.pattern, sentence.text):
                yield Offence(sentence, f"the turn “{turn.name}”", turn.instead)


def mean_words(sentences: Iterable[Sentence]) -> float:
    return fmean([sentence.words for sentence in sentences if sentence.words] or [0])


def allowed() -> dict[str, int]:
    return dict(tomllib.loads(ALLOWED.read_text("utf-8"))["offences"])


def counted() -> dict[str, int]:
    result = (offences(sentences_of(path)) for path in [*pages(), *modules()])
    return dict(Counter(offence.sentence.path for of_file in result for offence in of_file))


def main(arguments: list[str]) -> None:
    """Print the offences of the files that are named, or of all of them; or record their numbers."""
    if arguments == ["--write"]:
        head = ALLOWED.read_text("utf-8").split("[offences]")[0]
        lines = [f'"{path}" = {number}\n' for path, number in sorted(counted().items())]
        ALLOWED.write_text(head + "[offences]\n" + "".join(lines), encoding="utf-8")
        return
    for path in [Path(name).resolve() for name in arguments] or [*pages(), *modules()]:
        for offence in offences(sentences_of(path)):
            print(offence)


if __name__ == "__main__":
    main(sys.argv[1:])
