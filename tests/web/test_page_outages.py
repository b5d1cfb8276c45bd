"""The page when something is missing: an unknown run, a server that is away, an empty installation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from streamer.operate.local.broker import Broker
from streamer.settings import Settings
from streamer.text import percent
from streamer.views import drawing
from streamer.views.cells import EXPLAINED, INCOMPLETE, SO_FAR, age, footnotes, minute, span
from streamer.views.decide.outlook import clock
from tests.support.events import a_plan, a_trial
from tests.support.servers import RedisServer
from tests.web.browsing import WIDTHS, WebProcess, a_copier, a_page, a_stack, copied, fits, opened, publish
from tests.web.feeding import fed

pytestmark = [pytest.mark.browser, pytest.mark.slow]

RUN = "run-1"
PLAN = a_plan(tasks=9, attempts=1, agent_models=["terminus:gpt-5"])
SIX = [PLAN, *(a_trial(task_id=f"task-{number}", resolved=number > 2) for number in range(1, 7))]
SEVENTH = a_trial(task_id="task-7")


def opacity(page: Page, selector: str) -> float:
    return float(page.locator(selector).first.evaluate("element => getComputedStyle(element).opacity"))


def parts_of(page: Page) -> tuple[Locator, Locator]:
    """The list of trials, and why some failed."""
    trials = page.get_by_role("region", name="Trials", exact=True)
    return trials, page.get_by_role("region", name="Why trials failed").first


@pytest.fixture
def own(settings: Settings, own_broker: Broker) -> Settings:
    return settings.model_copy(update={"bootstrap": own_broker.bootstrap, "embedded": True})


@pytest.fixture(params=WIDTHS)
def sized(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page of each width, in whose console there are errors."""
    with a_page(browser, "", viewport={"width": request.param, "height": 800}) as page:
        yield page


def test_an_unknown_run_says_so_and_comes_as_soon_as_it_is_there(browser: Browser, web: WebProcess) -> None:
    publish(web.settings, [a_trial(run_id="six")])
    with a_page(browser, "404") as page:
        opened(page, web, "#/run/sixx")
        said = page.get_by_role("alert").filter(has_text="There is no run 'sixx'. Did you mean six?")
        expect(said).to_be_visible()
        expect(page.locator(".tabs")).not_to_be_visible()
        publish(web.settings, [a_trial(run_id="sixx")])
        expect(page.locator(".tabs")).to_be_visible()


def test_an_empty_installation_gives_a_command_to_copy(browser: Browser, tmp_path: Path) -> None:
    with a_stack(tmp_path) as settings, WebProcess(settings, tmp_path) as web, a_copier(browser) as page:
        opened(page, web, "")
        expect(page.locator("main")).to_contain_text("No runs yet. The first one will appear here")
        page.get_by_role("button", name="Copy: streamer tail RUN_DIRECTORY").click()
        expect(page.get_by_text("Copied", exact=True).first).to_be_visible()
        assert copied(page) == "streamer tail RUN_DIRECTORY"


def test_a_redis_that_is_away_leaves_the_last_numbers_in_grey_until_it_is_back(
    sized: Page, settings: Settings, redis_server: RedisServer, tmp_path: Path
) -> None:
    fed(settings, SIX)
    with WebProcess(settings, tmp_path) as web:
        opened(sized, web, f"#/run/{RUN}")
        progress, banner, main = sized.locator(".tile").first, sized.locator(".banner"), sized.locator("main")
        expect(progress).to_contain_text("6 / 9")
        redis_server.kill()
        for words in (
            "The server cannot read Redis",
            f"127.0.0.1:{redis_server.port}",
            "`streamer up` starts one on this machine",
            re.compile(r"Numbers below are from \d\d:\d\d:\d\d"),
        ):
            expect(banner).to_contain_text(words)
        expect(main).to_have_class("stale")
        expect(progress).to_contain_text("6 / 9")
        expect(sized.get_by_role("region", name="Agents of this run").locator("tbody tr")).to_have_count(1)
        assert (opacity(sized, ".tiles"), opacity(sized, "main table"), fits(sized)) == (0.62, 0.62, True)
        redis_server.start()
        fed(settings, [*SIX, SEVENTH])
        expect(banner).not_to_be_visible()
        expect(main).not_to_have_class("stale")
        expect(progress).to_contain_text("7 / 9")
        assert opacity(sized, ".tiles") == 1


