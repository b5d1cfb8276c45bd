"""The page shows hostile names as text."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Page, expect

from streamer.settings import Settings
from tests.support.events import a_plan, a_trial
from tests.web.browsing import WebProcess, publish

pytestmark = [pytest.mark.browser, pytest.mark.slow]


HOSTILE = {
    "<script>document.title='owned'</script>": "<script>document.title='owned'</script>",
    "<img src=x onerror=alert(1)>": "<img src=x onerror=alert(1)>",
    "\u202eevil\u202c": "\\u202eevil\\u202c",
    "\u05e9\u05dc\u05d5\u05dd": "\u05e9\u05dc\u05d5\u05dd",
    "zero\u200bwidth": "zero\\u200bwidth",
    "'\"`${1}&amp;": "'\"`${1}&amp;",
    "long-" + "x" * 123: "long-" + "x" * 123,
}


@pytest.fixture(scope="module")
def hostile(stack: Settings) -> str:
    run = "<b>bold</b>/\u202erun"
    events = [
        a_plan(run_id=run, labels={"<i>k</i>": "<u>v</u>"}, tiers=list(HOSTILE), benchmark="<s>bench</s>")
    ]
    events += [
        a_trial(
            run_id=run,
            agent=name,
            model=name,
            tier=name,
            task_id=name,
            resolved=False,
            failure_mode=name,
            score=0.5,
        )
        for name in HOSTILE
    ]
    publish(stack, [json.dumps(event).encode() for event in events])
    return run


@pytest.mark.parametrize("tab", ["", "/tiers", "/trials", "/compare"])
def test_hostile_names_show_as_text_everywhere(page: Page, web: WebProcess, hostile: str, tab: str) -> None:
    page.goto(f"{web.url}/#/run/%3Cb%3Ebold%3C%2Fb%3E%2F%E2%80%AErun{tab}")
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_have_text("<b>bold</b>/\\u202erun")
    main = page.locator("main")
    expect(main).to_contain_text("<i>k</i>=<u>v</u>")
    if tab == "/compare":
        options = page.get_by_label("Agent").first.locator("option")
        expect(options).to_have_count(len(HOSTILE) + 1)
        shown = " ".join(options.all_text_contents())
    else:
        rows = page.get_by_role("region", name="of this run").locator("tbody tr")
        expect(rows).to_have_count(len(HOSTILE))
        shown = main.text_content() or ""
    for text in HOSTILE.values():
        assert text in shown
    assert page.locator("main script, main img, main b b, main i i, main u, main s").count() == 0
    assert "owned" not in page.title()
    width = page.evaluate("() => document.documentElement.scrollWidth")
    assert width <= 1280


def test_a_hostile_trial_opens_as_text(page: Page, web: WebProcess, hostile: str) -> None:
    page.goto(f"{web.url}/#/run/%3Cb%3Ebold%3C%2Fb%3E%2F%E2%80%AErun/trials")
    listed = page.get_by_role("region", name="Trials of this run")
    listed.locator("tbody button.link").filter(has_text="<script>").click()
    drawer = page.get_by_role("dialog")
    expect(drawer).to_contain_text("The harness says: <script>document.title='owned'</script>.")
    drawer.get_by_text("Payload as published").click()
    expect(drawer.locator("pre")).to_contain_text('"task_id": "<script>')
    assert drawer.locator("script").count() == 0
