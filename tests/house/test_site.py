"""The site of `make docs`: every page, as GitHub shows it, and a reference whose examples run."""

from __future__ import annotations

import doctest
import json
import re
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote

import pytest
from markdown_it import MarkdownIt
from playwright.sync_api import expect

import streamer.client
from tests.house.repository import ROOT, pyproject, ran, tracked_files
from tests.web.browsing import a_browser

FIRST = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
OWN = "docs/site/reference.md"
NAMES = [str(path.relative_to(ROOT)) for path in tracked_files() if path.suffix == ".md"]
PAGES = [name for name in NAMES if name in FIRST or (name.startswith("docs/") and name != OWN)]
REFERENCE = re.findall(r"^::: streamer\.client\.(\w+)$", (ROOT / OWN).read_text("utf-8"), re.MULTILINE)
MADE_OF = ("code", "em", "img", "li", "pre", "strong", "table", "td", "th")
"""Elements whose number shows that a page was understood."""


class Page(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.made_of: Counter[str] = Counter()
        self.code: list[str] = []
        self._in_code = False
        self.anchors, self.links, self.loaded = {""}, set[str](), set[str]()
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        self.made_of[tag] += tag in MADE_OF
        if tag == "code":
            self._in_code = True
            self.code.append("")
        self.anchors |= {name for name in (given.get("id"), given.get("name")) if name}
        if tag == "a" and given.get("href"):
            self.links.add(given["href"] or "")
        elif address := given.get("src") or given.get("href"):
            self.loaded.add(address)

    def handle_endtag(self, tag: str) -> None:
        self._in_code = self._in_code and tag != "code"

    def handle_data(self, data: str) -> None:
        if self._in_code:
            self.code[-1] += data


@cache
def page_of(file: Path) -> Page:
    return Page(file.read_text("utf-8"))


def built(site: Path, name: str) -> Path:
    return site / name.removesuffix(".md").removesuffix("README") / "index.html"


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    handler = partial(SimpleHTTPRequestHandler, directory=folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


# One test, since it builds once: the processes of a run would build into one folder.
@pytest.mark.peer
@pytest.mark.browser
def test_the_site_is_whole_and_asks_no_other_host_and_its_search_finds() -> None:
    done = ran("make", "docs", f"PYTHON={sys.executable}", seconds=240)
    assert done.stderr == "", "a warning"
    site = ROOT / "build" / "site" / pyproject()["project"]["version"]
    links_lead_somewhere(site)
    all_is_loaded_from_the_site(site)
    for name in PAGES:
        as_github_shows_it(site, name)
    search_and_versions_work(site)


def links_lead_somewhere(site: Path) -> None:
    """Every page is reached from the first one, and every link and anchor on the way leads somewhere."""
    waiting, seen, lost = [site / "index.html"], {site / "index.html"}, []
    while waiting:
        file = waiting.pop()
        for link in page_of(file).links | page_of(file).loaded:
            if re.match(r"\w+:", link):
                continue
            path, _, anchor = unquote(link).partition("#")
            to = (file.parent / path).resolve() if path else file
            to = to / "index.html" if to.is_dir() else to
            if not to.exists() or (to.suffix == ".html" and anchor not in page_of(to).anchors):
                lost.append(f"{file.relative_to(site)}: {link}")
            elif to.suffix == ".html" and to not in seen:
                seen.add(to)
                waiting.append(to)
    assert lost == []
    assert {built(site, name) for name in PAGES} <= seen


def all_is_loaded_from_the_site(site: Path) -> None:
    loaded = [one for file in site.rglob("*.html") for one in page_of(file).loaded]
    styles = "".join(file.read_text("utf-8") for file in site.rglob("*.css"))
    loaded += re.findall(r"(?:@import|url\()\s*['\"]?([^'\")]*)", styles)
    assert [one for one in loaded if re.match(r"(?!data:)(?:\w+:|//)", one)] == []


def as_github_shows_it(site: Path, name: str) -> None:
    """The lists, tables and code of a page are those that CommonMark reads in it."""
    text = re.sub(r"\A---\n.*?\n---\n", "", (ROOT / name).read_text("utf-8"), flags=re.DOTALL)
    expected = Page(MarkdownIt("gfm-like", {"linkify": False}).render(text))
    article = re.search(r"<article.*?>(.*)</article>", built(site, name).read_text("utf-8"), re.DOTALL)
    assert article, name
    shown = Page(article[1])
    assert shown.made_of == expected.made_of, name
    assert [one.split() for one in shown.code] == [one.split() for one in expected.code], name


def search_and_versions_work(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text("utf-8"))
    found = {site / entry["location"].partition("#")[0] / "index.html" for entry in index["docs"]}
    assert {built(site, name) for name in PAGES} | {site / "reference" / "index.html"} <= found
    asked: list[str] = []
    with serving(site.parent) as address, a_browser() as browser:
        page = browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)
        expect(page.locator(".md-version__current")).to_have_text(site.name)
        # Key by key: the page reads the field on a key only, and once when its index is ready.
        page.locator(".md-search__input").press_sequentially("hash_shuffled")
        page.locator(".md-search-result__link", has_text="Publish from a harness").first.click()
        expect(page).to_have_url(re.compile(r"/docs/python-client/.*#publish-from-a-harness$"))
        assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []


def test_the_reference_has_every_public_name_once() -> None:
    assert sorted(REFERENCE) == sorted(streamer.client.__all__)


def test_every_example_of_the_reference_runs() -> None:
    options = pyproject()["tool"]["pytest"]["ini_options"]
    assert "--doctest-modules" in options["addopts"]
    assert "streamer" in options["testpaths"]
    homes = {getattr(streamer.client, name).__module__ for name in REFERENCE} | {"streamer.client.queries"}
    assert not [home for home in homes if f"--ignore={home.replace('.', '/')}.py" in options["addopts"]]
    tests = [test for home in homes for test in doctest.DocTestFinder().find(import_module(home))]
    examples = [(test.name, example) for test in tests for example in test.examples]
    assert examples
    assert [name for name, example in examples if example.options.get(doctest.SKIP)] == []
