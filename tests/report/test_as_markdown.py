"""Markdown becomes tables of the texts, and nothing else."""

from __future__ import annotations

from markdown_it import MarkdownIt

from streamer.report.formats import FORMATS
from streamer.text import visible
from tests.report.reporting import HOSTILE, Elements, folded, hostile_events


def test_markdown_becomes_tables_of_the_texts_and_nothing_else() -> None:
    data = folded(hostile_events())
    rendered = MarkdownIt("js-default", {"html": True, "linkify": False}).render(FORMATS["md"](data).decode())
    page = Elements(rendered.encode())
    assert page.tags <= {"h2", "h3", "p", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "code"}
    assert page.attributes <= {"style"}
    for name in HOSTILE:
        assert visible(f"{name}") in page.cells
    assert rendered.count("<tr>") == 3 + len(data.agents) + len(data.tiers) + 1 + len(HOSTILE)


def test_nothing_in_markdown_is_a_link_or_a_mention() -> None:
    text = FORMATS["md"](folded(hostile_events())).decode()
    for token in ("://", "www.", "](", " @", "<script", "#1"):
        assert token not in text.replace("&#", "")