def test_a_broker_that_is_away_leaves_the_trials_in_grey_and_the_board_current(
    sized: Page, own: Settings, own_broker: Broker, tmp_path: Path
) -> None:
    fed(own, SIX, log=True)
    with WebProcess(own, tmp_path) as web:
        opened(sized, web, f"#/run/{RUN}/trials")
        card, failed = parts_of(sized)
        expect(card.locator("tbody tr")).to_have_count(6)
        expect(failed.locator("tbody tr")).to_have_count(1)
        own_broker.stop()
        fed(own, [*SIX, SEVENTH])
        expect(sized.locator(".tile").first).to_contain_text("7 / 9")
        for part, rows in ((card, 6), (failed, 1)):
            expect(part.get_by_role("alert")).to_have_text(
                f"This needs the broker, and no Kafka broker answers at {own.bootstrap}. "
                "Start one (streamer up, or docker compose up)"
            )
            expect(part).to_have_class("card stale")
            expect(part.locator("tbody tr")).to_have_count(rows)
        assert (opacity(sized, ".card.stale table"), fits(sized)) == (0.62, True)
        expect(sized.locator(".banner")).not_to_be_visible()
        expect(sized.locator("main")).not_to_have_class("stale")
        own_broker.start()
        fed(own, [*SIX, SEVENTH], log=True, epoch=2)
        for part, rows in ((card, 7), (failed, 1)):
            expect(part.get_by_role("alert")).not_to_be_visible()
            expect(part).not_to_have_class("card stale")
            expect(part.locator("tbody tr")).to_have_count(rows)


def test_a_server_that_may_not_read_events_says_so_there(sized: Page, own: Settings, tmp_path: Path) -> None:
    fed(own, SIX, log=True, events=False)
    with WebProcess(own, tmp_path) as web:
        opened(sized, web, f"#/run/{RUN}/trials")
        card, failed = parts_of(sized)
        expect(failed.get_by_role("alert")).to_contain_text("Let its Kafka account read that topic")
        expect(failed.locator("table")).not_to_be_visible()
        expect(card.locator("tbody tr")).to_have_count(6)
        expect(card.get_by_role("alert")).not_to_be_visible()
        card.locator("tbody tr").first.get_by_role("link").first.click()
        expect(sized.get_by_role("dialog")).to_contain_text("Let its Kafka account read that topic")
        assert fits(sized)


# -----------------------------------------------------------------------------
# The page's modules alone write numbers, times and marks as the other surfaces do.


def drawn(page: Page, web: WebProcess, script: str, *given: Any, module: str = "shared") -> Any:
    """What a script says that has the names of one of the page's modules, as `of`, and what is given."""
    page.goto(web.url)
    wrapped = f"async (given) => (({script})(await import('/static/js/{module}.js'), ...given))"
    return page.evaluate(wrapped, list(given))


def test_the_page_writes_shares_spans_and_costs_as_the_other_surfaces_do(page: Page, web: WebProcess) -> None:
    halves = [passed / 80 for passed in range(-80, 81)]
    shares = [1 / 10_080, -1 / 10_080, 0.41667, 10_079 / 10_080, -10_079 / 10_080, *halves, None]
    seconds = [0.0, 8.5, 9.125, 12.25, 119.4, 735.0, 20_070.0, 400_000.0, None]
    costs = [0.0, 0.05, -0.05, 0.99996, 1.5, -1234.5, None]
    lists = "[shares.map(of.percent), seconds.map(of.duration), costs.map(of.usd)]"
    said = drawn(page, web, f"(of, shares, seconds, costs) => {lists}", shares, seconds, costs)
    written = [[*map(drawing.percent, shares)], [*map(drawing.duration, seconds)], [*map(drawing.usd, costs)]]
    assert said == written
    assert (said[2][2], said[2][5]) == ("-$0.0500", "-$1,234.50")
    terminal = [*map(percent, shares), *map(span, seconds)]
    assert [text.replace("\u00a0", " ") for text in said[0] + said[1]] == terminal


def test_the_page_writes_times_in_utc_as_the_terminal_does(browser: Browser, web: WebProcess) -> None:
    now = datetime(2026, 9, 30, 12, 0, tzinfo=UTC)
    passed = [-200_000, -600, -61, -60, 0, 59, 60, 3599, 3600, 7300, 172_799, 172_800]
    moments = [now - timedelta(seconds=seconds) for seconds in passed]
    script = """(of, now, moments) => moments.map((text) => new Date(text)).map((at) =>
        [of.age(at.getTime(), new Date(now).getTime()), of.clock(at, true), of.clock(at, false)])"""
    with a_page(browser, timezone_id="Asia/Tokyo") as page:
        said = drawn(page, web, script, now.isoformat(), [at.isoformat() for at in moments])
    days = (now + timedelta(days=1), now)
    assert said == [[age(at, now), *(clock(at, now, last) for last in days)] for at in moments]
    assert [drawing.text_of(drawing.time(at)) for at in moments] == [*map(minute, moments)]


def test_the_axis_of_a_single_moment_has_a_minute_to_each_side(page: Page, web: WebProcess) -> None:
    script = """({ TimeChart }) => [[[600], 600 + 86400000], [[600, 900], 900], [[600, 601], 601]].map(
        ([xs, high]) => TimeChart.prototype.span.call({ along: "time", data: [xs] }, 600, high))"""
    assert drawn(page, web, script) == [[540, 660], [600, 900], [540, 661]]


