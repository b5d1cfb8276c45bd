"""The pictures of docs/decide.md are those that the code draws."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.views.pictures import PICTURES

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_what_the_code_draws_and_stands_in_the_page(name: str) -> None:
    drawn = PICTURES[name]()
    ElementTree.fromstring(drawn)
    committed = (DOCS / "screenshots" / f"{name}.svg").read_text(encoding="utf-8")
    assert drawn == committed, "python -m tests.views.pictures docs/screenshots draws it"
    assert f"](screenshots/{name}.svg)" in (DOCS / "decide.md").read_text(encoding="utf-8")
