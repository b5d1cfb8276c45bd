"""The page in headless Chromium, on a live stack: it moves, it resumes, it shows hostile names as text."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from streamer.client.readers import StateReader
from streamer.settings import Settings
from streamer.views.cells import EXPLAINED, SO_FAR
from streamer.views.columns import GRADE_MARKS
from streamer.views.decide.compare import METHODS, STILL_OPEN
from tests.support.cli import streamer
from tests.support.events import a_plan, a_trial
from tests.support.simulated import PLAIN_RUN, TIERED_RUN
from tests.support.worker_process import wait_for
from tests.web.browsing import WebProcess, live, publish, trials, watched
from tests.web.feeding import Event, Feed
from tests.web.serving import Serving

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


def test_a_failure_that_was_run_again_is_remarked_below_the_name_of_the_run(
    page: Page, web: WebProcess, stack: Settings
) -> None:
    publish(stack, trials("again", 0, 2, resolved=False))
    page.goto(f"{web.url}/#/run/again")
    expect(page.get_by_role("region", name="Agents of this run")).to_contain_text("0.0")
    expect(page.locator(".head")).not_to_contain_text("plain failure")
    publish(stack, trials("again", 0, 1, revision=1))
    expect(page.locator(".head")).to_contain_text("1 trial passed after a plain failure: if they crashed")


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


def test_a_chart_says_that_it_is_loading(page: Page, web: WebProcess, simulated: None) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route(re.compile("/curves$"), hold, times=1)
    with page.expect_request(re.compile("/curves$")):
        page.goto(f"{web.url}/#/run/{TIERED_RUN}")
    note = page.locator(".chart-note")
    expect(note).to_have_text("Loading the curves…")
    held[0].continue_()
    expect(note).to_contain_text("Along: time, UTC.")


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


def test_a_run_without_tiers_and_judge_shows_grades_when_they_are_ticked(
    page: Page, web: WebProcess, stack: Settings
) -> None:
    publish(stack, trials("ungraded", 0, 3))
    page.goto(f"{web.url}/#/run/ungraded")
    board = page.get_by_role("region", name="Agents of this run")
    expect(board).to_contain_text("100.0 %")
    expect(board).not_to_contain_text("Grade")
    marks = page.get_by_text(GRADE_MARKS)
    expect(marks).to_be_hidden()
    page.get_by_label("Grades").check()
    expect(board).to_contain_text("Grade")
    expect(marks).to_be_visible()
    assert page.url.endswith("?grades=1")


def test_without_a_judge_nothing_shows_a_composite_and_grades_rest_on_the_pass_rate(
    page: Page, web: WebProcess, stack: Settings
) -> None:
    publish(stack, trials("unjudged", 0, 3, tier="T0"))
    publish(stack, trials("unjudged", 0, 2, tier="T0", agent="other", resolved=False))
    page.goto(f"{web.url}/#/run/unjudged")
    board = page.get_by_role("region", name="Agents of this run")
    expect(page.get_by_text("grade: by pass rate.")).to_be_visible()
    expect(board).not_to_contain_text("Composite")
    for choice in ("Metric", "Quality"):
        select = page.locator("label.field").filter(has=page.get_by_text(choice, exact=True))
        options = select.locator("option").all_text_contents()
        assert "Pass rate" in options
        assert "Composite" not in options
    for words in ("All agents", "within tiers"):
        expect(page.locator(".tiles")).to_contain_text(words)
    page.get_by_role("link", name="Tiers", exact=True).click()
    tiers = page.get_by_role("region", name="Tiers of this run")
    expect(page.locator(".notes")).to_contain_text("grade: by pass rate.")
    expect(page.locator(".notes")).to_contain_text(EXPLAINED[SO_FAR])
    expect(page.locator("svg.spread")).to_have_count(1)
    assert "Composite" not in (tiers.text_content() or "")
    page.get_by_role("link", name="Trials", exact=True).click()
    listed = page.get_by_role("region", name="Trials of this run")
    expect(listed.get_by_role("row")).to_have_count(6)
    assert "Composite" not in (listed.text_content() or "")
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


def test_the_first_and_the_last_page_are_one_step_away(page: Page, web: WebProcess, simulated: None) -> None:
    page.goto(f"{web.url}/#/run/{TIERED_RUN}/trials")
    pager = page.locator(".pager")
    expect(pager).to_contain_text("1–50 of 210")
    page.get_by_role("button", name="Last").click()
    expect(pager).to_contain_text("201–210 of 210")
    expect(page.get_by_role("button", name="Last")).to_be_disabled()
    page.get_by_role("button", name="First").click()
    expect(pager).to_contain_text("1–50 of 210")
    expect(page).to_have_title(re.compile("^100 % Demo: prompt tiers · streamer$"))


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
@pytest.mark.in_turn(2)
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


# -----------------------------------------------------------------------------
# Two sides on the page: the sentences of `streamer compare`, intervals, and what one side alone passes.


TASKS = [f"t{number:02}" for number in range(20)]


def a_run(run_id: str, letters: str, day: int, **fields: Any) -> list[dict[str, Any]]:
    """A shuffled run of one agent: `+` passed, `-` did not; a task without a letter is not in."""
    at = f"2026-01-0{day}T00:00:00Z"
    plan = {"tasks": TASKS, "attempts": 1, "order": TASKS, "order_kind": "shuffled", "started_at": at}
    trials = [
        a_trial(
            run_id=run_id,
            task_id=task,
            finished_at=at,
            agent=f"<b>{run_id}",
            model="m",
            resolved=letter == "+",
            failure_mode=None if letter == "+" else "agent_timeout",
            **fields,
        )
        for task, letter in zip(TASKS, letters, strict=False)
    ]
    return [a_plan(run_id=run_id, **plan), *trials]


@pytest.fixture(scope="module")
def environment(stack: Settings) -> dict[str, str]:
    """What a command needs to find three runs: two have ended, and `later` goes on."""
    events = a_run("base", "+" * 20, 1, cost_usd=1.0, metrics={"wait": 2.0})
    events += a_run("later", "-" * 12, 2)
    events += a_run("worse", "-+" * 10, 3, cost_usd=3.0, metrics={"wait": 2.0})
    publish(stack, [json.dumps(event).encode() for event in events])
    wait_for(lambda: done(stack) == [20, 12, 20], "all trials are counted")
    return {
        "STREAMER_BOOTSTRAP": stack.bootstrap,
        "STREAMER_REDIS": stack.redis,
        "STREAMER_NAMESPACE": stack.namespace,
        "STREAMER_EMBEDDED": "true",
    }


def done(stack: Settings) -> list[int]:
    """Trials that are in, by run."""
    with StateReader(stack) as reader:
        counts = {run.run_id: run.progress.done for run in reader.runs()}
    return [counts.get(run_id, 0) for run_id in ("base", "later", "worse")]


@pytest.fixture(params=[pytest.param(width, marks=pytest.mark.in_turn(2)) for width in (360, 1280)])
def sized(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page of each width; errors in its console fail the test."""
    context = browser.new_context(viewport={"width": request.param, "height": 800})
    page = context.new_page()
    with watched(page) as said:
        yield page
    context.close()
    assert said == []


