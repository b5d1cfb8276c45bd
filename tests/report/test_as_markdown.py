"""Markdown becomes tables of the texts, and nothing else."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from html import unescape
from typing import Any

import pytest
from markdown_it import MarkdownIt

from streamer.text import visible
from streamer.views.tables import EVENT_TIME, EXPLAINED, Document
from streamer.web.report import FORMATS, document_as_markdown
from tests.report.reporting import HOSTILE, HOSTILE_HEADS, Elements, folded, hostile_events
from tests.support.events import a_plan, a_start, a_trial


def test_markdown_becomes_tables_of_the_texts_and_nothing_else() -> None:
    data = folded(hostile_events())
    rendered = MarkdownIt("js-default", {"html": True, "linkify": False}).render(FORMATS["md"](data).decode())
    page = Elements(rendered.encode())
    assert page.tags <= {"h2", "h3", "p", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "code"}
    assert page.attributes <= {"style"}
    for name in HOSTILE:
        assert visible(f"{name}") in page.cells
    heads = [unescape(head) for head in re.findall(r'<th style="text-align:right">(.*?)</th>', rendered)]
    assert {visible(head) for head in HOSTILE_HEADS} <= set(heads)
    assert rendered.count("<tr>") == 3 + len(data.agents) + len(data.tiers) + 1 + len(HOSTILE)


def test_markdown_has_the_interval_what_it_means_and_the_trials_in_flight() -> None:
    tasks = [f"t{n}" for n in range(20)]
    plan = a_plan(tasks=tasks, attempts=1, order=tasks, order_kind="shuffled")
    trials = [a_trial(task_id=task) for task in tasks[:10]]
    starts = [a_start(task_id=task) for task in tasks[10:13]]
    rendered = MarkdownIt("js-default").render(FORMATS["md"](folded([plan, *trials, *starts])).decode())
    page = Elements(rendered.encode())
    assert any(re.fullmatch(r"[\d.]+ % so far \[\d+, \d+\]", cell) for cell in page.cells), page.cells
    assert EXPLAINED["interval"] in page.cells
    assert "10 of 20 planned trials in, 3 in flight, provisional" in rendered


@pytest.mark.parametrize(
    ("plan", "words"),
    [({}, "no plan known"), ({"plan_complete": False}, "plan not complete yet, provisional")],
)
def test_markdown_says_whether_the_plan_is_incomplete_or_there_is_none(
    plan: dict[str, Any], words: str
) -> None:
    rendered = FORMATS["md"](folded([a_plan(tasks=2, **plan), a_trial()])).decode()
    assert f"1 trial in, {words}" in unescape(rendered)


@pytest.mark.parametrize("form", ["md", "html"])
def test_a_report_says_that_its_time_is_event_time(form: str) -> None:
    later = folded([a_trial()])
    ahead = replace(later, read_at=datetime(2020, 1, 1, tzinfo=UTC))
    before, after = (unescape(FORMATS[form](data).decode()) for data in (ahead, later))
    assert f"As of event time {later.run['last_event_at']}" in before
    # the script of a report has the words alone, too
    line = f"- {EVENT_TIME}" if form == "md" else f"<p>{EVENT_TIME}</p>"
    assert line in before
    assert line not in after


def test_nothing_in_markdown_is_a_link_or_a_mention() -> None:
    text = FORMATS["md"](folded(hostile_events())).decode()
    for token in ("://", "www.", "](", " @", "<script", "#1"):
        assert token not in text.replace("&#", "")


def test_nothing_in_decoded_markdown_is_a_mention() -> None:
    name = "x @org/team o/r#1 GH-1"
    found = Document(name, ["a fact"], [name], [], name)
    text = unescape(document_as_markdown(found).decode())
    assert text.count("org/team") == 3
    assert re.search(r"@\w|#\d|GH-\d", text) is None
