"""The page when something is missing: an unknown run, a server that is away, an empty installation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from streamer.settings import Settings
from tests.support.events import a_trial
from tests.web.browsing import WebProcess, a_stack, opened, publish, trials

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def six(stack: Settings) -> str:
    """A run of six trials."""
    publish(stack, trials("six", 0, 6))
    return "six"


def test_an_unknown_run_says_so_and_comes_as_soon_as_it_is_there(
    browser: Browser, web: WebProcess, stack: Settings, six: str
) -> None:
    page = browser.new_page()
    opened(page, web, "#/run/sixx")
    expect(
        page.get_by_role("alert").filter(has_text="There is no run 'sixx'. Did you mean six?")
    ).to_be_visible()
    expect(page.locator(".tabs")).not_to_be_visible()
    publish(stack, [json.dumps(a_trial(run_id="sixx")).encode()])
    expect(page.locator(".tabs")).to_be_visible()
    page.close()


def test_a_server_that_is_away_leaves_the_last_numbers_in_grey_and_says_what_to_do(
    page: Page, stack: Settings, six: str, tmp_path: Path
) -> None:
    with WebProcess(stack, tmp_path) as web:
        opened(page, web, f"#/run/{six}")
        expect(page.locator("tbody tr").first).to_be_visible()
        web.stop()
        banner = page.locator(".banner")
        expect(banner).to_contain_text(
            "does not answer. Start it again with `streamer up` or `streamer serve`"
        )
        expect(banner).to_contain_text("The numbers below are of")
        expect(page.locator("main")).to_have_class("stale")
        expect(page.locator("tbody tr").first).to_be_visible()
        web.start()
        expect(banner).not_to_be_visible()
        expect(page.locator("main")).not_to_have_class("stale")


def test_an_empty_installation_gives_a_command_to_copy(browser: Browser, tmp_path: Path) -> None:
    with a_stack(tmp_path) as settings, WebProcess(settings, tmp_path) as web:
        context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
        page = context.new_page()
        opened(page, web, "")
        expect(page.locator("main")).to_contain_text("No runs yet. The first one comes here by itself")
        page.get_by_role("button", name="Copy: streamer tail RUN_DIRECTORY").click()
        expect(page.get_by_text("Copied", exact=True).first).to_be_visible()
        assert page.evaluate("() => navigator.clipboard.readText()") == "streamer tail RUN_DIRECTORY"
        context.close()