def fits(page: Page) -> bool:
    return bool(page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth"))


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ("later", "<b>base:m of base ahead of <b>later:m of later in the final pass rate: ["),
        ("worse", "<b>base:m of base ahead on tasks like these: sign test p = 0.00195"),
    ],
)
def test_the_page_says_what_the_command_prints(
    sized: Page, web: WebProcess, environment: dict[str, str], other: str, told: str
) -> None:
    done = streamer("compare", "base", other, environment=environment)
    printed = done.stdout.decode().partition("\n\n")[0].splitlines()
    assert any(line.startswith(told) for line in printed), done
    sized.goto(f"{web.url}/#/compare?a=base&b={other}")
    expect(sized.locator(".said p")).to_have_text(printed)
    assert fits(sized)


def test_intervals_stand_at_the_end_and_not_before(
    sized: Page, web: WebProcess, environment: dict[str, str]
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


def test_flips_are_grouped_and_lead_to_the_trials_that_failed(
    sized: Page, web: WebProcess, environment: dict[str, str]
) -> None:
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
    sized: Page, web: WebProcess, stack: Settings, environment: dict[str, str]
) -> None:
    events = a_run("slower", "-+" * 10, 4, provenance={"timeout": "900"})
    events += a_run("faster", "+" * 20, 5, provenance={"timeout": "600"})
    publish(stack, [json.dumps(event).encode() for event in events])
    with StateReader(stack) as reader:
        for run in ("slower", "faster"):
            reader.wait_for(run, lambda result: result.progress.done == 20, timeout_seconds=30)
    sized.goto(f"{web.url}/#/compare?a=faster&b=slower")
    said, ahead = sized.locator(".said"), "ahead on tasks like these: sign test"
    expect(said).to_contain_text("timeout 600 against 900")
    expect(said).not_to_contain_text(ahead)
    button = sized.get_by_role("button", name="Judge them anyway")
    button.click()
    expect(said).to_contain_text(ahead)
    expect(said).to_contain_text("timeout 600 against 900")
    expect(button).to_have_count(0)
    assert "allow=timeout" in sized.url
    assert fits(sized)
    sized.get_by_role("combobox", name="Agent of A").select_option(index=1)
    expect(button).to_be_visible()
    expect(said).not_to_contain_text(ahead)
    assert "allow=timeout" not in sized.url


