"""A budget on the page: from the address, from its field, along from part to part."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Browser, Page, expect

from streamer.settings import Settings
from tests.support.events import a_plan, a_trial
from tests.web.browsing import WebProcess, publish

pytestmark = [pytest.mark.browser, pytest.mark.slow]

RUN = "costly"


@pytest.fixture(scope="module")
def costly(stack: Settings) -> None:
    """Ten of twenty trials in, half a dollar and ten minutes each."""
    start = datetime.now(UTC) - timedelta(minutes=101)
    events = [
        a_plan(
            run_id=RUN, tasks=20, attempts=1, agent_models=["terminus:gpt-5"], started_at=start.isoformat()
        )
    ]
    for number in range(1, 11):
        end = (start + timedelta(minutes=10 * number)).isoformat()
        fields = {"cost_usd": 0.5, "duration_seconds": 600.0, "finished_at": end}
        events.append(a_trial(run_id=RUN, task_id=f"t{number}", **fields))
    publish(stack, [json.dumps(event).encode() for event in events])


@pytest.mark.parametrize("width", [360, 1280])
def test_a_budget_stands_in_the_address_and_goes_along(
    page: Page, web: WebProcess, costly: None, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(f"{web.url}/#/run/{RUN}?budget=6")
    cost = page.locator(".tile").filter(has_text="Cost")
    expect(cost).to_contain_text(re.compile(r"forecast: the budget of \$6.00 is passed about \d\d:\d\d UTC"))
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    field = page.get_by_label("Budget, $")
    expect(field).to_have_value("6")
    field.fill("100")
    field.press("Enter")
    expect(cost).to_contain_text("forecast: the budget of $100.00 is not passed")
    expect(page).to_have_url(re.compile(r"#/run/costly\?budget=100$"))
    for part in ("Trials", "Compare"):
        page.get_by_role("navigation", name="Parts").get_by_role("link", name=part).click()
        expect(cost).to_contain_text("forecast: the budget of $100.00 is not passed")
    assert page.locator(".error").count() == 0
    page.get_by_role("combobox", name="Run B").select_option(RUN)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    page.goto(f"{web.url}/#/run/{RUN}")
    expect(cost).to_contain_text("forecast: about")
    assert "budget" not in cost.inner_text()


def test_a_budget_below_nothing_is_not_taken(page: Page, web: WebProcess, costly: None) -> None:
    page.goto(f"{web.url}/#/run/{RUN}?budget=6")
    cost = page.locator(".tile").filter(has_text="Cost")
    expect(cost).to_contain_text("$6.00")
    field = page.get_by_label("Budget, $")
    field.fill("-1")
    field.press("Enter")
    expect(page).to_have_url(re.compile(r"budget=6$"))


@pytest.mark.parametrize("budget", ["cheap", "-1"])
def test_an_address_with_a_wrong_budget_says_so_and_keeps_the_forecasts(
    browser: Browser, web: WebProcess, costly: None, budget: str
) -> None:
    page = browser.new_page(viewport={"width": 360, "height": 800})
    page.goto(f"{web.url}/#/run/{RUN}?budget={budget}")
    cost = page.locator(".tile").filter(has_text="Cost")
    expect(cost).to_contain_text("budget: Input should be")
    expect(cost).to_contain_text("forecast: about")
    page.close()
