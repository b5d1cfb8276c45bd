"""An HTML report in headless Chromium: it draws from its own file alone, and reads without scripts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from streamer.web.report import as_html
from tests.support.events import a_plan, a_trial
from tests.web.browsing import a_browser, watched
from tests.web.report.reporting import HOSTILE, folded, hostile_events, mixed_events, tiered

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with a_browser() as browser:
        yield browser


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "report.html"


def test_the_pages_own_charts_are_drawn_from_the_file_alone(browser: Browser, file: Path) -> None:
    file.write_bytes(as_html(tiered()))
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    with watched(page) as said:
        page.goto(file.as_uri())
        expect(page.locator(".plot")).to_have_attribute("data-points", re.compile(r"^\d{2,}$"))
        expect(page.locator(".plot canvas")).to_be_visible()
        expect(page.locator(".legend button")).to_have_count(3)
        page.get_by_role("button", name="Tiers", exact=True).click()
        expect(page.locator(".legend button")).to_have_count(7)
        scatter = page.locator("svg.scatter")
        expect(scatter).to_have_attribute("aria-label", re.compile("On the frontier, cheapest first: .+"))
        expect(page.locator("svg.spread")).to_have_count(7)
        expect(page.locator(".matrix")).to_have_attribute("data-cells", "105")
        page.get_by_label("Order").select_option("disagreement")
        page.get_by_role("combobox", name="Colour").select_option("cost_usd")
        assert page.url.endswith("#tasks?metric=cost_usd&sort=disagreement")
        page.locator(".matrix").focus()
        expect(page.locator("#matrix-cell")).to_contain_text(
            re.compile(r"^claude-code.+ of 2 passed, cost \$\d")
        )
        agents = page.get_by_role("region", name="Agents of this run")
        heading = agents.get_by_role("columnheader", name="Cost", exact=True)
        heading.get_by_role("button").click()
        expect(heading).to_have_attribute("aria-sort", "ascending")
    assert (said, asked) == ([], [file.as_uri()])
    context.close()


def test_the_names_of_tasks_stand_beside_their_cells_where_no_score_is_known_too(
    browser: Browser, file: Path
) -> None:
    """Numbers alone have no verdict (R31); the names need room before the first cell."""
    numbers = {"resolved": None, "cost_usd": None, "metrics": {"m": 1.0}}
    file.write_bytes(as_html(folded([a_trial(task_id=task, **numbers) for task in ("one", "two")])))
    page = browser.new_page()
    with watched(page) as said:
        page.goto(file.as_uri())
        expect(page.locator("#charts")).to_contain_text("No agent has both a known cost and this score.")
        canvas, cell = page.locator(".matrix canvas"), page.locator("#matrix-cell")
        height = page.locator(".matrix .space").bounding_box()
        assert height is not None
        canvas.hover(position={"x": 13, "y": height["height"] - 14})
        page.wait_for_timeout(200)
        expect(cell).to_have_text("")
        canvas.hover(position={"x": 93, "y": height["height"] - 14})
        expect(cell).not_to_have_text("")
    assert said == []
    page.close()


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.in_turn(2)
def test_a_cell_of_the_matrix_leads_to_its_trials_also_by_its_address(
    browser: Browser, file: Path, width: int
) -> None:
    hostile = "<img src=x onerror=alert(1)>"
    events = [
        a_trial(
            agent=hostile, task_id="hard", resolved=False, attempt=attempt, failure_mode=f"mode-{attempt}"
        )
        for attempt in (1, 2)
    ]
    events += [a_trial(agent=hostile, task_id="easy"), a_trial(agent="z", task_id="easy", cost_usd=2.0)]
    file.write_bytes(as_html(folded([*events, a_trial(agent="z", task_id="hard", tier="T0")])))
    context = browser.new_context(viewport={"width": width, "height": 740})
    page = context.new_page()
    with watched(page) as said:
        page.goto(file.as_uri())
        opened = page.get_by_role("region", name="Trials in the cell").last
        assert opened.count() == 0
        colours = page.get_by_role("combobox", name="Colour").locator("option")
        expect(colours).to_have_text(["Outcome", "Cost"])
        page.locator(".matrix").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        expect(opened.locator("tbody tr")).to_have_count(2)
        expect(opened).to_contain_text("mode-1")
        expect(opened).to_contain_text("mode-2")
        colour = page.get_by_role("combobox", name="Colour")
        colour.focus()
        page.keyboard.press("ArrowDown")
        expect(page.locator(".matrix")).to_be_visible()
        expect(colour).to_have_value("cost_usd")
        expect(colour).to_be_focused()
        page.keyboard.press("ArrowUp")
        expect(colour).to_have_value("outcome")
        expect(opened.locator("tbody tr")).to_have_count(2)
        address = page.url
        page.go_back()
        expect(opened).to_have_count(0)
        page.goto("about:blank")
        page.goto(address)
        expect(opened.locator("tbody tr")).to_have_count(2)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    assert said == []
    assert page.locator("img").count() == 0
    context.close()


def test_a_cell_opens_nothing_where_the_file_cannot_have_all_trials(
    browser: Browser, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamer.web.report.MAX_OPENED", 1)
    file.write_bytes(as_html(folded([a_trial(), a_trial(task_id="other")])))
    page = browser.new_page()
    page.goto(file.as_uri())
    expect(page.locator("#matrix")).to_contain_text("Too many trials to open them here; CSV has all.")
    page.locator(".matrix").focus()
    page.keyboard.press("Enter")
    assert page.url == file.as_uri()
    page.close()


def test_speedup_can_be_chosen_where_somebody_measured_it(browser: Browser, file: Path) -> None:
    file.write_bytes(as_html(folded(mixed_events())))
    context = browser.new_context()
    page = context.new_page()
    page.goto(file.as_uri())
    page.get_by_label("Metric").select_option("mean_speedup")
    expect(page.locator(".plot")).to_have_attribute(
        "aria-label", re.compile("^Speedup by the trials' own times")
    )
    context.close()


@pytest.mark.parametrize("scripts", [True, False])
def test_named_metrics_have_columns_and_a_line_under_their_label(
    browser: Browser, file: Path, scripts: bool
) -> None:
    label = "<img src=x onerror=alert(1)>"
    says = {"label": label, "unit": "seconds", "direction": "lower"}
    events = [
        a_plan(metrics={"wait": says}, primary_metric="metrics/wait"),
        a_trial(metrics={"wait": 180.0, "style": 2.5}, finished_at="2026-01-02T03:04:05Z"),
        a_trial(agent="quick", resolved=False, metrics={"wait": 90.0}, finished_at="2026-01-02T03:05:05Z"),
    ]
    file.write_bytes(as_html(folded(events)))
    context = browser.new_context(java_script_enabled=scripts)
    page = context.new_page()
    page.goto(file.as_uri())
    expect(page.get_by_role("region", name="Trials", exact=True).locator("thead")).to_contain_text(label)
    agents = page.locator("#agents")
    expect(agents.locator("thead")).to_contain_text(label)
    for text in ("90 s", "3", "2.5"):
        expect(agents.locator("tbody")).to_contain_text(text)
    if scripts:
        expect(agents.locator("tbody tr").first).to_contain_text("quick:gpt-5")
        page.locator("select").first.select_option("metrics/wait")
        expect(page.locator(".legend b")).to_have_text(["90 s", "3 min"])
    assert page.locator("img").count() == 0
    context.close()


def test_without_scripts_the_tables_stand_in_the_colours_of_the_system(browser: Browser, file: Path) -> None:
    data = tiered()
    file.write_bytes(as_html(data))
    context = browser.new_context(java_script_enabled=False, color_scheme="dark")
    page = context.new_page()
    page.goto(file.as_uri())
    agents = page.get_by_role("region", name="Agents of this run", exact=True)
    expect(agents.locator("tbody tr")).to_have_count(len(data.agents))
    expect(page.get_by_role("region", name="Trials", exact=True).locator("tbody tr")).to_have_count(210)
    expect(page.locator("#theme")).not_to_be_visible()
    expect(page.locator("body")).to_have_css("background-color", "rgb(14, 19, 27)")
    context.close()


@pytest.mark.parametrize("scripts", [True, False])
def test_every_row_of_a_long_table_is_there_to_search_and_to_print(
    browser: Browser, file: Path, scripts: bool
) -> None:
    file.write_bytes(as_html(folded([a_trial(task_id=f"t{n}") for n in range(250)])))
    context = browser.new_context(java_script_enabled=scripts)
    page = context.new_page()
    page.goto(file.as_uri())
    page.emulate_media(media="print")
    rows = page.get_by_role("region", name="Trials", exact=True).locator("tbody tr")
    expect(rows.and_(page.locator(":visible"))).to_have_count(250)
    context.close()


@pytest.mark.parametrize("scripts", [True, False])
def test_hostile_names_are_text_and_a_phone_never_scrolls_sideways(
    browser: Browser, file: Path, scripts: bool
) -> None:
    file.write_bytes(as_html(folded(hostile_events())))
    context = browser.new_context(viewport={"width": 360, "height": 740}, java_script_enabled=scripts)
    page = context.new_page()
    with watched(page) as said:
        page.goto(file.as_uri())
        expect(page.locator("#agents tbody tr")).to_have_count(len(HOSTILE))
        expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE[0])
    assert said == []
    assert page.locator("main script, main img, main b b").count() == 0
    assert page.title() != "owned"
    if scripts:
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 360
    context.close()
