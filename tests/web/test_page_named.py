"""The page shows metrics that harnesses name themselves (R30), by the rules of the other surfaces."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from streamer.settings import Settings
from streamer.views.columns import AGENTS, TRIALS, with_named, with_values
from tests.support.events import a_plan, a_trial, summarised
from tests.web.browsing import WebProcess, publish, trials

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HOSTILE = "<img src=x onerror=alert(1)>\u202eevil" + "x" * 90
SHOWN = HOSTILE.replace("\u202e", "\\u202e")
PLAN = {
    "latency": {"direction": "lower", "unit": "seconds", "label": "Time to answer"},
    "reward/style": {},
    "price": {"unit": "USD"},
    "hostile": {"label": HOSTILE, "unit": "<b>unit</b>"},
    "never": {},
}


NAMES = ("latency", "reward/style", "hostile", "price", "unplanned", "constructor")
"""In the order of their columns: the planned ones first, then those with more trials."""


def events(run: str) -> list[bytes]:
    """Two agents; the second is slower."""
    planned = a_plan(run_id=run, metrics=PLAN, primary_metric="metrics/latency", tiers=["T0"])
    first = {"latency": 90.0, "reward/style": 0.75, "price": 0.5, "hostile": 2.0, "unplanned": 7.5}
    second = {"latency": 180.0, "reward/style": 0.25, "constructor": 1.0}
    return [
        json.dumps(planned).encode(),
        *trials(run, 0, 3, tier="T0", metrics=first, resolved=False),
        *trials(run, 0, 2, tier="T0", metrics=second, agent="slow"),
    ]


@pytest.fixture(scope="module")
def run(stack: Settings) -> str:
    publish(stack, events("named"))
    return "named"


def choice(page: Page, title: str) -> Locator:
    return page.locator("label.field").filter(has=page.get_by_text(title, exact=True)).locator("select")


def summaries(kind: str) -> list[dict[str, Any]]:
    found = summarised(json.loads(event) for event in events("named"))
    return [summary for key, summary in found.items() if key.startswith(f"{kind} ")]


def test_the_columns_of_the_page_follow_the_rules_of_the_terminal(page: Page, web: WebProcess) -> None:
    many = a_plan(metrics={"m8": {"unit": "seconds", "direction": "lower"}})
    counted = [a_trial(task_id=f"t{n}", metrics={f"m{k}": 1.0 for k in range(n + 1)}) for n in range(9)]
    frequent = summarised([many, *counted])
    agents = [summary for key, summary in frequent.items() if key.startswith("agent_model ")]
    page.goto(web.url)
    for groups in (agents, summaries("agent_model"), summaries("tier"), []):
        drawn = page.evaluate(
            """async (groups) => {
                const { BOARDS } = await import("/static/js/boards.js");
                const { withNamed } = await import("/static/js/named.js");
                return withNamed(BOARDS.agents, groups);
            }""",
            groups,
        )
        wanted = [
            (column.name, column.format, list(column.path), column.sort, column.empty, column.left)
            for column in with_named(AGENTS, groups).shown_on("page")
        ]
        keys = ("name", "format", "path", "sort", "empty", "left")
        assert [tuple(column[key] for key in keys) for column in drawn] == wanted
        titles = {c.name: c.title for c in with_named(AGENTS, groups).columns if c.outside}
        assert {c["name"]: c["title"] for c in drawn if c.get("outside")} == titles


def test_boards_have_columns_and_are_sorted_by_the_primary_metric(
    page: Page, web: WebProcess, run: str
) -> None:
    page.goto(f"{web.url}/#/run/{run}")
    board = page.get_by_role("region", name="Agents of this run")
    expect(board.locator("thead th[data-id='metrics/latency']")).to_have_attribute("aria-sort", "ascending")
    expect(board.locator("thead th[data-id='metrics/latency']")).to_have_text("Time to answer")
    expect(board.locator("thead th[data-id='metrics/never']")).to_have_count(0)
    rows = board.locator("tbody tr")
    expect(rows.first).to_contain_text("terminus:gpt-5")
    for text in ("90 s", "0.75", "$0.5000", "7.5"):
        expect(rows.first).to_contain_text(text)
    board.get_by_role("button", name="Pass rate").click()
    expect(rows.first).to_contain_text("slow:gpt-5")
    page.get_by_role("link", name="Tiers", exact=True).click()
    tiers = page.get_by_role("region", name="Tiers of this run")
    expect(tiers.locator("thead th[data-id='metrics/reward/style']")).to_have_text("reward/style")
    expect(tiers).to_contain_text("0.55")


def test_trials_have_columns_of_their_values(page: Page, web: WebProcess, run: str) -> None:
    page.goto(f"{web.url}/#/run/{run}/trials")
    table = page.get_by_role("region", name="Trials of this run")
    heads = table.locator("thead th")
    expect(heads.filter(has_text="Time to answer")).to_have_attribute("data-id", "metrics/latency")
    ids = heads.evaluate_all("heads => heads.map((one) => one.dataset.id)")
    at = ids.index("duration_seconds") if "duration_seconds" in ids else ids.index("cost_usd")
    assert ids[at + 1 : at + 7] == [f"metrics/{name}" for name in NAMES]
    expect(heads.filter(has_text="Time to answer").get_by_role("button")).to_have_count(0)
    first = table.locator("tbody tr").filter(has_text="terminus:gpt-5").first.locator("th, td")
    second = table.locator("tbody tr").filter(has_text="slow:gpt-5").first.locator("th, td")
    assert first.all_text_contents()[at + 1 : at + 7] == ["90 s", "0.75", "2", "$0.5000", "7.5", "–"]
    assert second.all_text_contents()[at + 1 : at + 7] == ["3 min", "0.25", "–", "–", "–", "1"]


def test_the_columns_of_trials_follow_the_rules_of_the_commands(page: Page, web: WebProcess) -> None:
    scored = [json.loads(event) for event in events("named")]
    rows = [{"metrics": event["metrics"]} for event in scored if event["type"] == "trial_result"]
    page.goto(web.url)
    drawn = page.evaluate(
        """async (groups) => {
            const { BOARDS } = await import("/static/js/boards.js");
            const { withValues } = await import("/static/js/named.js");
            return withValues(BOARDS.trials, groups);
        }""",
        summaries("agent_model"),
    )
    wanted = [
        (column.name, column.format, list(column.path), column.sort, column.hint)
        for column in with_values(TRIALS, rows, PLAN).shown_on("page")
    ]
    keys = ("name", "format", "path", "sort", "hint")
    assert [tuple(column[key] for key in keys) for column in drawn] == wanted


def test_charts_offer_named_metrics(page: Page, web: WebProcess, stack: Settings, run: str) -> None:
    page.goto(f"{web.url}/#/run/{run}")
    metric, quality = choice(page, "Metric"), choice(page, "Quality")
    metric.select_option("metrics/latency")
    plot = page.locator(".plot")
    expect(plot).to_have_attribute(
        "aria-label", "Time to answer by the trials' own times, 2 lines; the latest values stand below"
    )
    expect(page.locator(".legend b")).to_have_text(["3 min", "90 s"])
    offered = metric.locator("option").evaluate_all("options => options.map((one) => one.value)")
    assert [name for name in offered if "/" in name] == [
        "metrics/latency",
        "metrics/reward/style",
        "metrics/hostile",
        "metrics/price",
    ]
    quality.select_option("metrics/unplanned")
    expect(page.locator("svg.scatter .point")).to_have_count(1)
    quality.select_option("metrics/latency")
    best = page.locator("svg.scatter .point:not(.dominated)")
    expect(best).to_have_count(1)
    expect(best).to_contain_text("terminus:gpt-5: time to answer 90 s, mean cost $0.5000, on the frontier")
    publish(stack, trials(run, 5, 6, tier="T0", metrics={"latency": 30.0}))
    expect(page.locator(".legend b")).to_have_text(["3 min", "75 s"])


def test_the_leaderboard_offers_what_a_plan_names(page: Page, web: WebProcess, run: str) -> None:
    page.goto(f"{web.url}/#/leaders")
    by = page.get_by_label("By")
    expect(by.locator("option[value='metrics/latency']")).to_have_text("Time to answer")
    expect(by.locator("option[value='metrics/unplanned']")).to_have_count(0)
    by.select_option("metrics/latency")
    rows = page.locator("section.board tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(1)).to_contain_text("3 min")
    expect(page).to_have_url(f"{web.url}/#/leaders?metric=metrics%2Flatency")
    page.reload()
    expect(rows.nth(1)).to_contain_text("slow:gpt-5")
    expect(by).to_have_value("metrics/latency")


@pytest.mark.parametrize("tab", ["", "/tiers", "/trials"])
def test_a_hostile_label_is_text(page: Page, web: WebProcess, run: str, tab: str) -> None:
    page.goto(f"{web.url}/#/run/{run}{tab}")
    head = page.locator("thead th[data-id='metrics/hostile']")
    expect(head).to_have_text(SHOWN)
    if tab != "/trials":
        expect(head).to_have_attribute("title", f"Mean {SHOWN}.")
    if not tab:
        choice(page, "Metric").select_option("metrics/hostile")
        choice(page, "Quality").select_option("metrics/hostile")
        expect(page.locator(".plot")).to_have_attribute(
            "aria-label", f"{SHOWN} by the trials' own times, 2 lines; the latest values stand below"
        )
    assert page.locator("main img, main b b").count() == 0
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 1280
    page.goto(f"{web.url}/#/leaders?metric=metrics/hostile")
    expect(page.get_by_label("By").locator("option[value='metrics/hostile']")).to_have_text(SHOWN)
    expect(page.get_by_role("region", name="Leaderboard").locator("thead")).to_contain_text(SHOWN)
    assert page.locator("main img").count() == 0
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 1280
