"""Every tracked file: what it must not name, and what it may cite."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from tests.house.citations import cited, linked, numbers, pages
from tests.house.repository import ROOT, tracked_files

MACHINE_PATHS = [
    "/" + r"work/",
    "/" + r"root/",
    "/" + r"home/(?!streamer\b)[a-z]+/",
    "/" + r"tmp/[a-z]",
    "/" + r"Users/[a-z]+/",
]
"""In two pieces, like the hosts, so that this file too is free of what it forbids."""

REGISTRY_HOSTS = [
    r"pypi\." + "org",
    r"pythonhosted\." + "org",
    r"registry\.npmjs\." + "org",
    r"crates\." + "io",
    r"proxy\.golang\." + "org",
    r"repo1?\.maven\.(apache\.)?" + "org",
    r"deb(ian)?\.debian\." + "org",
    r"(?<![\w.])index" + "-url",
]
FORBIDDEN = re.compile("|".join(MACHINE_PATHS + REGISTRY_HOSTS))


def test_no_tracked_file_names_a_path_of_one_machine_or_a_registry_host() -> None:
    result, files = [], tracked_files()
    assert len(files) > 20
    for path in files:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # compressed: no prose
        for number, line in enumerate(text.splitlines(), start=1):
            if match := FORBIDDEN.search(line):
                result.append(f"{path.relative_to(ROOT)}:{number}: {match[0]}")
    assert result == []


def test_ci_and_its_helpers_can_be_executed() -> None:
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111


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