def test_a_row_that_stays_in_its_place_keeps_what_is_selected_in_it(page: Page, web: WebProcess) -> None:
    order, selected, moved = drawn(
        page,
        web,
        """({ DrawnTable }) => {
            const table = new DrawnTable("Agents");
            document.body.append(table.element);
            const head = (id, more) => ["th", { "data-id": id, ...more }, id];
            const heads = [head("name", {}), head("cost", { "aria-sort": "descending" })];
            const besides = (...order) => ({ heads, order, notes: [], empty: "" });
            const cell = (cost) => ["td", { "data-sort": String(cost) }, String(cost)];
            const row = (name, cost) => ["tr", {}, ["th", {}, name], cell(cost)];
            table.take({ "": besides("a", "b", "c"), a: row("a", 1), b: row("b", 2), c: row("c", 3) });
            getSelection().selectAllChildren(table.body.rows[0].cells[0]);
            const watch = new MutationObserver(() => {});
            watch.observe(table.body, { childList: true });
            table.take({ "": besides("a", "b", "c", "d"), d: row("d", 2) });
            const order = [...table.body.rows].map((one) => one.cells[0].textContent);
            const moved = watch.takeRecords().flatMap((one) => [...one.removedNodes]);
            return [order, String(getSelection()), moved.length];
        }""",
    )
    assert (order, selected) == (["c", "b", "d", "a"], "c")
    assert moved <= 1, "the new row alone comes into its place"


def test_trials_that_are_over_are_kept_no_longer(page: Page, web: WebProcess) -> None:
    script = """({ Running }) => {
        const running = new Running();
        const row = (name) => ["tr", {}, ["th", {}, name]];
        const heads = [["th", { "data-id": "task" }, "Task"]];
        const besides = (order) => ({ heads, order, notes: [], empty: "" });
        const first = Array.from({ length: 20 }, (_, at) => `t${at}`);
        running.take({ "": besides(first), ...Object.fromEntries(first.map((name) => [name, row(name)])) });
        running.take({ "": besides(["t3", "new"]), new: row("new") });
        return [Object.keys(running.table.found), [...running.table.body.rows].map((one) => one.textContent)];
    }"""
    kept, shown = drawn(page, web, script, module="outlook")
    assert (sorted(kept), shown) == (["", "new", "t3"], ["t3", "new"])


def test_a_run_that_changed_has_the_cells_of_the_page_that_it_stands_on(page: Page, web: WebProcess) -> None:
    script = """({ Runs }) => {
        const shown = ["run", "b", "c", "d", "e", "cost", "agents"];
        const cell = (id, look) => ["td", { class: look, "data-label": id, "data-id": id }, id];
        const last = [cell("cost", "number minor"), cell("agents", "number minor unknown")];
        const plain = ["b", "c", "d", "e"].map((id) => cell(id, ""));
        const row = ["tr", {}, cell("run", ""), cell("x", "unknown"), ...plain, ...last];
        let taken = null;
        const head = { cells: shown.map((id) => ({ dataset: { id } })) };
        const table = { head, rows: new Map([["r", {}]]), take: (rows) => (taken = rows) };
        Runs.prototype.take.call({ table, lacks() {} }, { "": null, r: row });
        return taken.r.slice(2).map(([, attributes]) => attributes);
    }"""
    assert drawn(page, web, script, module="runs") == [
        *({"data-label": name} for name in ("run", "b", "c", "d", "e")),
        {"class": "number", "data-label": "cost"},
        {"class": "number unknown minor", "data-label": "agents"},
    ]


def test_the_page_explains_the_marks_of_agents_with_a_pass_rate_alone() -> None:
    def group(mean: float | None, **more: Any) -> dict[str, Any]:
        return {"provisional": True, "statistics": {"pass_rate": {"mean": mean}}, "pass_at_k": None} | more

    pass_at = {"1": {"value": 0.5, "partial": True}, "2": {"value": None, "partial": True}}
    some = group(0.5, uncertainty={"final_missing": "order_unknown_in_part"}, pass_at_k=pass_at)
    bounds = {"reachable": {"pass_rate": {"low": 0.2, "high": 0.8}}}
    assert footnotes([group(None)], short=True) == []
    assert footnotes([group(None), group(0.5)], short=True) == [EXPLAINED[SO_FAR]]
    assert footnotes([some], short=True) == footnotes([some])
    assert {EXPLAINED["partial"], EXPLAINED["declare"]} <= set(footnotes([some], short=True))
    ended = footnotes([group(0.5, over=True, uncertainty=bounds)], short=True)
    assert ended == [EXPLAINED[INCOMPLETE], EXPLAINED["bounds"]]
