"""The page in headless Chromium, on a live stack: it moves, it resumes, it shows hostile names as text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from streamer.settings import Settings
from tests.support.events import a_plan, a_trial
from tests.support.simulated import PLAIN_RUN, TIERED_RUN, simulate
from tests.support.worker_process import wait_for
from tests.web.browsing import WebProcess, a_browser, a_stack, live, publish, watched

pytestmark = [pytest.mark.browser, pytest.mark.slow]

START = datetime.now(UTC) - timedelta(hours=9)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with a_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def stack(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    with a_stack(tmp_path_factory.mktemp("stack")) as settings:
        yield settings


@pytest.fixture(scope="module")
def web(stack: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebProcess]:
    with WebProcess(stack, tmp_path_factory.mktemp("web")) as web:
        yield web


@pytest.fixture(scope="module")
def simulated(stack: Settings) -> None:
    publish(stack, simulate(seed=5, start=START))


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A new page; errors in its console fail the test, unless the server was away."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    with watched(page) as said:
        yield page
    context.close()
    assert [line for line in said if "ERR_CONNECTION" not in line] == []


def row(page: Page, text: str) -> str:
    return page.get_by_role("row").filter(has_text=text).inner_text()


def trials(run: str, first: int, last: int, **fields: object) -> list[bytes]:
    found = []
    for number in range(first, last):
        at = (START + timedelta(minutes=number)).isoformat()
        event = a_trial(run_id=run, task_id=f"task-{number}", finished_at=at, cost_usd=0.5, **fields)
        found.append(json.dumps(event).encode())
    return found


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
    assert points(page) >= before + 3
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
        expect(page.locator("tbody tr")).to_have_count(len(HOSTILE))
        shown = main.text_content() or ""
    for text in HOSTILE.values():
        assert text in shown
    assert page.locator("main script, main img, main b b, main i i, main u, main s").count() == 0
    assert "owned" not in page.title()
    width = page.evaluate("() => document.documentElement.scrollWidth")
    assert width <= 1280


def test_a_hostile_trial_opens_as_text(page: Page, web: WebProcess, hostile: str) -> None:
    page.goto(f"{web.url}/#/run/%3Cb%3Ebold%3C%2Fb%3E%2F%E2%80%AErun/trials")
    page.locator("tbody button.link").filter(has_text="<script>").click()
    drawer = page.get_by_role("dialog")
    expect(drawer).to_contain_text("The harness says: <script>document.title='owned'</script>.")
    drawer.get_by_text("Payload as published").click()
    expect(drawer.locator("pre")).to_contain_text('"task_id": "<script>')
    assert drawer.locator("script").count() == 0


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


def test_charts_switch_metric_and_groups_and_the_frontier_names_who_is_on_it(
    page: Page, web: WebProcess, simulated: None
) -> None:
    page.goto(f"{web.url}/#/run/{TIERED_RUN}")
    expect(page.locator(".legend button")).to_have_count(3)
    page.get_by_role("button", name="Tiers", exact=True).click()
    expect(page.locator(".legend button")).to_have_count(7)
    page.get_by_label("Metric").select_option("composite_score")
    expect(page.locator(".plot")).to_have_attribute(
        "aria-label", re.compile("^Composite over event time, 7 lines")
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
    page.goto(f"{web.url}/#/leaders")
    place = page.get_by_role("row").filter(has_text=run)
    expect(place.locator(f".state-{word}")).to_have_text(word)


def test_trials_are_filtered_paged_and_opened_with_the_reason(
    page: Page, web: WebProcess, simulated: None
) -> None:
    page.goto(f"{web.url}/#/run/{TIERED_RUN}/trials")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(50)
    page.get_by_role("button", name="Next").click()
    expect(page.locator(".pager")).to_contain_text("51–100 of 210")
    page.get_by_label("Outcome").select_option("failed")
    expect(page.locator(".pager")).to_contain_text("that fit, of 210")
    heads = page.locator("thead th").all_text_contents()
    outcomes = page.locator(f"tbody tr > :nth-child({heads.index('Outcome') + 1})")
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
    page.get_by_label("Second run").select_option(PLAIN_RUN)
    expect(page.locator("main")).to_contain_text("They have no task in common.")


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


def test_the_first_paint_comes_within_a_second_with_ten_thousand_trials(
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
    painted = page.evaluate("() => performance.getEntriesByName('first-contentful-paint')[0].startTime")
    board = page.evaluate("() => performance.now()")
    assert painted < 1000
    assert board < 5000
    bytes_ = page.evaluate(
        "() => performance.getEntriesByType('resource').reduce((sum, one) => sum + one.transferSize, 0)"
    )
    assert bytes_ < 500_000
    page.get_by_role("link", name="Trials", exact=True).click()
    expect(page.locator(".pager")).to_contain_text("1–50 of 10,000")
