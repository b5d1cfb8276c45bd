"""The page with the sets of runs that people meet: one begins, six agents, thirty agents, hostile names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import combinations
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from streamer.client.readers import StateReader
from streamer.settings import Settings
from streamer.views.cells import short_pass_rate
from tests.fuzz.live.seeds import a_seed
from tests.house.repository import ROOT
from tests.support.events import a_plan, a_trial
from tests.web import screenshots
from tests.web.browsing import WebProcess, a_page, a_stack, agents_of, counted, fits, live, opened, publish
from tests.web.page_sets import HOSTILE, HOURS, SETS, SIX, THIRTY, TRIALS_OF_THIRTY

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.usefixtures("sets")]

AXE = (Path(__file__).parent / "vendor" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
NAMED = "a, button, input, select, [role=region], [role=img], table"
NAMELESS = f"""() => [...document.querySelectorAll("{NAMED}")]
    .filter((element) => element.offsetParent !== null || element.closest("svg"))
    .filter((element) => !element.closest("[aria-hidden=true]"))
    .filter((element) => !(element.getAttribute("aria-label") || element.closest("label")
      || element.querySelector("caption") || element.textContent.trim()))
    .map((element) => element.outerHTML)"""
SCREENS = {
    "runs": "",
    "six": f"#/run/{SIX}",
    "thirty": f"#/run/{THIRTY}",
    "tiers": f"#/run/{THIRTY}/tiers",
    "tasks": f"#/run/{SIX}/tasks",
    "trials": f"#/run/{SIX}/trials",
    "compare": f"#/run/{SIX}/compare",
    "ledgers": "pages/ledgers",
    "leaders": "#/leaders",
    "hostile": f"#/run/{HOSTILE}",
    "one": "#/run/one",
    "unknown": "#/run/nobody",
    "opened": f"#/run/{SIX}/trials",
    "task": f"pages/tasks/task-00?run={SIX}",
    "past": f"pages/runs/{SIX}?as_of=NOW",
}
HEADINGS = {"ledgers": "Ledgers", "task": "Task task-00", "past": "Six agents"}
"""Pages that the server draws as a whole."""

HEAP_BYTES = 60_000_000
MOST_BYTES = 500_000
MOST_ELEMENTS = 5_000
"""The board of the large run has 30 rows; its trials have no elements."""


@pytest.fixture(scope="module")
def sets(stack: Settings) -> None:
    """All sets, counted."""
    now = datetime.now(UTC)
    for events in SETS:
        publish(stack, events(now))
    counted(stack, TRIALS_OF_THIRTY, THIRTY)


def drawn(page: Page) -> None:
    """Wait for the curves."""
    expect(page.locator(".plot")).to_have_attribute("data-points", re.compile(r"^[1-9]\d*$"))


@pytest.fixture
def looks(browser: Browser) -> Iterator[list[Page]]:
    """A page on a desk in the light, and one on a phone in the dark."""
    desk, phone = {"width": 1280, "height": 900}, {"width": 360, "height": 740}
    with (
        a_page(browser, "404", viewport=desk, color_scheme="light") as light,
        a_page(browser, "404", viewport=phone, color_scheme="dark") as dark,
    ):
        yield [light, dark]


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.in_turn(4)
def test_axe_finds_no_fault_everything_has_a_name_and_nothing_scrolls_sideways(
    looks: list[Page], web: WebProcess, screen: str
) -> None:
    for page in looks:
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        page.goto(f"{web.url}/{SCREENS[screen].replace('NOW', now)}")
        if screen in HEADINGS:
            expect(page.get_by_role("heading", level=1)).to_have_text(HEADINGS[screen])
        elif screen == "opened":
            listed = page.get_by_role("table", name="Trials of this run")  # failures have links
            listed.locator("tbody a.link").first.click()
            expect(page.get_by_role("dialog").locator(".facts").first).to_be_visible()
        elif screen == "unknown":
            expect(page.get_by_text("There is no run 'nobody'")).to_be_visible()
        elif screen == "tasks":
            expect(page.locator(".matrix")).to_have_attribute("data-cells", re.compile(r"^[1-9]"))
        else:
            live(page)
            expect(page.locator("tbody tr").first).to_be_visible()
        page.evaluate(AXE)
        found = page.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")["violations"]
        assert [(fault["id"], [node["html"][:200] for node in fault["nodes"][:3]]) for fault in found] == []
        assert page.evaluate(NAMELESS) == []
        assert (page.locator("h1").count(), fits(page)) == (1, True)
        page.set_viewport_size({"width": 768, "height": 740})
        assert fits(page)


def test_a_bulk_publish_draws_all_hours_and_eight_lines_in_colour(page: Page, web: WebProcess) -> None:
    opened(page, web, SCREENS["thirty"])
    drawn(page)
    plot, legend = page.locator(".plot"), page.locator(".legend")
    expect(page.locator(".head .state-complete")).to_have_text("complete")
    expect(agents_of(page).locator("thead")).to_contain_text("Pass rate")
    expect(page.locator("th[data-id=pass_rate] .about")).to_have_count(0)
    expect(page.locator("main")).not_to_contain_text("5 in 100")
    expect(page.locator(".tile").first).to_contain_text("10,080 / 10,080")
    hours = int(plot.get_attribute("data-span") or 0) / 3600
    assert HOURS - 0.5 < hours <= HOURS
    coloured, grey = (legend.locator(f"button[aria-pressed={pressed}]") for pressed in ("true", "false"))
    expect(coloured).to_have_count(8)
    expect(grey).to_have_count(22)
    page.locator(".others summary").click()
    grey.filter(has_text="agent-00").click()
    expect(coloured.filter(has_text="agent-00")).to_have_count(1)
    expect(coloured).to_have_count(8)
    page.get_by_role("group", name="Along").get_by_role("button", name="Trials").click()
    expect(plot).to_have_attribute("data-span", "335")


def test_labels_of_thirty_agents_never_overlap(page: Page, web: WebProcess) -> None:
    opened(page, web, SCREENS["thirty"])
    expect(page.locator("svg.scatter .point")).to_have_count(30)
    texts = "[...document.querySelectorAll('svg.scatter .point text')]"
    shown = f"{texts}.filter((text) => text.getClientRects().length)"
    boxes = page.evaluate(f"() => {shown}.map((text) => text.getBoundingClientRect().toJSON())")
    best = page.locator("svg.scatter .point:not(.dominated)")
    assert best.count() <= len(boxes) <= best.count() + 8
    for point in best.all():
        expect(point.locator("text")).to_be_visible()
    grey = page.locator("svg.scatter .point.grey.dominated").first
    expect(grey.locator("text")).to_be_hidden()
    grey.focus()
    expect(grey.locator("text")).to_be_visible()
    for one, other in combinations(boxes, 2):
        beside = one["right"] <= other["left"] or other["right"] <= one["left"]
        assert beside or one["bottom"] <= other["top"] + 2 or other["bottom"] <= one["top"] + 2, (one, other)


def test_dragging_zooms_the_curves_until_a_double_click(page: Page, web: WebProcess) -> None:
    opened(page, web, SCREENS["thirty"])
    drawn(page)
    note, over = page.locator(".chart-note"), page.locator(".plot .u-over")
    expect(note).to_contain_text("Drag: zoom in.")
    over.scroll_into_view_if_needed()
    box = over.bounding_box()
    assert box
    bottom = box["y"] + box["height"] - 4  # no line is near
    page.mouse.move(box["x"] + 0.6 * box["width"], bottom)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.9 * box["width"], bottom, steps=4)
    page.mouse.up()
    expect(note).to_contain_text("Double-click: zoom out.")
    page.locator(".legend button[aria-pressed=true]").first.click()
    page.mouse.move(box["x"] + 0.5 * box["width"], bottom)
    expect(note).to_contain_text("Double-click: zoom out.")
    page.mouse.dblclick(box["x"] + 0.5 * box["width"], bottom)
    expect(note).to_contain_text("Drag: zoom in.")


def test_the_board_says_what_may_be_concluded_in_the_words_of_all(page: Page, web: WebProcess) -> None:
    opened(page, web, SCREENS["six"])
    board, main = agents_of(page), page.locator("main")
    with StateReader(web.settings) as reader:
        agents = reader.agents(SIX)
    for agent in agents:
        words = short_pass_rate(agent.model_dump())
        assert re.fullmatch(r"\d+\.\d % \[\d+, \d+\]", words)
        cell = board.get_by_role("row").filter(has_text=agent.agent_model).locator("td").first
        expect(cell).to_have_text(words.replace(" %", "\u00a0%"))
        expect(cell.locator(".bar b")).to_have_count(1)
    expect(board.locator("tbody tr").first).to_contain_text(re.compile(r"\d-\d"))
    for column, about in (("pass_rate", "this run, final"), ("place", "tasks like these")):
        expect(board.locator(f"th[data-id={column}] .about")).to_have_text(about)
    for said in (
        "[low, high]: this run, final. Once all planned trials have results",
        "place: with 95 % probability, every agent's true rank is in its range",
        re.compile("Nothing separates|ahead in this run|no longer be overtaken"),
    ):
        expect(main).to_contain_text(said)
    opened(page, web, SCREENS["hostile"])
    expect(main).to_contain_text("No interval of the final pass rate: the run declared no")
    expect(main).to_contain_text("so far: results are still missing")


def test_running_trials_have_an_age_and_end_and_cost_are_forecasts(page: Page, web: WebProcess) -> None:
    opened(page, web, SCREENS["six"])
    running = page.get_by_role("region", name="Trials under way")
    expect(running.locator("tbody tr")).to_have_count(8)
    expect(running.locator("tbody tr").first).to_contain_text(re.compile(r"\d (min|h)$"))
    page.get_by_role("button", name=re.compile("Show all 48")).click()
    expect(running.locator("tbody tr")).to_have_count(48)
    end = r"forecast: ends about (\d+ \w+ )?\d\d:\d\d UTC, (\d+ \w+ )?\d\d:\d\d to"
    for words in (end, r"forecast: about \$[\d.]+ in all, \$[\d.]+ to"):
        expect(page.locator(".tiles")).to_contain_text(re.compile(words))


def test_a_plan_that_is_still_read_shows_counts_and_no_share_and_no_end(page: Page, web: WebProcess) -> None:
    now = datetime.now(UTC)
    whole = {"tasks": 10, "attempts": 1, "agent_models": ["terminus:gpt-5"]}
    began = (now - timedelta(hours=1)).isoformat()
    plan = a_plan(run_id="reading", **whole, plan_complete=False, started_at=began)
    trial = a_trial(run_id="reading", finished_at=now.isoformat(), duration_seconds=60.0)
    publish(web.settings, (plan, trial))
    opened(page, web, "#/run/reading")
    progress, tiles = page.locator(".tile").first, page.locator(".tiles")
    expect(progress).to_have_text("Progress1plan not complete yet: counts only")
    expect(page.locator("tbody tr").first).to_be_visible()
    assert "forecast" not in (tiles.text_content() or "")
    publish(web.settings, [plan | {"plan_complete": True, "revision": 1}])
    expect(progress).to_contain_text("10.0 % of the plan")
    expect(tiles).to_contain_text("forecast: ends about")
    bare = a_trial(run_id="no-plan", finished_at=now.isoformat())
    publish(web.settings, (bare, plan | {"run_id": "read-on"}))
    opened(page, web, "")
    rows = page.get_by_role("region", name="Runs").locator("tbody tr")
    expect(rows.filter(has_text="read-on")).to_contain_text("0 (plan not complete yet)")
    expect(rows.filter(has_text="no-plan")).not_to_contain_text("plan not complete yet")
    opened(page, web, "#/run/no-plan")
    expect(progress).to_have_text("Progress1no plan known: counts only")


def test_an_event_time_ahead_of_the_clock_is_called_event_time(page: Page, web: WebProcess) -> None:
    later = datetime.now(UTC) + timedelta(minutes=24)
    publish(web.settings, [a_trial(run_id="ahead", finished_at=later.isoformat())])
    opened(page, web, "#/run/ahead")
    expect(page.locator(".head")).to_contain_text("last event: event time")
    assert "in 24 min" not in (page.locator(".head").text_content() or "")


def test_on_a_phone_rows_are_cards_with_rate_and_interval_in_view(page: Page, web: WebProcess) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    opened(page, web, SCREENS["six"])
    card = agents_of(page).locator("tbody tr").first
    cost = card.get_by_role("cell").filter(has_text="$").first
    expect(card.locator("td.primary")).to_contain_text(re.compile(r"\[\d+, \d+\]"))
    page.wait_for_function(
        """() => [...document.querySelectorAll("td.primary")].map((rate) => rate.getBoundingClientRect())
            .some((box) => box.width > 0 && box.right <= 360)"""
    )  # asked in one step, since the page draws its rows again as results come in
    expect(cost).not_to_be_visible()
    page.get_by_role("button", name="All columns").first.click()
    expect(cost).to_be_visible()
    assert fits(page)


def test_the_whole_way_from_the_runs_to_a_picked_line_goes_by_keyboard(page: Page, web: WebProcess) -> None:
    opened(page, web, "")
    expect(page.get_by_role("link", name="Thirty agents")).to_be_visible()
    entered_at(page, "Thirty agents")
    expect(page.get_by_role("heading", level=1)).to_have_text("Thirty agents")
    drawn(page)
    entered_at(page, "Cost")
    heading = page.get_by_role("columnheader", name="Cost", exact=True)
    expect(heading).to_have_attribute("aria-sort", "ascending")
    entered_at(page, "22 grey")
    entered_at(page, "agent-00:model-00.*")
    pressed = page.locator(".legend button[aria-pressed=true]")
    expect(pressed.filter(has_text="agent-00")).to_have_count(1)


def entered_at(page: Page, expected: str) -> None:
    """Press Enter once Tab has come to such a text; every stop on the way is visible and has a name."""
    for _ in range(200):
        page.keyboard.press("Tab")
        stop = page.evaluate(
            "() => { const one = document.activeElement; const box = one.getBoundingClientRect();"
            " return { text: (one.textContent || '').trim(), name: one.getAttribute('aria-label') || '',"
            " tag: one.tagName, seen: box.width > 0 && box.height > 0 }; }"
        )
        if stop["tag"] == "BODY":
            continue
        assert stop["seen"], stop
        assert stop["text"] or stop["name"] or stop["tag"] in ("SELECT", "INPUT"), stop
        if re.fullmatch(expected, stop["text"]):
            page.keyboard.press("Enter")
            return
    raise AssertionError(f"Tab never comes to {expected}")


CROWDED = """async () => {
  const { h } = await import("/static/js/shared.js");
  const names = ["mini-swe-agent:claude-opus-4-5", "mini-swe-agent:claude-sonnet-4-5"];
  const numbers = () => Array.from({ length: 12 }, () => h("td", { class: "number" }, "1,234.5 points"));
  const rows = names.map((name) => h("tr", {}, h("th", {}, h("bdi", { class: "name" }, name)), ...numbers()));
  const table = h("div", { class: "scroll" }, h("table", {}, h("tbody", {}, ...rows)));
  document.getElementById("main").replaceChildren(table);
  return rows.map((row) => row.querySelector(".name")).map((one) => one.scrollHeight - one.clientHeight);
}"""


def test_in_a_table_that_is_too_wide_the_names_stay_whole(page: Page, web: WebProcess) -> None:
    page.set_viewport_size({"width": 1024, "height": 800})
    opened(page, web, "#/leaders")
    assert page.evaluate(CROWDED) == [0, 0]


def test_ten_thousand_trials_take_few_elements_and_stand_on_pages(page: Page, web: WebProcess) -> None:
    """How soon they paint is a figure of `python -m benchmarks --only page`."""
    opened(page, web, SCREENS["thirty"])
    drawn(page)
    session = page.context.new_cdp_session(page)
    for method in ("enable", "collectGarbage"):
        session.send(f"HeapProfiler.{method}")
    assert session.send("Runtime.getHeapUsage")["usedSize"] < HEAP_BYTES
    assert page.evaluate("() => document.querySelectorAll('*').length") < MOST_ELEMENTS
    loaded = "performance.getEntriesByType('resource').reduce((sum, one) => sum + one.transferSize, 0)"
    assert page.evaluate(f"() => {loaded}") < MOST_BYTES
    page.get_by_role("link", name="Trials", exact=True).click()
    expect(page.locator(".pager")).to_contain_text("1–50 of 10,080")


BATCH = 20
"""Events between two looks of the worker: enough steps for a chart, and not minutes of waiting."""

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.in_turn(3)
def test_every_view_can_be_pictured(browser: Browser, tmp_path: Path) -> None:
    """Light, dark or on a phone, in turn; `make screenshots` takes all."""
    names = [*screenshots.VIEWS, "trial"]
    looks = [list(screenshots.LOOKS)[(a_seed() + at) % len(screenshots.LOOKS)] for at in range(len(names))]
    expected = [f"{name}-{look}" for name, look in zip(names, looks, strict=True)]
    with a_stack(tmp_path) as settings, WebProcess(settings, tmp_path) as web:
        screenshots.feed(settings, BATCH)
        screenshots.feed_sets(settings)
        written = screenshots.take(browser, web.url, ROOT / "build" / "screenshots", expected)
    assert {path.stem for path in written} == set(expected)
    for content in (path.read_bytes() for path in written):
        assert (content[: len(PNG)], len(content) > 5_000) == (PNG, True)
