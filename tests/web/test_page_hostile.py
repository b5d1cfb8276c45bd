"""The page shows hostile texts as text, tables without a mouse, colours, and metrics that harnesses name."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from playwright.sync_api import Browser, Page, expect

from streamer.schemas.base import agent_model_label
from streamer.schemas.wire import Reason, decode
from streamer.settings import Settings
from streamer.text import visible
from streamer.views.charts import charts_of
from streamer.views.columns import AGENTS, TRIALS, named_of, with_named, with_values, with_values_of
from streamer.web import STATIC
from streamer.web.api import DOWNLOADS, OPERATIONS, SHEETS
from streamer.web.app import PLAYER_PATH
from streamer.web.protocols.connections import content_security_policy
from tests.security.test_hostile_ids import PIECES
from tests.support.cli import found_by, streamer
from tests.support.events import Event, a_plan, a_trial, summarised
from tests.web.browsing import WebProcess, a_page, agents_of, counted, field, fits, opened, publish, trials

pytestmark = [pytest.mark.browser, pytest.mark.slow]


# Hostile texts in every field, through every view of the page, every path of the API and every saved file.
# Views and paths come from the code, so that a new one is looked at, too.


ATTACK = "window.owned = 1"
ATTACKS = [
    f"<script>{ATTACK}</script>",
    f"<img src=x onerror='{ATTACK}'>",
    f'"><svg onload={ATTACK.replace(" ", "")}>',
    f"</script></style></textarea></title><script>{ATTACK}</script>",
    f"javascript:{ATTACK}",
    "{{constructor.constructor('window.owned = 1')()}}${window.owned = 1}",
    "[x](javascript:window.owned=1) ![x](x) <b>md</b>",
    "&lt;script&gt;window.owned = 1&lt;/script&gt;",
]
ODD = ("\u05e9\u05dc\u05d5\u05dd", "zero\u200bwidth", "long-" + "x" * 123)
RUN_OF_TEXTS = ATTACKS[1]
SAVED = {
    "terminal/compare.py": ("compare", "RUN", "OTHER", "--out", "FILE"),
    "terminal/query.py": ("query", "leaderboard", "--html", "FILE"),
    "web/report.py": ("report", "RUN", "--out", "FILE"),
}
"""The commands that write HTML, by the module that does."""


def a_result(text: str, run_id: str = RUN_OF_TEXTS, agent: str | None = None) -> Event:
    """A result with the text in every field that takes texts."""
    places = ({"url": f"https://logs.example/{quote(text)}"}, {"path": "a.log"})
    names = ("task_id", "model", "tier", "subtest", "failure_mode", "trial_name", "message")
    return a_trial(
        run_id=run_id,
        agent=agent or text,
        **dict.fromkeys(names, text),
        resolved=False,
        cost_usd=1.0,
        score=0.5,
        labels={"l": text, text[:64]: "v"},
        metrics=dict.fromkeys((f"m{number}" for number in range(len(ATTACKS))), 1.0),
        artifacts=[{"name": text, **place} for place in places],
    )


EVERY_TEXT = (*ATTACKS, *PIECES, *ODD)
TEXTS = [text for text in EVERY_TEXT if not isinstance(decode(json.dumps(a_result(text)).encode()), Reason)]
JS = STATIC / "js"
PARTS = re.findall(r"(\w+):", re.findall(r"const TABS = {(.*)}", (JS / "run.js").read_text("utf-8"))[0])
VIEWS = list(dict.fromkeys(["", *re.findall(r'kind === "(\w+)"', (JS / "main.js").read_text("utf-8"))]))
HARM = r"""() => {
    const acting = (text) => /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(text.replace(/[\n\t]/g, ""));
    const harm = window.owned ? ["a script ran"] : [];
    for (const element of document.querySelectorAll("body *:not(script, style)")) {
        const KEYS = ["value", element.closest(".legend") ? "data-label" : ""];  // never shown
        for (const { name, value } of element.attributes) {
            const leads = ["href", "src", "action"].includes(name) && /^\s*(javascript|data):/i.test(value);
            if (name.startsWith("on") || leads) harm.push(`${element.tagName} ${name}=${value}`);
            if (!KEYS.includes(name) && acting(value)) harm.push(`${name} has ${escape(value)}`);
        }
        for (const node of element.childNodes)
            if (node.nodeType === 3 && acting(node.data)) harm.push(escape(node.data));
    }
    const strange = "img[src=x], svg[onload], textarea, body title:not(svg title), marquee, u, s";
    for (const element of document.querySelectorAll(strange)) harm.push(element.outerHTML);
    return harm;
}"""


@pytest.fixture(scope="module")
def texts(stack: Settings) -> str:
    """A run whose texts are all hostile; two agents have each of its tasks. A second run is like it."""
    named = enumerate(("\u202e", *ATTACKS))
    plan = a_plan(
        display_name=ATTACKS[3],
        benchmark=ATTACKS[0],
        labels={text[:64]: text for text in ATTACKS},
        metrics={f"m{at}": {"label": text, "unit": text[:32]} for at, text in named},
        ledger={"name": ATTACKS[0], "baseline": f"{ATTACKS[1]}/{ATTACKS[1]}:{ATTACKS[1]}"},
    )
    for run in (RUN_OF_TEXTS, ATTACKS[0]):
        results = [a_result(text, run, agent) for text in TEXTS for agent in (text, TEXTS[0])]
        publish(stack, [plan | {"run_id": run}, *results])
    counted(stack, 2 * len(TEXTS) - 1, RUN_OF_TEXTS, ATTACKS[0])
    return RUN_OF_TEXTS


def harmless(page: Page) -> None:
    """No script of a text runs, none becomes an element, and what acts is written out."""
    assert page.evaluate(HARM) == []


def shown_harmless(page: Page, part: str = "main") -> None:
    """Wait for the texts in this part of the page, and look for harm."""
    expect(page.locator(part)).to_contain_text("window.owned", timeout=30_000)
    harmless(page)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.in_turn(4)
def test_hostile_texts_are_harmless_in_every_view(page: Page, web: WebProcess, texts: str, view: str) -> None:
    parts = [f"run/{quote(texts, safe='')}/{part}" for part in PARTS]
    views = {"run": parts, "leaders": [view, "leaders?metric=metrics/m0"]}.get(view, [view])
    for address, width in product(views, (1280, 360)):
        page.set_viewport_size({"width": width, "height": 740})
        opened(page, web, f"#/{address}")
        shown_harmless(page)
        expect(page.locator("main")).not_to_contain_text("Loading")
        harmless(page)
        assert fits(page), address
        for summary in page.locator("main summary:visible").all():
            summary.click()
        harmless(page)
        match address.rpartition("/")[2]:
            case "board":
                labels = [agent_model_label(text, text) for text in TEXTS]
                assert unseen(page, "Agents of this run", labels) == []
                for title in ("Metric", "Quality"):
                    field(page, title).select_option("metrics/m0")
                harmless(page)
            case "tiers":
                assert unseen(page, "Tiers of this run", TEXTS) == []
            case "trials":
                open_trials(page)


def unseen(page: Page, region: str, texts: list[str]) -> list[str]:
    """The texts that do not stand in a region of the page."""
    shown = page.get_by_role("region", name=region).text_content() or ""
    return [text for text in texts if visible(text) not in shown]


def open_trials(page: Page) -> None:
    """Open three trials, one after the other."""
    drawer = page.get_by_role("dialog")
    for number in range(3):
        listed = page.get_by_role("region", name="Trials of this run")
        listed.locator("tbody a.link").nth(number).click()
        drawer.get_by_text("Payload as published").click()
        expect(drawer.locator("pre").last).to_contain_text('"task_id": "')
        harmless(page)
        page.keyboard.press("Escape")


def test_every_view_and_part_is_looked_at_with_most_texts() -> None:
    assert len(TEXTS) >= len(ATTACKS) + len(PIECES) / 2
    assert VIEWS == ["", "run", "leaders", "compare"]
    assert PARTS == ["board", "tiers", "tasks", "trials", "compare"]


def test_the_api_gives_no_text_as_a_page(page: Page, web: WebProcess, texts: str, tmp_path: Path) -> None:
    """JSON and files stay what they are, and the one page that the API makes is harmless."""
    trials = page.context.request.get(f"{web.url}/api/runs/{quote(texts, safe='')}/trials").json()["trials"]
    names = {"run": texts, "trial": trials[0]["id"], "artifact": "0", "label": ATTACKS[0][:64]}
    names |= {"name": "x", "task": texts}
    kinds = {}
    for path in [operation.path for operation in OPERATIONS] + [*DOWNLOADS, PLAYER_PATH]:
        filled = re.sub(r"{(\w+)}", lambda part: quote(str(names[part[1]]), safe=""), path)
        query = {"/api/compare": f"?{urlencode({'a': texts, 'b': ATTACKS[0]})}"}.get(path, "")
        answer = page.context.request.get(f"{web.url}{filled}{query}")
        kinds[path] = answer.headers.get("content-type", "").partition(";")[0]
        assert answer.headers["x-content-type-options"] == "nosniff", path
        if kinds[path] == "text/html":
            (tmp_path / "page.html").write_bytes(answer.body())
            page.goto((tmp_path / "page.html").as_uri())
            shown_harmless(page, "body")
    assert [path for path, kind in kinds.items() if kind == "text/html"] == ["/api/leaderboards.html"]


@pytest.mark.parametrize("path", SHEETS)
def test_drawn_pages_make_hostile_texts_harmless(page: Page, web: WebProcess, texts: str, path: str) -> None:
    """Its policy is that of the page, which lets no script of a text run."""
    named = quote(texts, safe="")
    filled = path.format(name=quote(ATTACKS[0], safe=""), task=named, run=named)
    options = {"{task}": {"run": texts}, "{run}": {"as_of": datetime.now(UTC).isoformat()}}
    query = urlencode(next((asked for part, asked in options.items() if part in path), {}))
    answer = page.goto(f"{web.url}{filled}?{query}")
    assert answer is not None
    assert (answer.status, answer.headers["content-type"].partition(";")[0]) == (200, "text/html")
    assert answer.headers["content-security-policy"] == content_security_policy()
    shown_harmless(page)
    if "{name}" in path or "{task}" in path:
        page.locator("main tbody a").first.click()
        expect(page.get_by_role("heading", level=1)).to_have_text(ATTACKS[3])
        harmless(page)


def test_saved_files_make_texts_harmless(page: Page, web: WebProcess, texts: str, tmp_path: Path) -> None:
    package = STATIC.parents[1]
    texts_of = {path: path.read_text("utf-8") for path in package.rglob("*.py")}
    writers = [path for path, code in texts_of.items() if re.search(r"(?<!def )one_file\(|def as_html", code)]
    assert {str(path.relative_to(package)) for path in writers} - {"web/api.py"} == SAVED.keys()
    for number, command in enumerate(SAVED.values()):
        file = tmp_path / f"{number}.html"
        given = [{"RUN": texts, "OTHER": ATTACKS[0], "FILE": str(file)}.get(word, word) for word in command]
        done = streamer(*given, environment=found_by(web.settings))
        assert file.exists(), done
        page.goto(file.as_uri())
        shown_harmless(page, "body")


# -----------------------------------------------------------------------------
# Tables without a mouse, and the page in the dark.


def test_columns_sort_by_keyboard_with_unknown_values_last(page: Page, web: WebProcess) -> None:
    costs = {"cheap": 1.0, "dear": 2.0, "unknown": None}
    publish(
        web.settings,
        [a_trial(run_id="unpriced", agent=agent, cost_usd=cost) for agent, cost in costs.items()],
    )
    page.goto(f"{web.url}/#/run/unpriced")
    rows = page.locator("tbody").first.locator("tr")
    expect(rows).to_have_count(3)
    heading = page.get_by_role("columnheader", name="Cost", exact=True)
    assert heading.get_attribute("aria-sort") is None
    heading.get_by_role("button").focus()
    for order, agents in {"ascending": "cheap dear unknown", "descending": "dear cheap unknown"}.items():
        page.keyboard.press("Enter")
        expect(heading).to_have_attribute("aria-sort", order)
        assert [re.split("[:/]", row)[0] for row in rows.all_text_contents()] == agents.split()


def test_focus_stays_where_it_is_when_a_column_appears(page: Page, web: WebProcess) -> None:
    publish(web.settings, trials("columns", 0, 3))
    page.goto(f"{web.url}/#/run/columns")
    heading, row = page.get_by_role("columnheader", name="Cost", exact=True), page.locator("tbody tr").first
    sorting = heading.get_by_role("button")
    opening = row.get_by_role("button").or_(row.get_by_role("link")).first
    for focused, number in ((sorting, 3), (opening, 4)):
        name = f"named-{number}"
        focused.focus()
        publish(web.settings, trials("columns", number, number + 1, metrics={name: 1.0}))
        expect(page.get_by_role("columnheader", name=name)).to_be_visible()
        expect(focused).to_be_focused()
    sorting.focus()
    for order in ("ascending", "descending"):
        page.keyboard.press("Enter")
        expect(heading).to_have_attribute("aria-sort", order)


def test_colours_follow_the_system_at_first(browser: Browser, web: WebProcess, simulated: None) -> None:
    with a_page(browser, color_scheme="dark") as page:
        page.goto(web.url)
        root = page.locator("html")
        expect(root).to_have_attribute("data-theme", "dark")
        page.get_by_role("button", name="Colours: as the system").click()
        expect(root).to_have_attribute("data-theme", "light")
        page.reload()
        expect(root).to_have_attribute("data-theme", "light")


# -----------------------------------------------------------------------------
# The page shows metrics that harnesses name themselves (R30), by the rules of the other surfaces.


PLAN = {
    "latency": {"direction": "lower", "unit": "seconds", "label": "Time to answer"},
    "reward/style": {},
    "price": {"unit": "USD"},
    "hostile": {"label": "<b>label</b>", "unit": "<b>unit</b>"},
    "never": {},
}
NAMES = ["latency", "reward/style", "hostile", "price", "unplanned", "constructor"]
"""In the order of their columns: the planned ones first, then those with more trials."""


def events_of_page_named(run: str) -> list[bytes]:
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
    publish(stack, events_of_page_named("named"))
    return "named"


def summaries(kind: str, events: list[Event] | list[bytes] | None = None) -> list[dict[str, Any]]:
    """The summaries of one kind of these events; by default, of the run that the page shows."""
    result = summarised(events or events_of_page_named("named"))
    return [summary for key, summary in result.items() if key.startswith(f"{kind} ")]


def test_charts_offer_all_named_metrics_and_begin_with_those_of_the_terminal() -> None:
    many = a_plan(metrics={"m8": {"unit": "seconds", "direction": "lower"}})
    results = [a_trial(task_id=f"t{n}", metrics={f"m{k}": 1.0 for k in range(n + 1)}) for n in range(9)]
    agents = summaries("agent_model", [many, *results])
    for groups in (agents, summaries("agent_model"), summaries("tier"), []):
        columns = named_of(groups)
        assert columns[:6] == [column for column in with_named(AGENTS, groups).columns if column.outside]
        named = {f"metrics/{name}" for group in groups for name in group["metrics"]}
        assert {column.name for column in columns} == named
    qualities = [name for name, _ in charts_of(agents, [], "pass_rate")["qualities"]]
    assert qualities[2:] == [column.name for column in named_of(agents)]


def test_boards_have_columns_and_sort_by_the_primary_metric(page: Page, web: WebProcess, run: str) -> None:
    page.goto(f"{web.url}/#/run/{run}")
    board = agents_of(page)
    heads, rows = board.locator("thead th"), board.locator("tbody tr")
    latency = heads.and_(page.locator("[data-id='metrics/latency']"))
    expect(latency).to_have_attribute("aria-sort", "ascending")
    expect(latency).to_have_text("Time to answer")
    expect(heads.and_(page.locator("[data-id='metrics/never']"))).to_have_count(0)
    for text in ("terminus:gpt-5", "90 s", "0.75", "$0.5000", "7.5"):
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
    latency = heads.filter(has_text="Time to answer")
    expect(latency).to_have_attribute("data-id", "metrics/latency")
    expect(latency.get_by_role("button")).to_have_count(0)
    ids = heads.evaluate_all("heads => heads.map((one) => one.dataset.id)")
    at = 1 + ids.index("duration_seconds" if "duration_seconds" in ids else "cost_usd")
    assert ids[at : at + 6] == [f"metrics/{name}" for name in NAMES]
    for agent, values in (
        ("terminus:gpt-5", ["90 s", "0.75", "2", "$0.5000", "7.5", "–"]),
        ("slow:gpt-5", ["3 min", "0.25", "–", "–", "–", "1"]),
    ):
        cells = table.locator("tbody tr").filter(has_text=agent).first.locator("th, td")
        assert cells.all_text_contents()[at : at + 6] == values


def test_the_columns_of_trials_follow_the_rules_of_the_commands() -> None:
    scored = [json.loads(event) for event in events_of_page_named("named")]
    rows = [{"metrics": event["metrics"]} for event in scored if event["type"] == "trial_result"]
    assert with_values_of(TRIALS, summaries("agent_model")) == with_values(TRIALS, rows, PLAN)


def test_charts_offer_named_metrics(page: Page, web: WebProcess, run: str) -> None:
    page.goto(f"{web.url}/#/run/{run}")
    metric, quality = field(page, "Metric"), field(page, "Quality")
    metric.select_option("metrics/latency")
    expect(page.locator(".plot")).to_have_attribute(
        "aria-label", "Time to answer by the trials' own times, 2 lines; the latest values are below"
    )
    expect(page.locator(".legend b")).to_have_text(["3 min", "90 s"])
    offered = metric.locator("option").evaluate_all("options => options.map((one) => one.value)")
    assert [name for name in offered if "/" in name] == [f"metrics/{name}" for name in NAMES[:4]]
    quality.select_option("metrics/unplanned")
    expect(page.locator("svg.scatter .point")).to_have_count(1)
    quality.select_option("metrics/latency")
    best = page.locator("svg.scatter .point:not(.dominated)")
    expect(best).to_have_count(1)
    expect(best).to_contain_text("terminus:gpt-5: time to answer 90 s, mean cost $0.5000, on the frontier")
    publish(web.settings, trials(run, 5, 6, tier="T0", metrics={"latency": 30.0}))
    expect(page.locator(".legend b")).to_have_text(["3 min", "75 s"])


def test_charts_show_the_primary_metric_once_it_is_known(page: Page, web: WebProcess) -> None:
    started = a_plan(run_id="awaited", primary_metric="composite_score", judged=True)
    publish(web.settings, [started, *trials("awaited", 1, 3, score=None)])
    page.goto(f"{web.url}/#/run/awaited")
    quality = field(page, "Quality")
    expect(quality).to_have_value("pass_rate")
    expect(page.locator("svg.scatter .point")).to_contain_text("pass rate")
    publish(web.settings, trials("awaited", 3, 6, score=0.5))
    expect(page.locator("svg.scatter .point")).to_contain_text("composite")
    expect(quality).to_have_value("composite_score")
    expect(field(page, "Metric")).to_have_value("composite_score")


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
