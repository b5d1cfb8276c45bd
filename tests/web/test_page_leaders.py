"""The leaderboard of each benchmark on the page: pooled runs with intervals and places, the rest below."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from streamer.settings import Settings
from tests.support.board_runs import a_night
from tests.web.browsing import WebProcess, publish

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.usefixtures("nights")]


@pytest.fixture(scope="module")
def nights(stack: Settings) -> None:
    """Two nights of `tb` and a third that goes on; one run of another benchmark."""
    plan: dict[str, Any] = {
        "attempts": 1,
        "labels": {"team": "red"},
        "metrics": {"reward": {"label": "Reward"}},
    }
    runs = [
        a_night("n1", 1, {"best": "+" * 10, "mid": "++" + "-" * 8}, **plan),
        a_night("n2", 2, {"best": "+" * 10, "mid": "+" * 9 + "-"}, **plan),
        a_night("n3", 3, {"best": "+" * 4}, ended=False, tasks=10, **plan),
        a_night("other", 3, {"other": "+-" * 4}, benchmark="other", attempts=1),
    ]
    publish(stack, [event for run in runs for event in run])


def board(page: Page, title: str) -> Locator:
    return page.locator("section.board").filter(has=page.get_by_role("heading", name=title))


def heads(table: Locator) -> list[str]:
    titles = "heads => heads.map((head) => head.firstChild.textContent.trim())"
    return list(table.locator("thead th").evaluate_all(titles))


def test_a_board_shows_interval_place_and_change_and_runs_below(page: Page, web: WebProcess) -> None:
    page.goto(f"{web.url}/#/leaders")
    rows = board(page, "tb: pass rate").locator("tbody tr")
    expect(rows).to_have_count(3)
    cells = dict(zip(heads(board(page, "tb")), rows.first.locator("th, td").all_inner_texts(), strict=True))
    assert (cells["Agent:model"], cells["Place"], cells["Runs"]) == ("best:m", "1", "2")
    expect(board(page, "tb").locator("thead .about")).to_have_text(["tasks like these"] * 2)
    assert cells["Pass rate"].replace("\u00a0", " ").startswith("100.0 % [")
    assert cells["Newest run"] == "n2"
    expect(rows.first.locator(".reach")).to_be_visible()
    expect(rows.nth(1)).to_contain_text("+70.0 points")
    expect(rows.nth(1).locator(".better")).to_contain_text("real")
    expect(rows.nth(1).get_by_role("img")).to_have_attribute("aria-label", "n1: 20.0\u00a0%\nn2: 90.0\u00a0%")
    expect(rows.nth(2)).to_have_class("left-out")
    expect(rows.nth(2).locator(".badge")).to_have_text(re.compile("^(running|stalled)$"))
    expect(board(page, "tb")).to_contain_text("all agents at once")
    rows.first.get_by_role("link", name="n2").click()
    expect(page).to_have_url(f"{web.url}/#/run/n2")


def test_an_answer_that_takes_longer_than_the_page_waits_is_shown(page: Page, web: WebProcess) -> None:
    def late(route: Route) -> None:
        time.sleep(7)  # the page asks again every 5 s
        route.continue_()

    page.route("**/api/leaderboards*", late)
    page.goto(f"{web.url}/#/leaders")
    expect(board(page, "tb: pass rate").locator("tbody tr")).to_have_count(3, timeout=10_000)


def test_filters_are_in_the_address_and_survive_a_reload(page: Page, web: WebProcess) -> None:
    page.goto(f"{web.url}/#/leaders")
    boards, benchmark = page.locator("section.board"), page.get_by_label("Benchmark")
    label = page.get_by_label("Label")
    expect(boards).to_have_count(2)
    benchmark.select_option("tb")
    expect(page).to_have_url(f"{web.url}/#/leaders?metric=pass_rate&benchmark=tb")
    expect(boards).to_have_count(1)
    page.reload()
    expect(benchmark).to_have_value("tb")
    expect(boards).to_have_count(1)
    label.fill("team=blue")
    label.press("Enter")
    expect(page).to_have_url(f"{web.url}/#/leaders?metric=pass_rate&benchmark=tb&label=team%3Dblue")
    expect(page.locator(".boards")).to_have_text("No agent is on this board.")
    label.fill("team")
    label.press("Enter")
    assert page.evaluate("document.querySelector('input[type=search]').validity.patternMismatch")
    expect(page).to_have_url(re.compile("label=team%3Dblue$"))


def test_benchmarks_are_mixed_only_when_asked(page: Page, web: WebProcess) -> None:
    page.goto(f"{web.url}/#/leaders")
    page.get_by_label("Benchmark").select_option(label="all, mixed")
    expect(page).to_have_url(f"{web.url}/#/leaders?metric=pass_rate&all_benchmarks=true")
    mixed = board(page, "All runs: pass rate")
    expect(mixed.locator("tbody tr")).to_have_count(4)
    expect(mixed).to_contain_text("Benchmarks are mixed")
    page.reload()
    expect(page.get_by_label("Benchmark")).to_have_value("mixed")


def test_a_named_metric_says_why_there_are_no_places(page: Page, web: WebProcess) -> None:
    page.goto(f"{web.url}/#/leaders?metric=metrics/reward&benchmark=tb")
    reward = board(page, "tb: Reward")
    expect(reward.locator("tbody tr").first).to_contain_text("best:m")
    expect(reward).to_contain_text("No ranks: two agents are tested against each other only by passes")
    assert "Place" not in heads(reward)
    expect(reward.locator("tbody tr").first.locator("td .note")).to_contain_text("[")


def test_the_boards_are_one_html_file_that_opens_alone(page: Page, web: WebProcess, tmp_path: Path) -> None:
    page.goto(f"{web.url}/#/leaders?metric=pass_rate")
    expect(page.locator("section.board")).to_have_count(2)
    with page.expect_download() as download:
        page.get_by_role("link", name="HTML file").click()
    file = tmp_path / download.value.suggested_filename
    download.value.save_as(file)
    assert file.name == "leaderboards.html"
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    region = page.get_by_role("region", name="tb: pass rate, highest first")
    expect(region.locator("tbody tr")).to_have_count(3)
    expect(page.locator("main")).to_contain_text("other:m")
    assert asked == [file.as_uri()]
