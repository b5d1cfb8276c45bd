"""The page on narrow screens, without a mouse, in the dark, and with ten thousand trials."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Browser, Page, expect

from streamer.settings import Settings
from tests.support.events import a_trial
from tests.support.simulated import TIERED_RUN
from tests.web.browsing import WebProcess, live, publish, trials

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_columns_sort_by_keyboard_and_say_so(page: Page, web: WebProcess, simulated: None) -> None:
    page.goto(f"{web.url}/#/run/{TIERED_RUN}")
    heading = page.get_by_role("columnheader", name="Cost", exact=True)
    expect(heading).to_be_visible()
    assert heading.get_attribute("aria-sort") is None
    heading.get_by_role("button").focus()
    page.keyboard.press("Enter")
    expect(heading).to_have_attribute("aria-sort", "ascending")
    shown = page.locator("thead th").all_text_contents()
    column = shown.index("Cost") + 1
    cells = page.locator(f"tbody tr > :nth-child({column})").all_text_contents()
    costs = [float(cell.replace("$", "")) for cell in cells]
    assert costs == sorted(costs)
    page.keyboard.press("Enter")
    expect(heading).to_have_attribute("aria-sort", "descending")


def test_focus_stays_where_it_is_when_a_column_appears(page: Page, web: WebProcess, stack: Settings) -> None:
    publish(stack, trials("columns", 0, 3))
    page.goto(f"{web.url}/#/run/columns")
    sorting = page.get_by_role("columnheader", name="Cost", exact=True).get_by_role("button")
    opening = (
        page.locator("tbody tr")
        .first.get_by_role("button")
        .or_(page.locator("tbody tr").first.get_by_role("link"))
        .first
    )
    for focused, number in ((sorting, 3), (opening, 4)):
        name = f"named-{number}"
        focused.focus()
        publish(stack, trials("columns", number, number + 1, metrics={name: 1.0}))
        expect(page.get_by_role("columnheader", name=name)).to_be_visible()
        expect(focused).to_be_focused()
    sorting.focus()
    for order in ("ascending", "descending"):
        page.keyboard.press("Enter")
        expect(page.get_by_role("columnheader", name="Cost", exact=True)).to_have_attribute(
            "aria-sort", order
        )


def test_colours_follow_the_system_until_somebody_chooses(
    browser: Browser, web: WebProcess, simulated: None
) -> None:
    context = browser.new_context(color_scheme="dark")
    page = context.new_page()
    page.goto(web.url)
    root = page.locator("html")
    expect(root).to_have_attribute("data-theme", "dark")
    page.get_by_role("button", name="Colours: as the system").click()
    expect(root).to_have_attribute("data-theme", "light")
    page.reload()
    expect(root).to_have_attribute("data-theme", "light")
    context.close()


@pytest.mark.parametrize("width", [360, 768])
@pytest.mark.parametrize(
    "view", ["", "#/run/R", "#/run/R/tiers", "#/run/R/trials", "#/run/R/compare", "#/leaders"]
)
def test_a_narrow_screen_never_scrolls_sideways(
    page: Page, web: WebProcess, simulated: None, view: str, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 740})
    page.goto(f"{web.url}/{view.replace('R', TIERED_RUN)}")
    live(page)
    expect(page.locator("tbody tr").first).to_be_visible()
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize(
    "view", ["", "#/run/R", "#/run/R/tiers", "#/run/R/trials", "#/run/R/compare", "#/leaders"]
)
def test_everything_that_can_be_used_has_a_name(
    page: Page, web: WebProcess, simulated: None, view: str
) -> None:
    page.goto(f"{web.url}/{view.replace('R', TIERED_RUN)}")
    live(page)
    expect(page.locator("tbody tr").first).to_be_visible()
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("a, button, input, select, [role=region], [role=img], table")]
            .filter((element) => element.offsetParent !== null || element.closest("svg"))
            .filter((element) => !(element.getAttribute("aria-label") || element.closest("label")
              || element.querySelector("caption") || element.textContent.trim()))
            .map((element) => element.outerHTML)"""
    )
    assert nameless == []
    assert page.locator("h1").count() == 1


def test_a_board_of_ten_thousand_trials_is_small_and_lists_them_by_pages(
    page: Page, web: WebProcess, stack: Settings
) -> None:
    run = "large"
    publish(
        stack,
        [
            json.dumps(
                a_trial(run_id=run, task_id=f"t{n % 2500}", attempt=1 + n // 2500, agent=f"a{n % 7}")
            ).encode()
            for n in range(10_000)
        ],
    )
    page.goto(f"{web.url}/#/run/{run}")
    expect(page.locator(".tile").first).to_contain_text("10,000", timeout=60_000)
    page.goto("about:blank")
    page.goto(f"{web.url}/#/run/{run}")
    expect(page.locator("tbody tr")).to_have_count(7)
    bytes_ = page.evaluate(
        "() => performance.getEntriesByType('resource').reduce((sum, one) => sum + one.transferSize, 0)"
    )
    assert bytes_ < 500_000
    page.get_by_role("link", name="Trials", exact=True).click()
    expect(page.locator(".pager")).to_contain_text("1–50 of 10,000")
