"""The page in headless Chromium, on a live stack: it moves, it resumes, it shows hostile names as text."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from streamer.settings import Settings
from streamer.views.cells import EXPLAINED, SO_FAR
from streamer.views.columns import GRADE_MARKS
from streamer.views.decide.compare import METHODS, STILL_OPEN
from tests.support.cli import found_by, streamer
from tests.support.events import Event, a_plan, a_trial
from tests.support.simulated import PLAIN_RUN, TIERED_RUN
from tests.support.worker_process import wait_for
from tests.web.browsing import WebProcess, a_page, agents_of, counted, field, fits, live, publish, trials
from tests.web.feeding import fed
from tests.web.serving import Serving

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def points(page: Page) -> int:
    return int(page.locator(".plot").get_attribute("data-points") or 0)


def test_the_board_moves_and_the_chart_grows_as_trials_come(page: Page, web: WebProcess) -> None:
    publish(web.settings, trials("moving", 0, 2))
    page.goto(f"{web.url}/#/run/moving")
    board = agents_of(page)
    expect(board.get_by_role("row").nth(1)).to_contain_text("100.0")
    before = points(page)
    for number in range(2, 8):
        publish(web.settings, trials("moving", number, number + 1, resolved=False))
        expect(board.get_by_role("row").nth(1)).to_contain_text(f"{100 * 2 / (number + 1):.1f}")
    wait_for(lambda: points(page) >= before + 3, "the chart has grown")
    publish(web.settings, trials("moving", 0, 1, agent="newcomer"))
    expect(board.get_by_text("newcomer:gpt-5")).to_be_visible()
    expect(page.locator(".legend button")).to_have_count(2)


def test_a_failure_that_was_run_again_is_remarked_below_the_name(page: Page, web: WebProcess) -> None:
    publish(web.settings, trials("again", 0, 2, resolved=False))
    page.goto(f"{web.url}/#/run/again")
    expect(agents_of(page)).to_contain_text("0.0")
    head = page.locator(".head")
    expect(head).not_to_contain_text("plain failure")
    publish(web.settings, trials("again", 0, 1, revision=1))
    expect(head).to_contain_text("1 trial passed after a plain failure: if they crashed")


def test_a_server_that_is_away_leaves_the_last_numbers_in_grey_and_nothing_is_lost(
    page: Page, stack: Settings, tmp_path: Path
) -> None:
    with WebProcess(stack, tmp_path) as web:
        publish(stack, trials("resumed", 0, 3))
        page.goto(f"{web.url}/#/run/resumed")
        board, banner, main = agents_of(page), page.locator(".banner"), page.locator("main")
        expect(board).to_contain_text("100.0")
        web.stop()
        expect(page.locator("#live")).to_have_attribute("data-state", "lost")
        for words in ("Start it again with `streamer up` or `streamer serve`", "Numbers below are from"):
            expect(banner).to_contain_text(words)
        expect(main).to_have_class("stale")
        expect(board.locator("tbody tr").first).to_be_visible()
        publish(stack, trials("resumed", 3, 12, resolved=False))
        web.start()
        live(page)
        expect(banner).not_to_be_visible()
        expect(main).not_to_have_class("stale")
        expect(board.get_by_role("row").nth(1)).to_contain_text("25.0")
        expect(page.locator(".tile").first).to_contain_text("12")
        publish(stack, trials("resumed", 12, 15, resolved=False))
        expect(board.get_by_role("row").nth(1)).to_contain_text("20.0")
        fresh = page.context.new_page()
        fresh.goto(f"{web.url}/#/run/resumed")
        for one in (page, fresh):
            expect(one.locator(".legend b")).to_have_text("20.0\u00a0%")
        wait_for(lambda: points(page) >= points(fresh) >= 2, "both pages have drawn the history")


def test_a_chart_says_that_it_is_loading_switches_metric_and_groups_and_names_the_frontier(
    page: Page, web: WebProcess, simulated: None
) -> None:
    held: list[Route] = []
    page.route(re.compile("/curves$"), lambda route: held.append(route), times=1)
    with page.expect_request(re.compile("/curves$")):
        page.goto(f"{web.url}/#/run/{TIERED_RUN}")
    note, lines = page.locator(".chart-note"), page.locator(".legend button")
    expect(note).to_have_text("Loading the curves…")
    held[0].continue_()
    expect(note).to_contain_text("Along: time, UTC.")
    expect(lines).to_have_count(3)
    page.get_by_role("button", name="Tiers", exact=True).click()
    expect(lines).to_have_count(7)
    page.get_by_label("Metric").select_option("composite_score")
    drawn = re.compile("^Composite by the trials' own times, 7 lines")
    expect(page.locator(".plot")).to_have_attribute("aria-label", drawn)
    scatter = page.locator("svg.scatter")
    expect(scatter).to_have_attribute("aria-label", re.compile("On the frontier, cheapest first: .+"))
    expect(scatter.locator(".point")).to_have_count(3)
    expect(scatter.locator("path.front")).to_have_count(1)


def test_tiers_have_grade_uplift_spread_and_variances(page: Page, web: WebProcess, simulated: None) -> None:
    page.goto(f"{web.url}/#/run/{TIERED_RUN}/tiers")
    expect(page.locator("tbody tr")).to_have_count(7)
    expect(page.locator("tbody tr").first).to_contain_text("baseline")
    expect(page.locator("svg.spread")).to_have_count(7)
    expect(page.locator("main")).to_contain_text("Variance of median pass rates")
    expect(page.locator("main")).to_contain_text(GRADE_MARKS)
    page.get_by_role("button", name="By agent").click()
    expect(page.locator("tbody tr")).to_have_count(21)
    page.get_by_label("Spread of").select_option("cost_usd")
    expect(page.locator("svg.spread")).to_have_count(21)


def test_a_run_without_tiers_and_judge_shows_grades_when_they_are_ticked(page: Page, web: WebProcess) -> None:
    publish(web.settings, trials("ungraded", 0, 3))
    page.goto(f"{web.url}/#/run/ungraded")
    board, marks = agents_of(page), page.get_by_text(GRADE_MARKS)
    expect(board).to_contain_text("100.0 %")
    expect(board).not_to_contain_text("Grade")
    expect(marks).to_be_hidden()
    page.get_by_label("Grades").check()
    expect(board).to_contain_text("Grade")
    expect(marks).to_be_visible()
    assert page.url.endswith("?grades=1")


def test_without_a_judge_grades_rest_on_the_pass_rate_alone(page: Page, web: WebProcess) -> None:
    failed = trials("unjudged", 0, 2, tier="T0", agent="other", resolved=False)
    publish(web.settings, trials("unjudged", 0, 3, tier="T0") + failed)
    page.goto(f"{web.url}/#/run/unjudged")
    expect(page.get_by_text("grade: by pass rate.")).to_be_visible()
    expect(agents_of(page)).not_to_contain_text("Composite")
    for choice in ("Metric", "Quality"):
        select = field(page, choice)
        expect(select).to_have_value("pass_rate")
        assert "Composite" not in select.locator("option").all_text_contents()
    for words in ("All agents", "within tiers"):
        expect(page.locator(".tiles")).to_contain_text(words)
    page.get_by_role("link", name="Tiers", exact=True).click()
    for words in ("grade: by pass rate.", EXPLAINED[SO_FAR]):
        expect(page.locator(".notes")).to_contain_text(words)
    expect(page.locator("svg.spread")).to_have_count(1)
    expect(page.get_by_role("region", name="Tiers of this run")).not_to_contain_text("Composite")
    page.get_by_role("link", name="Trials", exact=True).click()
    listed = page.get_by_role("region", name="Trials of this run")
    expect(listed.get_by_role("row")).to_have_count(6)
    expect(listed).not_to_contain_text("Composite")
    listed.get_by_role("link", name="task-0").first.click()
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
    page: Page, web: WebProcess, planned: int | None, ended: bool, age: timedelta, word: str
) -> None:
    run = f"state-{word}"
    at = (datetime.now(UTC) - age).isoformat()
    plan = {"tasks": planned, "attempts": 1} if planned else {}
    events = [a_plan(run_id=run, revision=1, started_at=at, **plan), a_trial(run_id=run, finished_at=at)]
    publish(web.settings, events + [{"type": "run_finished", "run_id": run, "finished_at": at}] * ended)
    page.goto(web.url)
    line = page.get_by_role("row").filter(has=page.get_by_role("link", name=run))
    expect(line.locator(f".state-{word}")).to_have_text(word)
    page.goto(f"{web.url}/#/run/{run}")
    expect(page.locator(f".head .state-{word}")).to_have_text(word)


def test_trials_are_filtered_paged_and_say_why(page: Page, web: WebProcess, simulated: None) -> None:
    page.goto(f"{web.url}/#/run/{TIERED_RUN}/trials")
    expect(page).to_have_title(re.compile("^100 % Demo: prompt tiers · streamer$"))
    listed = page.get_by_role("region", name="Trials of this run")
    rows, pager = listed.locator("tbody tr"), page.locator(".pager")
    expect(rows).to_have_count(50)
    for button, shown in (("Next", "51–100"), ("Last", "201–210"), ("First", "1–50")):
        page.get_by_role("button", name=button).click()
        expect(pager).to_contain_text(f"{shown} of 210")
        assert page.get_by_role("button", name="Last").is_disabled() == (button == "Last")
    page.get_by_label("Outcome").select_option("failed")
    expect(pager).to_contain_text("that fit, of 210")
    heads = listed.locator("thead th").all_text_contents()
    outcomes = listed.locator(f"tbody tr > :nth-child({heads.index('Outcome') + 1})")
    assert set(outcomes.all_text_contents()) == {"failed"}
    page.get_by_label("Search").fill("task-03")
    expect(rows.first).to_contain_text("task-03")
    rows.first.get_by_role("link").click()
    drawer = page.get_by_role("dialog")
    expect(drawer).to_contain_text("Why it failed")
    expect(drawer).to_contain_text("The harness says that the task is not resolved.")
    page.keyboard.press("Escape")
    expect(drawer).not_to_be_visible()


def test_an_unknown_address_says_so_and_leads_to_the_runs(page: Page, web: WebProcess) -> None:
    page.goto(f"{web.url}/#/rnu/x")
    expect(page.get_by_role("alert")).to_contain_text("There is no page #/rnu/x.")
    expect(page).to_have_title("No such page · streamer")
    page.get_by_role("link", name="All runs").click()
    expect(page.get_by_role("region", name="Runs").first).to_be_visible()
    expect(page).to_have_title("Runs · streamer")


def test_two_agents_are_compared_on_what_both_have_done(page: Page, web: WebProcess, simulated: None) -> None:
    page.goto(f"{web.url}/#/compare?a={TIERED_RUN}&b={TIERED_RUN}")
    expect(page.locator("main")).to_contain_text("35 tasks in common")
    expect(page.get_by_role("region", name="Totals").locator("tbody tr")).to_have_count(4)
    page.get_by_role("combobox", name="Run B").select_option(PLAIN_RUN)
    expect(page.locator("main")).to_contain_text("They have no task in common.")


# -----------------------------------------------------------------------------
# A budget on the page: from the address, from its field, along from part to part.


RUN = "costly"


@pytest.fixture(scope="module")
def costly(stack: Settings) -> None:
    """Ten of twenty trials in, half a dollar and ten minutes each."""
    start = datetime.now(UTC) - timedelta(minutes=101)
    plan = {"tasks": 20, "attempts": 1, "agent_models": ["terminus:gpt-5"], "started_at": start.isoformat()}
    fields = {"run_id": RUN, "cost_usd": 0.5, "duration_seconds": 600.0}
    ends = [(start + timedelta(minutes=10 * number)).isoformat() for number in range(1, 11)]
    results = [a_trial(task_id=f"t{number}", finished_at=end, **fields) for number, end in enumerate(ends)]
    publish(stack, [a_plan(run_id=RUN, **plan), *results])


def test_a_budget_stands_in_the_address_and_goes_along(sized: Page, web: WebProcess, costly: None) -> None:
    page, cost = sized, sized.locator(".tile").filter(has_text="Cost")
    page.goto(f"{web.url}/#/run/{RUN}?budget=6")
    expect(cost).to_contain_text(re.compile(r"forecast: the budget of \$6.00 is passed about \d\d:\d\d UTC"))
    assert fits(page)
    budget = page.get_by_label("Budget, $")
    expect(budget).to_have_value("6")
    for amount, stands in (("-1", "6"), ("100", "100")):
        budget.fill(amount)
        budget.press("Enter")
        expect(page).to_have_url(re.compile(rf"#/run/costly\?budget={stands}$"))
    expect(cost).to_contain_text("forecast: the budget of $100.00 is not passed")
    for part in ("Trials", "Compare"):
        page.get_by_role("navigation", name="Parts").get_by_role("link", name=part).click()
        expect(cost).to_contain_text("forecast: the budget of $100.00 is not passed")
    expect(page.locator(".error")).to_have_count(0)
    page.get_by_role("combobox", name="Run B").select_option(RUN)
    assert fits(page)
    page.goto(f"{web.url}/#/run/{RUN}")
    expect(cost).to_contain_text("forecast: about")
    assert "budget" not in cost.inner_text()


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


# -----------------------------------------------------------------------------
# Two sides on the page: the sentences of `streamer compare`, intervals, and what one side alone passes.


TASKS = [f"t{number:02}" for number in range(20)]


def a_run(run_id: str, letters: str, day: int, **fields: Any) -> list[Event]:
    """A shuffled run of one agent: `+` passed, `-` did not; a task without a letter is not in."""
    at = f"2026-01-0{day}T00:00:00Z"
    plan = {"tasks": TASKS, "attempts": 1, "order": TASKS, "order_kind": "shuffled", "started_at": at}
    fields |= {"run_id": run_id, "finished_at": at, "agent": f"<b>{run_id}", "model": "m"}
    verdicts: dict[str, dict[str, Any]] = {
        "+": {"resolved": True},
        "-": {"resolved": False, "failure_mode": "agent_timeout"},
    }
    ended = zip(TASKS, letters, strict=False)
    return [
        a_plan(run_id=run_id, **plan),
        *(a_trial(task_id=task, **verdicts[letter], **fields) for task, letter in ended),
    ]


@pytest.fixture(scope="module")
def compared(stack: Settings) -> Settings:
    """Three runs on the stack: two have ended, and `later` goes on."""
    events = a_run("base", "+" * 20, 1, cost_usd=1.0, metrics={"wait": 2.0})
    events += a_run("later", "-" * 12, 2)
    events += a_run("worse", "-+" * 10, 3, cost_usd=3.0, metrics={"wait": 2.0})
    publish(stack, events)
    counted(stack, 12, "later")
    counted(stack, 20, "base", "worse")
    return stack


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ("later", "<b>base:m of base ahead of <b>later:m of later in the final pass rate: ["),
        ("worse", "<b>base:m of base ahead on tasks like these: sign test p = 0.00195"),
    ],
)
def test_the_page_says_what_the_command_prints(
    sized: Page, web: WebProcess, compared: Settings, other: str, told: str
) -> None:
    done = streamer("compare", "base", other, environment=found_by(compared))
    printed = done.stdout.decode().partition("\n\n")[0].splitlines()
    assert any(line.startswith(told) for line in printed), done
    sized.goto(f"{web.url}/#/compare?a=base&b={other}")
    expect(sized.locator(".said p")).to_have_text(printed)
    assert fits(sized)


def test_intervals_stand_at_the_end_and_not_before_and_tasks_of_one_side_alone_are_named(
    sized: Page, web: WebProcess, compared: Settings
) -> None:
    sized.goto(f"{web.url}/#/compare?a=base&b=worse")
    totals = sized.get_by_role("region", name="Totals")
    rows = totals.locator("tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.nth(0)).to_contain_text("[−71.6, −21.9]")  # Newcombe of 20 and 10 of 20 (inference 7)
    expect(rows.nth(1)).to_contain_text("[$2.00, $2.00]")
    expect(rows.nth(2)).to_contain_text("wait")
    expect(sized.get_by_text(METHODS)).to_be_visible()
    sized.goto(f"{web.url}/#/compare?a=base&b=later")
    expect(sized.get_by_text(STILL_OPEN)).to_be_visible()
    assert "95 %" not in totals.locator("thead th").all_text_contents()
    sized.get_by_text("8 tasks only in A").click()
    expect(sized.locator("details[open] li")).to_have_text(TASKS[12:])


def test_flips_are_grouped_and_lead_to_the_trials(sized: Page, web: WebProcess, compared: Settings) -> None:
    sized.goto(f"{web.url}/#/compare?a=worse&b=base")
    groups = sized.get_by_role("region", name="Tasks that only one side passes").locator("tbody tr")
    expect(groups).to_have_count(1)
    for words in ("B alone", "agent_timeout", "10"):
        expect(groups).to_contain_text(words)
    groups.get_by_text("10 tasks").click()
    expect(groups.locator("li")).to_have_count(10)
    assert fits(sized)
    groups.get_by_role("link", name="t04").click()
    rows = sized.get_by_role("region", name="Trials of this run").locator("tbody tr")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("failed")
    sized.go_back()
    expect(groups).to_have_count(1)


def test_sides_that_were_made_in_different_ways_are_judged_at_the_press_of_a_button(
    sized: Page, web: WebProcess, compared: Settings
) -> None:
    events = a_run("slower", "-+" * 10, 4, provenance={"timeout": "900"})
    publish(web.settings, events + a_run("faster", "+" * 20, 5, provenance={"timeout": "600"}))
    counted(web.settings, 20, "slower", "faster")
    sized.goto(f"{web.url}/#/compare?a=faster&b=slower")
    said, ahead = sized.locator(".said"), "ahead on tasks like these: sign test"
    expect(said).to_contain_text("timeout 600 against 900")
    expect(said).not_to_contain_text(ahead)
    button = sized.get_by_role("button", name="Judge them anyway")
    button.click()
    for words in (ahead, "timeout 600 against 900"):
        expect(said).to_contain_text(words)
    expect(button).to_have_count(0)
    assert "allow=timeout" in sized.url
    assert fits(sized)
    sized.get_by_role("combobox", name="Agent of A").select_option(index=1)
    expect(button).to_be_visible()
    expect(said).not_to_contain_text(ahead)
    assert "allow=timeout" not in sized.url


def test_a_run_against_itself_has_two_agents(page: Page, web: WebProcess, compared: Settings) -> None:
    pairs = (("nop", "nop"), ("b", "m"), ("c", "m"))
    publish(web.settings, [a_trial(run_id="pair", task_id="t00", agent=agent, model=m) for agent, m in pairs])
    counted(web.settings, 3, "pair")
    page.goto(f"{web.url}/#/compare?a=base&b=later")
    for side in "AB":
        page.get_by_role("combobox", name=f"Run {side}").select_option("pair")
    for side, label in (("A", "b:m"), ("B", "c:m")):
        expect(page.get_by_role("combobox", name=f"Agent of {side}")).to_have_value(label)
    expect(page.locator(".said p").first).to_contain_text("pair: b:m, 1 trial of the common tasks")


# -----------------------------------------------------------------------------
# The page on FormulaCode's trials, and on a server that asks for a token.


TOKEN = "correct-horse-battery"
BENCHMARKS = {f"suite.Class.time_{n}": {"agent/nop": 1.0 + n / 10, "oracle/nop": 1.5} for n in range(5)}
MEASURED = {"benchmarks": BENCHMARKS, "finished_at": "2026-01-02T03:04:05Z"}
FAILING = {"status": "failed", "passed": 90, "failed": 7, "error": 2, "skipped": 1, "total": 100}
PASSING = {"status": "ok", "passed": 100, "failed": 0, "error": 0, "skipped": 0, "total": 100}
FORMULACODE = [
    a_trial(task_id="good", tests=PASSING, cost_usd=1.0, **MEASURED),
    a_trial(task_id="broken", tests=FAILING, cost_usd=2.0, **MEASURED),
]


def test_a_trial_that_fell_back_says_why_with_benchmarks(logged: Settings, api: Serving, page: Page) -> None:
    fed(logged, FORMULACODE, log=True)
    page.goto(f"{api.url}/#/run/run-1/trials")
    broken = page.get_by_role("row").filter(has_text="broken")
    expect(broken).to_contain_text("fell back")
    broken.get_by_role("link").click()
    drawer = page.get_by_role("dialog")
    expect(drawer).to_contain_text("it counts as if the agent had changed nothing")
    expect(drawer).to_contain_text("The test suite failed: 9 failed of 100 (failed).")
    measured = drawer.get_by_role("region", name="Benchmarks of this trial")
    expect(measured.locator("tbody tr")).to_have_count(5)
    page.keyboard.press("Escape")
    page.get_by_role("link", name="Board", exact=True).click()
    expect(page.get_by_role("columnheader", name="Speedup")).to_be_visible()


def test_many_runs_stand_on_pages_and_are_searched(logged: Settings, api: Serving, page: Page) -> None:
    fed(logged, [a_plan(run_id=f"run {number:03}", tasks=4) for number in range(230)])
    page.goto(api.url)
    live(page)
    rows, pager = page.locator("tbody tr"), page.locator(".pager")
    expect(rows).to_have_count(100)
    expect(pager).to_contain_text("1–100 of 230")
    seen = set(rows.get_by_role("link").all_text_contents())
    for words in ("101–200 of 230", "201–230 of 230"):
        page.get_by_role("button", name="Next").click()
        expect(pager).to_contain_text(words)
        seen |= set(rows.get_by_role("link").all_text_contents())
    assert len(seen) == 230
    page.get_by_role("columnheader", name="Run", exact=True).get_by_role("button").click()
    expect(rows.first).to_contain_text("run 000")
    expect(pager).to_contain_text("1–100 of 230")
    page.get_by_role("button", name="Next").click()
    expect(rows.first).to_contain_text("run 100")
    page.reload()
    expect(pager).to_contain_text("1–100 of 230")
    fed(logged, [a_trial(run_id="the newest", finished_at=datetime.now(UTC).isoformat())])
    expect(rows.first).to_contain_text("the newest")
    expect(pager).to_contain_text("1–100 of 231")
    page.get_by_role("searchbox").fill("RUN 22")
    expect(rows).to_have_count(10)
    expect(pager).to_contain_text("1–10 of 10 that fit, of 231")
    assert page.url.endswith("#/runs?search=RUN+22")
    page.reload()
    expect(rows).to_have_count(10)
    page.get_by_role("searchbox").fill("nothing")
    expect(page.get_by_text("No run fits.")).to_be_visible()
    page.goto(f"{api.url}/#/compare?a=run+001&b=run+002")
    expect(page.get_by_role("combobox", name="Run A")).to_have_value("run 001")


def test_a_label_narrows_the_runs_beside_a_search(logged: Settings, api: Serving, page: Page) -> None:
    teams = ("x", "a&b=c d%", "a&b=c d%")
    fed(logged, [a_plan(run_id=f"run {n}", tasks=4, labels={"team": team}) for n, team in enumerate(teams)])
    page.goto(f"{api.url}/#/?search=run+")
    live(page)
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(3)
    rows.get_by_role("link", name="team=a&b=c d%").first.click()
    expect(rows).to_have_count(2)
    page.reload()
    expect(rows).to_have_count(2)
    page.get_by_role("searchbox").fill("run 2")
    expect(rows).to_have_count(1)
    page.get_by_role("link", name="Without the label").click()
    expect(rows).to_have_count(1)
    assert "search=run+2" in page.url
    assert "label" not in page.url
    page.go_back()
    expect(page.get_by_role("link", name="Without the label")).to_be_visible()


def test_speedup_and_advantage_are_drawn_over_event_time(logged: Settings, api: Serving, page: Page) -> None:
    fed(logged, FORMULACODE, log=True)
    history = api.get("/api/runs/run-1/history?kind=agent_model").json()
    agent = api.get("/api/runs/run-1/agents").json()[0]["formulacode"]
    assert history[-1]["mean_speedup"] == agent["mean_speedup"] > 1.0
    assert history[-1]["agent_advantage"] == agent["agent_advantage"]
    page.goto(f"{api.url}/#/run/run-1")
    live(page)
    for metric, title in (("mean_speedup", "Speedup"), ("agent_advantage", "Advantage")):
        page.get_by_label("Metric").select_option(metric)
        drawn = re.compile(f"^{title} by the trials' own times, 1 line")
        expect(page.locator(".plot")).to_have_attribute("aria-label", drawn)
        expect(page.locator(".legend b")).to_have_text(re.compile(r"-?\d"))


def test_a_server_with_a_token_asks_for_it_once(logged: Settings, browser: Browser) -> None:
    fed(logged, FORMULACODE, log=True)
    with Serving(logged, token=TOKEN) as serving, a_page(browser, "401") as page:
        page.goto(serving.url)
        expect(page.get_by_role("heading", name="This server asks for a token")).to_be_visible()
        given, button = page.get_by_role("textbox", name="Token"), page.get_by_role("button", name="Open")
        given.fill("wrong")
        button.click()
        expect(page.get_by_role("alert")).to_contain_text("Wrong token.")
        given.fill(TOKEN)
        button.click()
        live(page)
        expect(page.get_by_role("link", name="run-1")).to_be_visible()
        page.reload()
        live(page)
        page.context.clear_cookies()
        page.goto(f"{serving.url}/?token={TOKEN}#/run/run-1")
        live(page)
        assert "token" not in page.url
