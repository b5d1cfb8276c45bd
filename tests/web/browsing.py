"""Chromium, a whole stack, and the web server as a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, expect, sync_playwright

from streamer.client import StateReader
from streamer.operate.local.processes import free_port
from streamer.schemas.wire import decode
from streamer.settings import Settings
from streamer.storage.outbox import Outgoing, ThreadedPublisher
from tests.operate.stack import running
from tests.support.cli import found_by
from tests.support.events import Event, a_trial
from tests.support.worker_process import wait_for

LOOK_SECONDS = 20
START = datetime.now(UTC) - timedelta(hours=9)
WIDTHS = [pytest.param(width, marks=pytest.mark.in_turn(2)) for width in (360, 1280)]
"""Of a phone and of a desk."""

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
expect.set_options(timeout=1000 * LOOK_SECONDS)


def find_chromium() -> str | None:
    """Path of Chromium: CHROMIUM, or from PATH; None: there is none."""
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


def chromium() -> str:
    """Path of Chromium; without one the test is skipped, loudly."""
    result = find_chromium()
    if not result:
        pytest.skip(
            "SKIPPED LOUDLY: there is no Chromium, so the page was not looked at. Install it "
            "(apt-get install chromium), or name one in CHROMIUM"
        )
    return result


@contextmanager
def a_browser() -> Iterator[Browser]:
    """A headless Chromium with a profile of its own."""
    path = chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()


@contextmanager
def a_stack(directory: Path, **settings: Any) -> Iterator[Settings]:
    """A running stack with a real worker."""
    with running(directory, ephemeral=True, worker=[], partitions=4, **settings) as stack:
        result = stack.addresses
        yield Settings(
            bootstrap=result["bootstrap"], redis=result["redis"], partitions=4, embedded=True, **settings
        )


class WebProcess:
    """`python -m streamer.web` on a port that stays the same over restarts; `settings` are the stack's."""

    def __init__(self, settings: Settings, directory: Path) -> None:
        self.port = free_port()
        self.settings = settings
        self.log = directory / "web.log"
        clean = {name: value for name, value in os.environ.items() if not name.startswith("STREAMER_")}
        self._environment = clean | found_by(settings)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "start() first"
        return self._process.pid

    def start(self) -> None:
        with self.log.open("ab") as log:
            command = [sys.executable, "-m", "streamer.web", str(self.port)]
            self._process = subprocess.Popen(command, env=self._environment, stdout=log, stderr=log)
        wait_for(self._answers, "the web server answers")

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(20)

    def resident_bytes(self) -> int:
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/api/health", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


def publish(settings: Settings, events: Iterable[bytes | Event]) -> None:
    """Publish events, or lines, and wait until Redis has their runs: a page that comes next finds them."""
    lines = [event if isinstance(event, bytes) else json.dumps(event).encode() for event in events]
    records = [Outgoing.of(decode(line), line) for line in lines]
    with ThreadedPublisher(settings) as publisher:
        for record in records:
            publisher.send(record)
        publisher.flush()
    runs = {record.key.decode() for record in records if record.key}
    with StateReader(settings) as reader:
        wait_for(lambda: runs <= {run.run_id for run in reader.runs()}, f"{runs} are in Redis")


def counted(settings: Settings, done: int, *runs: str) -> None:
    """Wait until each run has so many results."""
    with StateReader(settings) as reader:
        for run in runs:
            reader.wait_for(run, lambda result: result.progress.done >= done, timeout_seconds=120)


def live(page: Page) -> None:
    """Wait until the page follows its stream."""
    expect(page.locator("#live")).to_have_attribute("data-state", "live")


def opened(page: Page, web: WebProcess, fragment: str) -> None:
    """Open a view as somebody who comes for the first time, and wait until it follows its stream."""
    page.goto("about:blank")
    page.goto(f"{web.url}/{fragment}")
    live(page)


@contextmanager
def watched(page: Page) -> Iterator[list[str]]:
    """What the page's console says meanwhile, with the address; errors of scripts and policy included."""
    said: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type == "error":
            said.append(f"{message.text} {message.location.get('url', '')}".rstrip())

    page.on("console", note)
    page.on("pageerror", lambda error: said.append(str(error)))
    yield said


@contextmanager
def a_page(browser: Browser, *tolerated: str, **context: Any) -> Iterator[Page]:
    """A page in a context of its own; errors in its console without tolerated words fail the test."""
    opened = browser.new_context(**context)
    page = opened.new_page()
    with watched(page) as said:
        yield page
    opened.close()
    wrong = [line for line in said if not any(words in line for words in tolerated)]
    assert not wrong, wrong


def a_copier(browser: Browser) -> AbstractContextManager[Page]:
    """A page that may write to the clipboard, which `copied` reads."""
    return a_page(browser, permissions=["clipboard-read", "clipboard-write"])


def copied(page: Page) -> str:
    return str(page.evaluate("() => navigator.clipboard.readText()"))


def fits(page: Page) -> bool:
    return bool(page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth"))


def agents_of(page: Page) -> Locator:
    return page.get_by_role("region", name="Agents of this run")


def field(page: Page, title: str) -> Locator:
    """The list to select from that stands under a title."""
    return page.locator("label.field").filter(has=page.get_by_text(title, exact=True)).locator("select")


def trials(run: str, first: int, last: int, **fields: object) -> list[bytes]:
    """Events of trials, one a minute."""
    result = []
    for number in range(first, last):
        at = (START + timedelta(minutes=number)).isoformat()
        event = a_trial(run_id=run, task_id=f"task-{number}", finished_at=at, cost_usd=0.5, **fields)
        result.append(json.dumps(event).encode())
    return result
