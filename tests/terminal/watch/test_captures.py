"""The screens in the documents come from a command."""

from __future__ import annotations

from tests.house.repository import ROOT
from tests.terminal.watch.captures import DOCUMENT, SIZES, VIEWS, put


def test_a_screen_replaces_the_one_that_stood_in_its_block() -> None:
    before = "A\n<!-- screen: run-80x24 -->\n```text\nold\n```\n```text\nother\n```\n"
    after = put(before, {"run-80x24": "new \\1\n", "elsewhere": "x"})
    assert after == before.replace("old", "new \\1")


def test_the_document_shows_screens_that_the_command_made() -> None:
    text = DOCUMENT.read_text("utf-8")
    for view in VIEWS:
        for size in SIZES:
            screen = (ROOT / "docs" / "screenshots" / f"watch-{view}-{size}.txt").read_text("utf-8")
            assert "q Quit" in screen
            assert (f"<!-- screen: {view}-{size} -->\n```text\n{screen}```\n" in text) == (size == "80x24")
