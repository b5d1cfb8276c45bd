"""An HTML report in headless Chromium: it draws from its own file alone, and reads without scripts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from streamer.web.report import RunData, as_html
from tests.support.events import a_plan, a_trial
from tests.web.browsing import a_page, agents_of, fits
from tests.web.report.reporting import HOSTILE, folded, hostile_events, mixed_events, tiered

pytestmark = [pytest.mark.browser, pytest.mark.slow]

Open = Callable[..., AbstractContextManager[Page]]
with_and_without_scripts = pytest.mark.parametrize("scripts", [True, False])


@pytest.fixture
def report(browser: Browser, tmp_path: Path) -> Open:
    """Opens the report of a run, and lets no error in the console pass."""

    @contextmanager
    def opening(data: RunData, **context: Any) -> Iterator[Page]:
        file = tmp_path / "report.html"
        file.write_bytes(as_html(data))
        with a_page(browser, **context) as page:
            page.goto(file.as_uri())
            yield page

    return opening


def test_the_pages_own_charts_are_drawn_from_the_file_alone(report: Open) -> None:
    with report(tiered(), viewport={"width": 1280, "height": 900}) as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.reload()
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
        file, _, place = page.url.partition("#")
        assert place == "tasks?metric=cost_usd&sort=disagreement"
        page.locator(".matrix").focus()
        cell = re.compile(r"^claude-code.+ of 2 passed, cost \$\d")
        expect(page.locator("#matrix-cell")).to_contain_text(cell)
        agents = agents_of(page)
        heading = agents.get_by_role("columnheader", name="Cost", exact=True)
        heading.get_by_role("button").click()
        expect(heading).to_have_attribute("aria-sort", "ascending")
        assert asked == [file]


def test_the_names_of_tasks_stand_beside_their_cells_where_no_score_is_known_too(report: Open) -> None:
    """Numbers alone have no verdict (R31); the names need room before the first cell."""
    numbers = {"resolved": None, "cost_usd": None, "metrics": {"m": 1.0}}
    with report(folded([a_trial(task_id=task, **numbers) for task in ("one", "two")])) as page:
        expect(page.locator("#charts")).to_contain_text("No agent has both a known cost and this score.")
        canvas, cell = page.locator(".matrix canvas"), page.locator("#matrix-cell")
        height = page.locator(".matrix .space").bounding_box()
        assert height is not None
        canvas.hover(position={"x": 13, "y": height["height"] - 14})
        page.wait_for_timeout(200)
        expect(cell).to_have_text("")
        canvas.hover(position={"x": 93, "y": height["height"] - 14})
        expect(cell).not_to_have_text("")


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.in_turn(2)
def test_a_cell_of_the_matrix_leads_to_its_trials_also_by_its_address(report: Open, width: int) -> None:
    own: dict[str, Any] = {"agent": "<img src=x onerror=alert(1)>"}
    events = [
        *(
            a_trial(**own, task_id="hard", resolved=False, attempt=n, failure_mode=f"mode-{n}")
            for n in (1, 2)
        ),
        a_trial(**own, task_id="easy"),
        a_trial(agent="z", task_id="easy", cost_usd=2.0),
        a_trial(agent="z", task_id="hard", tier="T0"),
    ]
    with report(folded(events), viewport={"width": width, "height": 740}) as page:
        opened = page.get_by_role("region", name="Trials in the cell").last
        assert opened.count() == 0
        colour = page.get_by_role("combobox", name="Colour")
        expect(colour.locator("option")).to_have_text(["Outcome", "Cost"])
        page.locator(".matrix").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        expect(opened.locator("tbody tr")).to_have_count(2)
        expect(opened).to_contain_text("mode-1")
        expect(opened).to_contain_text("mode-2")
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
        assert fits(page)
        assert page.locator("img").count() == 0


def test_a_cell_opens_nothing_if_the_file_lacks_trials(report: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamer.web.report.MAX_OPENED", 1)
    with report(folded([a_trial(), a_trial(task_id="other")])) as page:
        expect(page.locator("#matrix")).to_contain_text("Too many trials to open them here; CSV has all.")
        address = page.url
        page.locator(".matrix").focus()
        page.keyboard.press("Enter")
        assert page.url == address


def test_speedup_can_be_chosen_where_somebody_measured_it(report: Open) -> None:
    with report(folded(mixed_events())) as page:
        page.get_by_label("Metric").select_option("mean_speedup")
        drawn = re.compile("^Speedup by the trials' own times")
        expect(page.locator(".plot")).to_have_attribute("aria-label", drawn)


@with_and_without_scripts
def test_named_metrics_have_columns_and_a_line_under_their_label(report: Open, scripts: bool) -> None:
    label = "<img src=x onerror=alert(1)>"
    says = {"label": label, "unit": "seconds", "direction": "lower"}
    waits = {"metrics": {"wait": 90.0}, "finished_at": "2026-01-02T03:05:05Z"}
    events = [
        a_plan(metrics={"wait": says}, primary_metric="metrics/wait"),
        a_trial(metrics={"wait": 180.0, "style": 2.5}, finished_at="2026-01-02T03:04:05Z"),
        a_trial(agent="quick", resolved=False, **waits),
    ]
    with report(folded(events), java_script_enabled=scripts) as page:
        trials = page.get_by_role("region", name="Trials", exact=True)
        expect(trials.locator("thead")).to_contain_text(label)
        agents = page.locator("#agents")
        expect(agents.locator("thead")).to_contain_text(label)
        for text in ("90 s", "3", "2.5"):
            expect(agents.locator("tbody")).to_contain_text(text)
        if scripts:
            expect(agents.locator("tbody tr").first).to_contain_text("quick:gpt-5")
            page.locator("select").first.select_option("metrics/wait")
            expect(page.locator(".legend b")).to_have_text(["90 s", "3 min"])
        assert page.locator("img").count() == 0


def test_without_scripts_the_tables_stand_in_the_colours_of_the_system(report: Open) -> None:
    data = tiered()
    with report(data, java_script_enabled=False, color_scheme="dark") as page:
        agents = page.get_by_role("region", name="Agents of this run", exact=True)
        expect(agents.locator("tbody tr")).to_have_count(len(data.agents))
        trials = page.get_by_role("region", name="Trials", exact=True)
        expect(trials.locator("tbody tr")).to_have_count(210)
        expect(page.locator("#theme")).not_to_be_visible()
        expect(page.locator("body")).to_have_css("background-color", "rgb(14, 19, 27)")


@with_and_without_scripts
def test_every_row_of_a_long_table_is_there_to_search_and_to_print(report: Open, scripts: bool) -> None:
    data = folded([a_trial(task_id=f"t{n}") for n in range(250)])
    with report(data, java_script_enabled=scripts) as page:
        page.emulate_media(media="print")
        rows = page.get_by_role("region", name="Trials", exact=True).locator("tbody tr")
        expect(rows.and_(page.locator(":visible"))).to_have_count(250)


@with_and_without_scripts
def test_hostile_names_are_text_and_a_phone_never_scrolls_sideways(report: Open, scripts: bool) -> None:
    phone = {"width": 360, "height": 740}
    with report(folded(hostile_events()), viewport=phone, java_script_enabled=scripts) as page:
        expect(page.locator("#agents tbody tr")).to_have_count(len(HOSTILE))
        expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE[0])
        assert page.locator("main script, main img, main b b").count() == 0
        assert page.title() != "owned"
        if scripts:
            assert fits(page)
