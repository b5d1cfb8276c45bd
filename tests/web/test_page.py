"""The page in headless Chromium, on a live stack: it moves, it resumes, it shows hostile names as text."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from streamer.settings import Settings
from tests.support.events import a_plan, a_trial
from tests.support.simulated import PLAIN_RUN, TIERED_RUN
from tests.support.worker_process import wait_for
from tests.web.browsing import WebProcess, live, publish, trials

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def row(page: Page, text: str) -> str:
    return page.get_by_role("row").filter(has_text=text).inner_text()


def points(page: Page) -> int:
    return int(page.locator(".plot").get_attribute("data-points") or 0)


def test_the_list_of_runs_grows_and_leads_to_a_run(page: Page, web: WebProcess, stack: Settings) -> None:
    page.goto(web.url)
    live(page)
    publish(stack, [json.dumps(a_plan(run_id="fresh", tasks=4, display_name="Fresh run")).encode()])
    page.get_by_role("link", name="Fresh run").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Fresh run")


def test_the_board_moves_and_the_chart_grows_as_trials_come(
    page: Page, web: WebProcess, stack: Settings
) -> None:
    publish(stack, trials("moving", 0, 2))
    page.goto(f"{web.url}/#/run/moving")
    board = page.get_by_role("region", name="Agents of this run")
    expect(board.get_by_role("row").nth(1)).to_contain_text("100.0")
    before = points(page)
    for number in range(2, 8):
        publish(stack, trials("moving", number, number + 1, resolved=False))
        expect(board.get_by_role("row").nth(1)).to_contain_text(f"{100 * 2 / (number + 1):.1f}")
    wait_for(lambda: points(page) >= before + 3, "the chart has grown")
    publish(stack, trials("moving", 0, 1, agent="newcomer"))
    expect(board.get_by_text("newcomer:gpt-5")).to_be_visible()
    expect(page.locator(".legend button")).to_have_count(2)


def test_nothing_is_lost_when_the_server_restarts(page: Page, stack: Settings, tmp_path: Path) -> None:
    with WebProcess(stack, tmp_path) as web:
        publish(stack, trials("resumed", 0, 3))
        page.goto(f"{web.url}/#/run/resumed")
        board = page.get_by_role("region", name="Agents of this run")
        expect(board).to_contain_text("100.0")
        web.stop()
        expect(page.locator("#live")).to_have_attribute("data-state", "lost")
        publish(stack, trials("resumed", 3, 12, resolved=False))
        web.start()
        live(page)
        expect(board.get_by_role("row").nth(1)).to_contain_text("25.0")
        expect(page.locator(".tile").first).to_contain_text("12")
        publish(stack, trials("resumed", 12, 15, resolved=False))
        expect(board.get_by_role("row").nth(1)).to_contain_text("20.0")
        expect(page.locator(".legend b")).to_have_text("20.0\u00a0%")
        fresh = page.context.new_page()
        fresh.goto(f"{web.url}/#/run/resumed")
        expect(fresh.locator(".legend b")).to_have_text("20.0\u00a0%")
        wait_for(lambda: points(page) >= points(fresh) >= 2, "both pages have drawn the history")


def test_charts_switch_metric_and_groups_and_the_frontier_names_who_is_on_it(
    page: Page, web: WebProcess, simulated: None
) -> None:
    page.goto(f"{web.url}/#/run/{TIERED_RUN}")
    expect(page.locator(".legend button")).to_have_count(3)
    page.get_by_role("button", name="Tiers", exact=True).click()
    expect(page.locator(".legend button")).to_have_count(7)
    page.get_by_label("Metric").select_option("composite_score")
    expect(page.locator(".plot")).to_have_attribute(
        "aria-label", re.compile("^Composite by the trials' own times, 7 lines")
    )
    scatter = page.locator("svg.scatter")
    expect(scatter).to_have_attribute("aria-label", re.compile("On the frontier, cheapest first: .+"))
    expect(scatter.locator(".point")).to_have_count(3)
    assert page.locator("svg.scatter path.front").count() == 1


def test_tiers_have_grade_uplift_spread_and_variances(page: Page, web: WebProcess, simulated: None) -> None:
    page.goto(f"{web.url}/#/run/{TIERED_RUN}/tiers")
    expect(page.locator("tbody tr")).to_have_count(7)
    expect(page.locator("tbody tr").first).to_contain_text("baseline")
    expect(page.locator("svg.spread")).to_have_count(7)
    expect(page.locator("main")).to_contain_text("Variance of pass rates")
    page.get_by_role("button", name="By agent").click()
    expect(page.locator("tbody tr")).to_have_count(21)
    page.get_by_label("Spread of").select_option("cost_usd")
    expect(page.locator("svg.spread")).to_have_count(21)


def test_without_a_judge_nothing_shows_a_composite_and_grades_rest_on_the_pass_rate(
    page: Page, web: WebProcess, stack: Settings
) -> None:
    publish(stack, trials("unjudged", 0, 3, tier="T0"))
    publish(stack, trials("unjudged", 0, 2, tier="T0", agent="other", resolved=False))
    page.goto(f"{web.url}/#/run/unjudged")
    board = page.get_by_role("region", name="Agents of this run")
    expect(board.get_by_role("row").nth(1)).to_contain_text("pass rate")
    expect(board).not_to_contain_text("Composite")
    for choice in ("Metric", "Quality"):
        select = page.locator("label.field").filter(has=page.get_by_text(choice, exact=True))
        options = select.locator("option").all_text_contents()
        assert "Pass rate" in options
        assert "Composite" not in options
    for words in ("All trials", "each agent has its own"):
        expect(page.locator(".tiles")).to_contain_text(words)
    page.get_by_role("link", name="Tiers", exact=True).click()
    tiers = page.get_by_role("region", name="Tiers of this run")
    expect(tiers).to_contain_text("pass rate")
    expect(page.locator("svg.spread")).to_have_count(1)
    assert "Composite" not in (tiers.text_content() or "")
    page.get_by_role("link", name="Trials", exact=True).click()
    listed = page.get_by_role("region", name="Trials of this run")
    expect(listed.get_by_role("row")).to_have_count(6)
    assert "Composite" not in (listed.text_content() or "")
    listed.get_by_role("button", name="task-0").first.click()
    drawer = page.get_by_role("dialog")
    expect(drawer).to_contain_text("Pass rate")
    expect(drawer).not_to_contain_text(re.compile("Composite|still awaited"))


@pytest.mark.parametrize(
    ("planned", "ended", "age", "word"),
    [
        (1, False, timedelta(), "complete"),
        (2, True, timedelta(), "finished"),
        (2, False, timedelta(), "running"),
        (2, False, timedelta(hours=1), "stalled"),
        (None, False, timedelta(hours=1), "unfinished"),
    ],
)
def test_the_page_names_the_state_of_a_run_as_the_command_line_does(
    page: Page, web: WebProcess, stack: Settings, planned: int | None, ended: bool, age: timedelta, word: str
) -> None:
    run = f"state-{word}"
    at = (datetime.now(UTC) - age).isoformat()
    plan = {"tasks": planned, "attempts": 1} if planned else {}
    events = [a_plan(run_id=run, revision=1, started_at=at, **plan), a_trial(run_id=run, finished_at=at)]
    events += [{"type": "run_finished", "run_id": run, "status": "completed", "finished_at": at}] * ended
    publish(stack, [json.dumps(event).encode() for event in events])
    page.goto(web.url)
    line = page.get_by_role("row").filter(has=page.get_by_role("link", name=run))
    expect(line.locator(f".state-{word}")).to_have_text(word)
    page.goto(f"{web.url}/#/run/{run}")
    expect(page.locator(f".head .state-{word}")).to_have_text(word)


def test_trials_are_filtered_paged_and_opened_with_the_reason(
    page: Page, web: WebProcess, simulated: None
) -> None:
    page.goto(f"{web.url}/#/run/{TIERED_RUN}/trials")
    listed = page.get_by_role("region", name="Trials of this run")
    rows = listed.locator("tbody tr")
    expect(rows).to_have_count(50)
    page.get_by_role("button", name="Next").click()
    expect(page.locator(".pager")).to_contain_text("51–100 of 210")
    page.get_by_label("Outcome").select_option("failed")
    expect(page.locator(".pager")).to_contain_text("that fit, of 210")
    heads = listed.locator("thead th").all_text_contents()
    outcomes = listed.locator(f"tbody tr > :nth-child({heads.index('Outcome') + 1})")
    assert set(outcomes.all_text_contents()) == {"failed"}
    page.get_by_label("Search").fill("task-03")
    expect(rows.first).to_contain_text("task-03")
    rows.first.get_by_role("button").click()
    drawer = page.get_by_role("dialog")
    expect(drawer).to_contain_text("Why it failed")
    expect(drawer).to_contain_text("The harness says that the task is not resolved.")
    page.keyboard.press("Escape")
    expect(drawer).not_to_be_visible()


def test_two_agents_are_compared_on_what_both_have_done(page: Page, web: WebProcess, simulated: None) -> None:
    page.goto(f"{web.url}/#/compare?a={TIERED_RUN}&b={TIERED_RUN}")
    expect(page.locator("main")).to_contain_text("35 tasks in common")
    expect(page.get_by_role("region", name="Totals").locator("tbody tr")).to_have_count(4)
    page.get_by_role("combobox", name="Run B").select_option(PLAIN_RUN)
    expect(page.locator("main")).to_contain_text("They have no task in common.")
