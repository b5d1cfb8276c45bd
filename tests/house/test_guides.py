"""The guides for harness authors, viewers and operators: their commands work, their tables are the code."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from streamer.settings import Settings
from tests.house.guides import PARTS, with_part
from tests.house.language import pages
from tests.house.repository import ROOT
from tests.house.test_readme import BLOCK, README, Newcomer
from tests.support.worker_process import wait_for

DOCS = ROOT / "docs"
GUIDES = ("harness-author.md", "viewer.md", "operator.md")
OFFLINE = ("bundle.md", "decide.md")
"""Pages whose commands need no server."""
PAGES = [*GUIDES, *OFFLINE, "concepts.md", "report.md", "notices.md", "http.md", "architecture.md"]
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#]*)(?:#([^)]+))?\)")


def headings(file: Path) -> set[str]:
    lines = re.findall(r"^#+ (.+)$", file.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in lines}


@pytest.mark.parametrize("document", PARTS, ids=lambda document: document.name)
def test_the_generated_tables_are_the_code(document: Path) -> None:
    text = document.read_text("utf-8")
    assert with_part(document, text) == text, "run: python -m tests.house.guides"
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []


def test_the_page_for_operators_has_every_code_of_a_rejection() -> None:
    code = "\n".join(path.read_text("utf-8") for path in (ROOT / "streamer").rglob("*.py"))
    kinds = re.search(r"\n_CODES = {(.*?)}", code, re.DOTALL)
    assert kinds is not None
    named = re.findall(r'Reason\(\s*"(\w+)"', code) + re.findall(r': "(\w+)"', kinds[1])
    page = (DOCS / "operator.md").read_text("utf-8")
    section = page.partition("\n## Rejections\n")[2].partition("\n## ")[0]
    assert sorted({*named, "invalid_field"} - set(re.findall(r"`(\w+)`", section))) == []


@pytest.mark.parametrize("page", pages(), ids=lambda path: path.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    lost = []
    for target, anchor in LINK.findall(page.read_text("utf-8")):
        file = (page.parent / target).resolve() if target else page
        if not file.exists() or (anchor and anchor not in headings(file)):
            lost.append(f"{target}#{anchor}")
    assert lost == []


@pytest.mark.slow
def test_every_command_of_the_guides_works_in_order(tmp_path: Path) -> None:
    newcomer = Newcomer(tmp_path)
    staying = [newcomer.background("streamer up --no-web")]
    try:
        wait_for(newcomer.announced, "`streamer up` announced itself", 120)
        in_the_container = "env STREAMER_NAMESPACE=old streamer worker"
        staying.insert(0, newcomer.background(in_the_container))
        newcomer.run("until streamer status --namespace old; do sleep 1; done")
        stream = next(commands for mark, commands in BLOCK.findall(README) if not mark)
        printed = newcomer.run(stream)  # a reader comes from there, and its run shares the guide's partition
        for guide in GUIDES:
            for _, commands in BLOCK.findall((DOCS / guide).read_text("utf-8")):
                printed += newcomer.run(commands)
    finally:
        for process in staying:
            process.send_signal(signal.SIGINT)
            process.wait(60)
    assert "guide: equal" in printed
    assert "walk: restored, 62 events; Redis says the same as walk.tar" in newcomer.transcript
    assert "missing_field" in printed
    assert (tmp_path / "guide.html").read_bytes().startswith(b"<!doctype html>")


@pytest.mark.parametrize("page", OFFLINE)
def test_every_command_of_a_page_without_a_server_works_in_order(page: str, tmp_path: Path) -> None:
    newcomer = Newcomer(tmp_path)
    printed = "".join(newcomer.run(block) for _, block in BLOCK.findall((DOCS / page).read_text("utf-8")))
    assert ": equal, " in printed


def test_the_pages_are_linked_from_the_readme() -> None:
    assert [guide for guide in PAGES if f"(docs/{guide})" not in README] == []
