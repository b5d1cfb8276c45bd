"""Every ruling or fact that is cited anywhere is explained in docs/semantics.md, and pages link to it."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from tests.house.citations import cited, linked, numbers, pages
from tests.house.repository import ROOT, tracked_files

CITING = (".py", ".md", ".json", ".lua", ".js")
SECTIONS = {"R": 36, "A": 15, "B": 15, "C": 3, "D": 17, "E": 11, "F": 11, "G": 8, "H": 6, "S": 18}
"""Each letter, and its last number. A number is never given away again."""


def test_no_number_is_left_out_or_stands_twice() -> None:
    every = [[f"{letter}{n}" for n in range(1, last + 1)] for letter, last in SECTIONS.items()]
    assert numbers() == list(itertools.chain(*every))


def test_every_cited_number_is_explained() -> None:
    known, lost = set(numbers()), []
    for path in tracked_files():
        if path.suffix in CITING and not {"data", "vendor"} & set(path.parts):
            missing = cited(path.read_text("utf-8")) - known
            lost += [f"{path.relative_to(ROOT)}: {number}" for number in sorted(missing)]
    assert lost == []


@pytest.mark.parametrize("page", pages(), ids=lambda path: path.name)
def test_every_citation_on_a_page_is_a_link(page: Path) -> None:
    text = page.read_text("utf-8")
    assert linked(text, pages()[page]) == text, "run: python -m tests.house.citations"


def test_no_file_names_a_document_that_is_not_here() -> None:
    """Such as the notes from which design.md and semantics.md were written."""
    named = re.compile(r"\bDESIGN\.md|\(STYLE\)|(?<!org/)(?<!git-lfs.github.com/)\bspec/")
    result = [
        path for path in tracked_files() if path.suffix in CITING and named.search(path.read_text("utf-8"))
    ]
    assert [str(path.relative_to(ROOT)) for path in result if path != Path(__file__)] == []