def test_a_run_against_itself_begins_with_two_of_its_agents(
    page: Page, web: WebProcess, stack: Settings, environment: dict[str, str]
) -> None:
    run = {"run_id": "pair", "task_id": "t00"}
    events = [
        a_trial(**run, agent=agent, model=model) for agent, model in (("nop", "nop"), ("b", "m"), ("c", "m"))
    ]
    publish(stack, [json.dumps(event).encode() for event in events])
    with StateReader(stack) as reader:
        reader.wait_for("pair", lambda result: result.progress.done == 3, timeout_seconds=30)
    page.goto(f"{web.url}/#/compare?a=base&b=later")
    chosen = [page.get_by_role("combobox", name=f"Agent of {side}") for side in "AB"]
    for side in "AB":
        page.get_by_role("combobox", name=f"Run {side}").select_option("pair")
    for select, label in zip(chosen, ("b:m", "c:m"), strict=True):
        expect(select).to_have_value(label)
    expect(page.locator(".said p").first).to_contain_text("pair: b:m, 1 trial of the common tasks")


def test_tasks_of_one_side_alone_are_named(page: Page, web: WebProcess, environment: dict[str, str]) -> None:
    page.goto(f"{web.url}/#/compare?a=base&b=later")
    page.get_by_text("8 tasks only in A").click()
    expect(page.locator("details[open] li")).to_have_text(TASKS[12:])


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


@pytest.fixture
def unlocked_page(browser: Browser) -> Iterator[Page]:
    """A page that may be refused for its token; other errors in its console fail the test."""
    context = browser.new_context()
    page = context.new_page()
    with watched(page) as said:
        yield page
    context.close()
    assert [line for line in said if "401" not in line] == []


def fed(settings: Settings, events: Iterable[Event] = FORMULACODE) -> None:
    """Runs in Redis and in the log; by default two FormulaCode trials, one of which broke the tests."""

    async def feed() -> None:
        async with Feed(settings, log=True) as feed:
            await feed.take(events)

    thread = threading.Thread(target=lambda: asyncio.run(feed()))  # this one runs the browser's loop
    thread.start()
    thread.join()


