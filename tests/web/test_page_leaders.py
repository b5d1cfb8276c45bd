"""The leaderboard of each benchmark on the page: pooled runs with intervals and places, the rest below."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from streamer.settings import Settings
from tests.support.board_runs import a_night
from tests.support.events import Event
from tests.web.browsing import WebProcess, publish

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HOSTILE = "<img src=x onerror=alert(1)>\u202eevil"
SHOWN = HOSTILE.replace("\u202e", "\\u202e")


def events() -> Iterable[Event]:
    """Two nights of `tb` and a third that goes on; one run of a hostile benchmark."""
    plan = {"attempts": 1, "metrics": {"reward": {"label": "Reward"}}, "labels": {"team": "red"}}
    yield from a_night("n1", 1, {"best": "+" * 10, "mid": "++" + "-" * 8}, **plan)
    yield from a_night("n2", 2, {"best": "+" * 10, "mid": "+" * 9 + "-"}, **plan)
    yield from a_night("n3", 3, {"best": "+" * 4}, ended=False, tasks=10, **plan)
    yield from a_night(HOSTILE, 3, {HOSTILE: "+-" * 4}, benchmark=HOSTILE, attempts=1)


@pytest.fixture(scope="module")
def nights(stack: Settings) -> None:
    publish(stack, [json.dumps(event).encode() for event in events()])


def board(page: Page, title: str) -> Locator:
    return page.locator("section.board").filter(has=page.get_by_role("heading", name=title))


def heads(table: Locator) -> list[str]:
    titles = table.locator("thead th").evaluate_all(
        "heads => heads.map((head) => head.firstChild.textContent)"
    )
    return [title.strip() for title in titles]


def test_a_board_shows_interval_place_and_change_and_the_unfinished_run_below(
    page: Page, web: WebProcess, nights: None
) -> None:
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


def test_an_answer_that_takes_longer_than_the_page_waits_to_ask_again_is_shown(
    page: Page, web: WebProcess, nights: None
) -> None:
    def late(route: Route) -> None:
        time.sleep(7)  # the page asks again every 5 s
        route.continue_()

    page.route("**/api/leaderboards*", late)
    page.goto(f"{web.url}/#/leaders")
    expect(board(page, "tb: pass rate").locator("tbody tr")).to_have_count(3, timeout=10_000)


def test_filters_are_in_the_address_and_survive_a_reload(page: Page, web: WebProcess, nights: None) -> None:
    page.goto(f"{web.url}/#/leaders")
    expect(page.locator("section.board")).to_have_count(2)
    page.get_by_label("Benchmark").select_option("tb")
    expect(page).to_have_url(f"{web.url}/#/leaders?metric=pass_rate&benchmark=tb")
    expect(page.locator("section.board")).to_have_count(1)
    page.reload()
    expect(page.get_by_label("Benchmark")).to_have_value("tb")
    expect(page.locator("section.board")).to_have_count(1)
    page.get_by_label("Label").fill("team=blue")
    page.get_by_label("Label").press("Enter")
    expect(page).to_have_url(f"{web.url}/#/leaders?metric=pass_rate&benchmark=tb&label=team%3Dblue")
    expect(page.locator(".boards")).to_have_text("No agent is on this board.")
    page.get_by_label("Label").fill("team")
    page.get_by_label("Label").press("Enter")
    assert page.evaluate("document.querySelector('input[type=search]').validity.patternMismatch")
    expect(page).to_have_url(re.compile("label=team%3Dblue$"))


def test_benchmarks_are_mixed_only_when_asked(page: Page, web: WebProcess, nights: None) -> None:
    page.goto(f"{web.url}/#/leaders")
    page.get_by_label("Benchmark").select_option(label="all, mixed")
    expect(page).to_have_url(f"{web.url}/#/leaders?metric=pass_rate&all_benchmarks=true")
    mixed = board(page, "All runs: pass rate")
    expect(mixed.locator("tbody tr")).to_have_count(4)
    expect(mixed).to_contain_text("Benchmarks are mixed")
    page.reload()
    expect(page.get_by_label("Benchmark")).to_have_value("mixed")


def test_a_named_metric_says_why_there_are_no_places(page: Page, web: WebProcess, nights: None) -> None:
    page.goto(f"{web.url}/#/leaders?metric=metrics/reward&benchmark=tb")
    reward = board(page, "tb: Reward")
    expect(reward.locator("tbody tr").first).to_contain_text("best:m")
    expect(reward).to_contain_text("No ranks: two agents are tested against each other only by passes")
    assert "Place" not in heads(reward)
    expect(reward.locator("tbody tr").first.locator("td .note")).to_contain_text("[")


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.in_turn(2)
def test_hostile_names_are_text_and_nothing_scrolls_sideways(
    page: Page, web: WebProcess, nights: None, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 740})
    page.goto(f"{web.url}/#/leaders?benchmark={quote(HOSTILE)}")
    row = page.locator("section.board tbody tr")
    expect(row).to_have_count(1)
    expect(row).to_contain_text(f"{SHOWN}:m")
    expect(page.locator("section.board h3")).to_contain_text(f"{SHOWN}: pass rate, highest first")
    assert page.locator("main img:not([class])").count() == 0
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width


def test_the_boards_are_downloaded_as_one_html_file_that_opens_alone(
    page: Page, web: WebProcess, nights: None, tmp_path: Path
) -> None:
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
    expect(page.locator("main")).to_contain_text(SHOWN)
    assert page.locator("main img").count() == 0
    assert asked == [file.as_uri()]
