"""The page on FormulaCode's trials, and on a server that asks for a token."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from streamer.settings import Settings
from tests.support.events import a_trial
from tests.web.browsing import a_browser, live, watched
from tests.web.feeding import Feed
from tests.web.serving import Serving

pytestmark = [pytest.mark.browser, pytest.mark.slow]

TOKEN = "correct-horse-battery"
BENCHMARKS = {f"suite.Class.time_{n}": {"agent/nop": 1.0 + n / 10, "oracle/nop": 1.5} for n in range(5)}
MEASURED = {"benchmarks": BENCHMARKS, "finished_at": "2026-01-02T03:04:05Z"}
FAILING = {"status": "failed", "passed": 90, "failed": 7, "error": 2, "skipped": 1, "total": 100}
PASSING = {"status": "ok", "passed": 100, "failed": 0, "error": 0, "skipped": 0, "total": 100}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with a_browser() as browser:
        yield browser


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context()
    page = context.new_page()
    with watched(page) as said:
        yield page
    context.close()
    assert [line for line in said if "401" not in line] == []


def fed(settings: Settings) -> None:
    """A run of two FormulaCode trials, one of which broke the tests, in Redis and in the log."""

    async def feed() -> None:
        async with Feed(settings, log=True) as feed:
            await feed.take(
                [
                    a_trial(task_id="good", tests=PASSING, cost_usd=1.0, **MEASURED),
                    a_trial(task_id="broken", tests=FAILING, cost_usd=2.0, **MEASURED),
                ]
            )

    thread = threading.Thread(target=lambda: asyncio.run(feed()))  # this one runs the browser's loop
    thread.start()
    thread.join()


def test_a_trial_that_fell_back_says_why_and_lists_its_benchmarks(page: Page, logged: Settings) -> None:
    fed(logged)
    with Serving(logged) as serving:
        page.goto(f"http://127.0.0.1:{serving.port}/#/run/run-1/trials")
        broken = page.get_by_role("row").filter(has_text="broken")
        expect(broken).to_contain_text("fell back")
        broken.get_by_role("button").click()
        drawer = page.get_by_role("dialog")
        expect(drawer).to_contain_text("it counts as if the agent had changed nothing")
        expect(drawer).to_contain_text("The test suite failed: 9 failed of 100 (failed).")
        expect(
            drawer.get_by_role("region", name="Benchmarks of this trial").locator("tbody tr")
        ).to_have_count(5)
        page.keyboard.press("Escape")
        page.get_by_role("link", name="Board", exact=True).click()
        expect(page.get_by_role("columnheader", name="Speedup")).to_be_visible()
        page.goto("about:blank")


def test_speedup_and_advantage_are_drawn_over_event_time(page: Page, logged: Settings) -> None:
    fed(logged)
    with Serving(logged) as serving:
        history = serving.get("/api/runs/run-1/history?kind=agent_model").json()
        agent = serving.get("/api/runs/run-1/agents").json()[0]["formulacode"]
        assert history[-1]["mean_speedup"] == agent["mean_speedup"] > 1.0
        assert history[-1]["agent_advantage"] == agent["agent_advantage"]
        page.goto(f"http://127.0.0.1:{serving.port}/#/run/run-1")
        live(page)
        for metric, title in (("mean_speedup", "Speedup"), ("agent_advantage", "Advantage")):
            page.get_by_label("Metric").select_option(metric)
            expect(page.locator(".plot")).to_have_attribute(
                "aria-label", re.compile(f"^{title} by the trials' own times, 1 line")
            )
            expect(page.locator(".legend b")).to_have_text(re.compile(r"-?\d"))
        page.goto("about:blank")


def test_a_server_with_a_token_asks_for_it_once(page: Page, logged: Settings) -> None:
    fed(logged)
    with Serving(logged, token=TOKEN) as serving:
        url = f"http://127.0.0.1:{serving.port}/"
        page.goto(url)
        expect(page.get_by_role("heading", name="This server asks for a token")).to_be_visible()
        page.get_by_role("textbox", name="Token").fill("wrong")
        page.get_by_role("button", name="Open").click()
        expect(page.get_by_role("alert")).to_contain_text("That token does not fit.")
        page.get_by_role("textbox", name="Token").fill(TOKEN)
        page.get_by_role("button", name="Open").click()
        live(page)
        expect(page.get_by_role("link", name="run-1")).to_be_visible()
        page.reload()
        live(page)
        page.context.clear_cookies()
        page.goto(f"{url}?token={TOKEN}#/run/run-1")
        live(page)
        assert "token" not in page.url
        page.goto("about:blank")
