"""Citations of rulings and facts, such as (R14): which numbers exist, and links to them in Markdown.

`python -m tests.house.citations` turns each bare citation on the pages into a link.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.house.repository import ROOT, tracked_files

SEMANTICS = ROOT / "docs" / "semantics.md"
_NUMBER = r"[A-HRS][1-9][0-9]?"
_CITATION = rf"(?<![\w/.#%+-])(?P<number>{_NUMBER})(?![\w/+-]|\.\d)"
_CITED = re.compile(_CITATION)
_IN_PROSE = re.compile(
    rf"```.*?```|`[^`\n]*`|\[[^\]\n]*\]\([^)\n]*\)|^#.*?$|{_CITATION}", re.DOTALL | re.MULTILINE
)
"""Code, links and headings are passed over; what is left has its number in the group `number`."""


def numbers() -> list[str]:
    """The rulings and facts that semantics.md explains, each under a heading of its own, in its order."""
    return re.findall(rf"^### ({_NUMBER})$", SEMANTICS.read_text("utf-8"), re.MULTILINE)


def cited(text: str) -> set[str]:
    """Every number that a text cites.

    >>> sorted(cited("as F10 (R14), E10; not T0, S101, E2E or A.1"))
    ['E10', 'F10', 'R14']
    """
    return set(_CITED.findall(text))


def linked(text: str, page: str = "semantics.md") -> str:
    """Markdown whose citations are links to the page that explains them.

    >>> linked("unknown (R2), see `R2` and [R2](x)")
    'unknown ([R2](semantics.md#r2)), see `R2` and [R2](x)'
    """

    def link(match: re.Match[str]) -> str:
        number = match["number"]
        return match[0] if number is None else f"[{number}]({page}#{number.lower()})"

    return _IN_PROSE.sub(link, text)


def pages() -> dict[Path, str]:
    """Every Markdown page of the repository but semantics.md, and how it names that page."""
    return {
        path: "semantics.md" if path.parent.name == "docs" else "docs/semantics.md"
        for path in tracked_files()
        if path.suffix == ".md" and path.parent in (ROOT, ROOT / "docs") and path != SEMANTICS
    }


if __name__ == "__main__":
    for document, page in pages().items():
        document.write_text(linked(document.read_text("utf-8"), page), encoding="utf-8")
