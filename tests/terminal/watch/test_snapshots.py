"""The screens look as they did, and those in the documents come from a command.

After a change that is meant: python -m tests.terminal.watch.snapshots.
"""

from __future__ import annotations

import pytest

from streamer.settings import Settings
from tests.house.repository import ROOT
from tests.terminal.watch import captures
from tests.terminal.watch.snapshots import FOLDER, SIZES, VIEWS, fed, picture


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.in_turn(3)
async def test_the_screens_look_as_in_their_snapshots(logged: Settings, size: str) -> None:
    async with fed(logged):
        for view in VIEWS:
            expected = (FOLDER / f"{view}-{size}.txt").read_text("utf-8")
            assert await picture(logged, view, size, expected) == expected


def test_a_screen_replaces_the_one_that_stood_in_its_block() -> None:
    before = "A\n<!-- screen: run-80x24 -->\n```text\nold\n```\n```text\nother\n```\n"
    after = captures.put(before, {"run-80x24": "new \\1\n", "elsewhere": "x"})
    assert after == before.replace("old", "new \\1")


def test_the_document_shows_screens_that_the_command_made() -> None:
    text = captures.DOCUMENT.read_text("utf-8")
    for view in captures.VIEWS:
        for size in captures.SIZES:
            screen = (ROOT / "docs" / "screenshots" / f"watch-{view}-{size}.txt").read_text("utf-8")
            assert "q Quit" in screen
            assert (f"<!-- screen: {view}-{size} -->\n```text\n{screen}```\n" in text) == (size == "80x24")
