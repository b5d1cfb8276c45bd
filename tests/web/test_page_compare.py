"""Two sides on the page: the sentences of `streamer compare`, intervals, and what one side alone passes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from streamer.client.readers import StateReader
from streamer.settings import Settings
from streamer.views.compare import METHODS, STILL_OPEN
from tests.support.cli import streamer
from tests.support.events import a_plan, a_trial
from tests.support.worker_process import wait_for
from tests.web.browsing import WebProcess, publish, watched

pytestmark = [pytest.mark.browser, pytest.mark.slow]

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


@pytest.fixture(params=[360, 1280])
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
    expect(rows.nth(0)).to_contain_text("[−74.0, −26.0]")  # -.5 -+ 2.093 sqrt(.25 20/19 / 20)
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
    groups = sized.get_by_role("region", name="Tasks that one side alone passes").locator("tbody tr")
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


def test_a_run_against_itself_begins_with_two_of_its_agents(
    page: Page, web: WebProcess, stack: Settings, environment: dict[str, str]
) -> None:
    run = {"run_id": "pair", "task_id": "t00"}
    events = [
        a_trial(**run, agent=agent, model=model) for agent, model in (("nop", "nop"), ("b", "m"), ("c", "m"))
    ]
    publish(stack, [json.dumps(event).encode() for event in events])
    with StateReader(stack) as reader:
        reader.wait_for("pair", lambda found: found.progress.done == 3, timeout_seconds=30)
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
