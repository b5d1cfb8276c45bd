"""The screens look as they did; after a change that is meant: python -m tests.terminal.watch.snapshots."""

from __future__ import annotations

import pytest

from streamer.settings import Settings
from tests.terminal.watch.snapshots import FOLDER, SIZES, VIEWS, fed, picture


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.in_turn(3)
async def test_the_screens_look_as_in_their_snapshots(logged: Settings, size: str) -> None:
    async with fed(logged):
        for view in VIEWS:
            expected = (FOLDER / f"{view}-{size}.txt").read_text("utf-8")
            assert await picture(logged, view, size, expected) == expected
