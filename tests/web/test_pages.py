"""One HTML file from a document: styles and policy inside, text from outside escaped."""

from __future__ import annotations

import re

from streamer.views.columns import Board, Column
from streamer.views.tables import Document, table_of
from streamer.web.pages import hash_of, one_file
from tests.web.report.reporting import HOSTILE, Elements

BOARD = Board("Names", (Column("name", "name", "name", ("name",)), Column("count", "n", "count", ("count",))))


def page(*names: str, title: str = "Title") -> str:
    table = table_of(BOARD, [{"name": name, "count": 1} for name in names])._replace(note="<i>note</i>")
    return one_file(Document(title, names, names, [table], "<b>foot</b>")).decode()


def test_the_policy_allows_the_scripts_and_styles_inside_and_no_others() -> None:
    content = page("a")
    scripts = re.findall(r"<script[^>]*>(.*?)</script>", content, re.DOTALL)
    styles = re.findall(r"<style[^>]*>(.*?)</style>", content, re.DOTALL)
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]+)"', content)
    assert re.findall(r"'sha256-[^']+'", policy) == [*map(hash_of, scripts), *map(hash_of, styles)]
    assert "default-src 'none'" in policy
    assert not re.findall(r'(?:src|href)="', content)


def test_hostile_text_stands_as_text_wherever_it_may_stand() -> None:
    result = Elements(page(*HOSTILE, title=HOSTILE[0]).encode())
    assert "img" not in result.tags
    assert not {one for one in result.attributes if one.startswith("on")}
    for name in HOSTILE:
        assert name.replace("\u202e", "\\u202e").replace("\u202c", "\\u202c") in result.text


def test_a_table_without_rows_is_left_out() -> None:
    assert "<table" in page("a")
    assert "<table" not in page()