def test_a_trial_that_fell_back_says_why_and_lists_its_benchmarks(
    unlocked_page: Page, logged: Settings
) -> None:
    fed(logged)
    with Serving(logged) as serving:
        unlocked_page.goto(f"http://127.0.0.1:{serving.port}/#/run/run-1/trials")
        broken = unlocked_page.get_by_role("row").filter(has_text="broken")
        expect(broken).to_contain_text("fell back")
        broken.get_by_role("link").click()
        drawer = unlocked_page.get_by_role("dialog")
        expect(drawer).to_contain_text("it counts as if the agent had changed nothing")
        expect(drawer).to_contain_text("The test suite failed: 9 failed of 100 (failed).")
        expect(
            drawer.get_by_role("region", name="Benchmarks of this trial").locator("tbody tr")
        ).to_have_count(5)
        unlocked_page.keyboard.press("Escape")
        unlocked_page.get_by_role("link", name="Board", exact=True).click()
        expect(unlocked_page.get_by_role("columnheader", name="Speedup")).to_be_visible()
        unlocked_page.goto("about:blank")


def test_many_runs_stand_on_pages_and_are_found_by_a_search(unlocked_page: Page, logged: Settings) -> None:
    page = unlocked_page
    fed(logged, [a_plan(run_id=f"run {number:03}", tasks=4) for number in range(230)])
    with Serving(logged) as serving:
        page.goto(f"http://127.0.0.1:{serving.port}/")
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
        page.goto(f"http://127.0.0.1:{serving.port}/#/compare?a=run+001&b=run+002")
        expect(page.get_by_role("combobox", name="Run A")).to_have_value("run 001")
        page.goto("about:blank")


def test_a_label_narrows_the_list_of_runs_beside_a_search_and_can_be_dropped(
    unlocked_page: Page, logged: Settings
) -> None:
    page, odd = unlocked_page, {"team": "a&b=c d%"}
    fed(logged, [a_plan(run_id=f"run {n}", tasks=4, labels=odd if n else {"team": "x"}) for n in range(3)])
    with Serving(logged) as serving:
        page.goto(f"http://127.0.0.1:{serving.port}/#/?search=run+")
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
        page.goto("about:blank")


def test_speedup_and_advantage_are_drawn_over_event_time(unlocked_page: Page, logged: Settings) -> None:
    fed(logged)
    with Serving(logged) as serving:
        history = serving.get("/api/runs/run-1/history?kind=agent_model").json()
        agent = serving.get("/api/runs/run-1/agents").json()[0]["formulacode"]
        assert history[-1]["mean_speedup"] == agent["mean_speedup"] > 1.0
        assert history[-1]["agent_advantage"] == agent["agent_advantage"]
        unlocked_page.goto(f"http://127.0.0.1:{serving.port}/#/run/run-1")
        live(unlocked_page)
        for metric, title in (("mean_speedup", "Speedup"), ("agent_advantage", "Advantage")):
            unlocked_page.get_by_label("Metric").select_option(metric)
            expect(unlocked_page.locator(".plot")).to_have_attribute(
                "aria-label", re.compile(f"^{title} by the trials' own times, 1 line")
            )
            expect(unlocked_page.locator(".legend b")).to_have_text(re.compile(r"-?\d"))
        unlocked_page.goto("about:blank")


def test_a_server_with_a_token_asks_for_it_once(unlocked_page: Page, logged: Settings) -> None:
    fed(logged)
    with Serving(logged, token=TOKEN) as serving:
        url = f"http://127.0.0.1:{serving.port}/"
        unlocked_page.goto(url)
        expect(unlocked_page.get_by_role("heading", name="This server asks for a token")).to_be_visible()
        unlocked_page.get_by_role("textbox", name="Token").fill("wrong")
        unlocked_page.get_by_role("button", name="Open").click()
        expect(unlocked_page.get_by_role("alert")).to_contain_text("Wrong token.")
        unlocked_page.get_by_role("textbox", name="Token").fill(TOKEN)
        unlocked_page.get_by_role("button", name="Open").click()
        live(unlocked_page)
        expect(unlocked_page.get_by_role("link", name="run-1")).to_be_visible()
        unlocked_page.reload()
        live(unlocked_page)
        unlocked_page.context.clear_cookies()
        unlocked_page.goto(f"{url}?token={TOKEN}#/run/run-1")
        live(unlocked_page)
        assert "token" not in unlocked_page.url
        unlocked_page.goto("about:blank")
