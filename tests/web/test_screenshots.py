"""Screenshots of every view, light, dark and on a phone: artefacts of CI, in build/screenshots."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house.repository import ROOT
from tests.web import screenshots
from tests.web.browsing import SCREENSHOTS, WebProcess, a_browser, a_stack

BATCH = 20
"""Events between two looks of the worker: enough steps for a chart, and not minutes of waiting."""

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.browser
@pytest.mark.slow
def test_every_view_can_be_pictured_light_dark_and_on_a_phone(tmp_path: Path) -> None:
    with a_browser() as browser, a_stack(tmp_path) as settings, WebProcess(settings, tmp_path) as web:
        screenshots.feed(settings, BATCH)
        screenshots.feed_sets(settings)
        written = screenshots.take(browser, web.url, ROOT / SCREENSHOTS)
    assert len(written) == 3 * (len(screenshots.VIEWS) + 1)
    for path in written:
        content = path.read_bytes()
        assert content.startswith(PNG)
        assert len(content) > 5_000


def test_the_documents_show_screenshots_that_a_command_makes() -> None:
    shown = (ROOT / "docs" / "web.md").read_text("utf-8")
    for name in screenshots.FOR_DOCS:
        assert (ROOT / "docs" / "screenshots" / f"{name}.png").is_file(), "make screenshots"
        assert f"screenshots/{name}.png" in shown
