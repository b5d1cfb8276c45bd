"""Reports: the same numbers in every format, and no text that does anything."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest
from markdown_it import MarkdownIt

from streamer.folding.fold import NoSuchRun, fold_records
from streamer.schemas.base import canonical_json
from streamer.schemas.summaries import SUMMARY
from streamer.text import percent, visible
from streamer.views import models
from streamer.views.cells import EVENT_TIME, EXPLAINED
from streamer.views.columns import Board, Column
from streamer.views.decide.gate import Entrant, NoSuchSide, Terms, judge
from streamer.views.tables import COLUMNS, Document, Table, table_of, tiers_tables
from streamer.web import report as reports
from streamer.web.pages import hash_of, one_file
from streamer.web.report import FORMATS, MAX_TRIALS, SIDES, RunData, as_html, gate_markdown, side_of
from tests.folding.matched import side, the_plan, trial
from tests.support.cli import streamer
from tests.support.events import Event, a_plan, a_start, a_trial, records
from tests.support.simulated import TIERED_RUN, simulate
from tests.views.test_gate import BASELINE, PLANS, judged, ours
from tests.web.report import reporting
from tests.web.report.reporting import HOSTILE, NOW, RUN, START, Elements, folded, hostile_events, tiered


def test_markdown_becomes_tables_of_the_texts_and_nothing_else() -> None:
    data = folded(hostile_events())
    rendered = MarkdownIt("js-default", {"html": True, "linkify": False}).render(FORMATS["md"](data).decode())
    page = Elements(rendered.encode())
    assert page.tags <= {"h2", "h3", "p", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "code"}
    assert page.attributes <= {"style"}
    for name in HOSTILE:
        assert visible(f"{name}") in page.cells
    heads = [unescape(head) for head in re.findall(r'<th style="text-align:right">(.*?)</th>', rendered)]
    assert {visible(head) for head in reporting.HOSTILE_HEADS} <= set(heads)
    assert rendered.count("<tr>") == 3 + len(data.agents) + len(data.tiers) + 1 + len(HOSTILE)


def test_markdown_has_the_interval_what_it_means_and_the_trials_in_flight() -> None:
    tasks = [f"t{n}" for n in range(20)]
    trials = [a_trial(task_id=task) for task in tasks[:10]] + [a_start(task_id=task) for task in tasks[10:13]]
    rendered = MarkdownIt("js-default").render(FORMATS["md"](folded([shuffled(tasks), *trials])).decode())
    page = Elements(rendered.encode())
    assert any(re.fullmatch(r"[\d.]+ % so far \[\d+, \d+\]", cell) for cell in page.cells), page.cells
    assert EXPLAINED["interval"] in page.cells
    assert "10 of 20 planned trials in, 3 in flight, provisional" in rendered


def shuffled(tasks: list[str]) -> Event:
    return a_plan(tasks=tasks, attempts=1, order=tasks, order_kind="shuffled")


@pytest.mark.parametrize(
    ("done", "words"), [(20, ["this run, final", "tasks like these"]), (40, ["tasks like these"])]
)
def test_heads_of_markdown_and_html_say_which_question_a_column_answers(done: int, words: list[str]) -> None:
    tasks = [f"t{n}" for n in range(20)]
    events = [a_trial(task_id=t, agent=agent, resolved=agent == "a") for t in tasks for agent in ("a", "b")]
    data = folded([shuffled(tasks), *events[:done]])
    [head] = re.findall(r"^\| agent:model.*$", FORMATS["md"](data).decode(), re.MULTILINE)[:1]
    assert re.findall(r"(?:pass rate|place) \((.*?)\)", head) == words
    assert re.findall(r'<span class="about">(.*?)</span></th>', as_html(data).decode()) == words


@pytest.mark.parametrize(
    ("plan", "words"),
    [({}, "no plan known"), ({"plan_complete": False}, "plan not complete yet, provisional")],
)
def test_markdown_says_whether_the_plan_is_incomplete_or_missing(plan: dict[str, Any], words: str) -> None:
    rendered = FORMATS["md"](folded([a_plan(tasks=2, **plan), a_trial()])).decode()
    assert f"1 trial in, {words}" in unescape(rendered)


@pytest.mark.parametrize(("form", "line"), [("md", f"- {EVENT_TIME}"), ("html", f"<p>{EVENT_TIME}</p>")])
def test_a_report_says_that_its_time_is_event_time(form: str, line: str) -> None:
    """The script of a report has the words alone, too."""
    later = folded([a_trial()])
    ahead = replace(later, read_at=datetime(2020, 1, 1, tzinfo=UTC))
    before, after = (unescape(FORMATS[form](data).decode()) for data in (ahead, later))
    assert f"As of event time {later.run['last_event_at']}" in before
    assert (line in before, line in after) == (True, False)


def test_nothing_in_markdown_is_a_link_or_a_mention() -> None:
    text = FORMATS["md"](folded(hostile_events())).decode()
    for token in ("://", "www.", "](", " @", "<script", "#1"):
        assert token not in text.replace("&#", "")


def test_nothing_in_decoded_markdown_is_a_mention() -> None:
    name = "x @org/team o/r#1 GH-1"
    table = Table(name, SIDES[:1], [["x"]], note=name)
    text = unescape(reports.document_as_markdown(Document(name, ["a fact"], [name], [table], name)).decode())
    assert text.count("org/team") == 5
    assert re.search(r"@\w|#\d|GH-\d", text) is None


# -----------------------------------------------------------------------------
# The same numbers in every format, and no text that does anything.


def test_json_holds_the_summaries_and_trials_of_the_fold_as_they_are() -> None:
    events = simulate(seed=5, start=START)
    report = json.loads(FORMATS["json"](folded(events, TIERED_RUN)))
    run = fold_records(records(events)).pipeline.run(TIERED_RUN)
    expected = [change.summary for change in run.summaries()]
    reported = [report["run"], *report["agents"], *report["tiers"], report["comparison"]]
    assert sorted(map(canonical_json, reported)) == sorted(map(canonical_json, expected))
    scored = [orjson.loads(change.value) for change in run.take_changes().scored if change.value]
    assert sorted(t["digest"] for t in report["trials"]) == sorted(t["digest"] for t in scored)
    assert len(report["trials"]) == report["run"]["progress"]["done"]


def test_every_object_of_json_is_a_message_of_the_schemas(data: RunData) -> None:
    report = json.loads(FORMATS["json"](data))
    for result in (report["run"], *report["agents"], *report["tiers"], *report["trials"]):
        SUMMARY.validate_json(orjson.dumps(result), extra="forbid")


def test_html_names_a_matrix_that_is_too_large(data: RunData, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "MAX_CELLS", 1)
    result = as_html(data).decode()
    assert "has over 1 cells, too many to show" in result
    assert '"matrix":' not in result


def test_an_infinite_cost_of_pass_is_infinite_everywhere() -> None:
    data = folded([a_trial(resolved=False, cost_usd=0.5)])
    at = [column.name for column in COLUMNS].index("cost_of_pass")
    [row] = reporting.from_csv(FORMATS["csv"](data))
    assert row[at] == float("inf")
    assert pq.read_table(io.BytesIO(FORMATS["parquet"](data))).to_pylist()[0]["cost_of_pass"] == float("inf")
    assert json.loads(FORMATS["json"](data))["trials"][0]["cost_of_pass"] == "Infinity"


def test_a_run_without_trials_has_a_report_in_every_format() -> None:
    data = folded([{"type": "run_started", "run_id": "r", "tasks": 3}])
    assert data.trials == []
    for write in FORMATS.values():
        assert write(data)


def test_html_has_no_element_or_attribute_that_a_name_brought() -> None:
    page, plain = (
        Elements(as_html(folded(events))) for events in (hostile_events(), reporting.mixed_events())
    )
    assert page.tags - plain.tags <= {"bdi"}
    assert "img" not in page.tags
    assert page.attributes <= plain.attributes
    for name in (*HOSTILE, RUN):
        assert visible(name) in page.text
    assert {agent["agent"] for agent in json.loads(page.data)["agents"]} == set(HOSTILE)


def test_html_says_the_numbers_of_the_summaries_with_and_without_scripts(data: RunData) -> None:
    page = Elements(as_html(data))
    drawn = json.loads(page.data)
    assert (drawn["run"], drawn["agents"], drawn["tiers"]) == (data.run, data.agents, data.tiers)
    for table in tiers_tables(data.tiers, data.run)[1:]:
        for cells in table.rows:
            assert any(page.cells[at : at + len(cells)] == cells for at in range(len(page.cells))), cells
    for tier in (tier for tier in data.tiers if tier["agent_model"] is None):
        label = visible(tier["tier"]) + " baseline" * (tier["tier"] == tier["baseline_tier"])
        at = page.cells.index(label)
        row = [cell.replace("\u00a0", " ") for cell in page.cells[at : at + 20]]
        rate = percent((tier["statistics"]["pass_rate"] or {}).get("mean"))
        assert any(cell.startswith(rate) for cell in row), row
    for agent in data.agents:
        label = visible(agent["agent_model"]) + "baseline" * agent["baseline"]
        at = page.cells.index(label)  # the board comes first
        row = [cell.replace("\u00a0", " ") for cell in page.cells[at : at + 20]]
        assert row[1].startswith(percent((agent["statistics"]["pass_rate"] or {}).get("mean"))), row
        assert f"{agent['trials']:,}" in {cell.partition(" / ")[0] for cell in row}
        assert any(cell.startswith(percent(agent["accuracy"])) for cell in row)


@pytest.mark.parametrize(
    "content", [lambda: as_html(tiered()).decode(), lambda: page("a")], ids=["report", "table"]
)
def test_html_allows_its_own_scripts_alone_and_names_no_other_host(content: Callable[[], str]) -> None:
    html = content()
    scripts = re.findall(r'<script(?! type="application/json")[^>]*>(.*?)</script>', html, re.DOTALL)
    styles = re.findall(r"<style[^>]*>(.*?)</style>", html, re.DOTALL)
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]+)"', html)
    assert re.findall(r"'sha256-[^']+'", policy) == [*map(hash_of, scripts), *map(hash_of, styles)]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for loads in (" src=", "url(", "@import", "<link"):
        assert loads not in html.split("<body>")[0].split("<script>")[0]
        assert f"<script{loads}" not in html


def test_html_lists_so_many_trials_and_says_how_many_there_are() -> None:
    data = folded([a_trial(task_id=f"t{n}") for n in range(MAX_TRIALS + 5)])
    page = as_html(data).decode()
    assert f"The first 1,000 of {MAX_TRIALS + 5:,}; CSV has all." in page
    assert len(re.findall(r'class="name">t\d', page)) == MAX_TRIALS


# -----------------------------------------------------------------------------
# The comment for a pull request: hostile names stay text.


HOSTILE_NAME = "x|<img src=x onerror=alert(1)>](https://evil.example) @team #1"
MENTION = re.compile(r"@\w|#\d|GH-\d", re.IGNORECASE)
"""What GitHub takes for a person, a team, an issue or a pull request, in decoded text outside of code."""


def test_a_comment_has_the_verdict_both_sides_and_both_answers() -> None:
    lines = gate_markdown(judged([*PLANS, *BASELINE, *ours(0, 9, cost_usd=0.5)])).decode().splitlines()
    assert lines[0] == "## ❌ Gate: fail"
    assert lines[-4:] == [
        "| side | run | agent:model | trials | passed |",
        "| :-- | :-- | :-- | --: | --: |",
        "| candidate | <code>r</code> | <code>a:m</code> | 9 of 20 | 0 |",
        "| baseline | <code>s</code> | <code>b:m</code> | 20 of 20 | 20 |",
    ]
    said = "\n".join(lines)
    assert all(f"- {word}: fail" in said for word in ("final", "ability"))
    assert "- estimate: stopping now saves up to 11 trials" in said


def comment_on(name: str, *, is_candidate: bool) -> str:
    """The comment on a run whose task and agent have this name, and on the baseline."""
    plan = the_plan("r", tasks=[name], order=None, agent_models=[f"{name}:m"])
    events = [plan, trial("r", name, name, True), the_plan("s"), *BASELINE]
    named, other = (Entrant(name, side(events, run, of, fixed=True)) for run, of in (("r", name), ("s", "b")))
    return gate_markdown(judge(*((named, other) if is_candidate else (other, named)), Terms())).decode()


def test_names_of_agents_and_tasks_are_no_markup() -> None:
    text = comment_on(HOSTILE_NAME, is_candidate=True)
    assert "only in the candidate" in text
    assert not any(part in text for part in ("<img", "](", "https://", "@team", " #1"))
    row = next(line for line in text.splitlines() if line.startswith("| candidate"))
    assert row.count("|") == 6
    alone = gate_markdown(judge(Entrant("mine", None), None, Terms())).decode()
    assert "| candidate | – | – | 0 | 0 |" in alone


@pytest.mark.parametrize(
    "name", ["@org/team", "a@org", "fixes #12", "o/r#12", "GH-12", "gh-12 www.x.example"]
)
def test_a_name_mentions_nobody_once_github_has_decoded_it(name: str) -> None:
    text = unescape(re.sub("<code>.*?</code>", "", comment_on(name, is_candidate=False)))
    assert MENTION.search(name)
    assert "only in the baseline" in text
    assert "points worse than" in text
    assert MENTION.findall(text) == []


def a_run() -> RunData:
    agents = ("alpha", "beta", "nop")
    events = [a_trial(task_id=f"t{n}", agent=agent, model="m") for n in range(2) for agent in agents]
    data, _ = reports.from_events(records(events), None, now=NOW)
    return data


def test_a_side_is_one_agent_or_all_but_baselines() -> None:
    assert {row.agent_model for row in side_of(a_run(), "beta:m").rows} == {"beta:m"}
    assert {row.agent_model for row in side_of(a_run(), None).rows} == {"alpha:m", "beta:m"}
    assert len(side_of(a_run(), None).rows) == 4


def test_an_agent_that_the_run_does_not_have_is_answered_with_those_like_it() -> None:
    with pytest.raises(NoSuchSide, match=r"has no agent:model 'alhpa:m'\. Did you mean alpha:m"):
        side_of(a_run(), "alhpa:m")
    assert "It has no results yet." in str(NoSuchSide.unknown_agent("r", "a:m", []))


@pytest.mark.parametrize(("attempts", "expected"), [(3, True), (4, False)])
@pytest.mark.parametrize("form", ["md", "html"])
def test_at_the_end_it_is_said_what_the_error_is(
    tmp_path: Path, form: str, attempts: int, expected: bool
) -> None:
    slots = [(n, k) for n in range(6) for k in (1, 2, 3)]
    results = [a_trial(task_id=f"t{n}", attempt=k, agent="<b>x", resolved=n * k % 3 > 0) for n, k in slots]
    file = tmp_path / "events.ndjson"
    file.write_bytes(
        b"".join(orjson.dumps(event) + b"\n" for event in (a_plan(tasks=6, attempts=attempts), *results))
    )
    done = streamer("report", "--from", file, "--format", form)
    assert done.returncode == 0, done.stderr
    assert ("standard error" in done.stdout.decode()) == expected
    assert b"<b>x" not in done.stdout, "a name is no markup"


def test_the_history_of_a_file_ends_with_what_the_summaries_say() -> None:
    for agent in tiered().agents:
        label = agent["agent_model"]
        points = [p for p in tiered().history if (p["kind"], p["agent_model"]) == ("agent_model", label)]
        assert len(points) > 10
        assert points[-1]["pass_rate"] == agent["statistics"]["pass_rate"]["mean"]


def test_of_several_runs_one_must_be_named() -> None:
    lines = [a_trial(run_id=run) for run in ("demo-tiers", "demo-terminal")]
    with pytest.raises(NoSuchRun, match="2 runs"):
        folded(lines)
    with pytest.raises(NoSuchRun, match="Did you mean demo-tiers"):
        folded(lines, "demo-tier")


NAMES = Board("Names", (Column("name", "name", "name", ("name",)), Column("count", "n", "count", ("count",))))


def page(*names: str, title: str = "Title") -> str:
    table = table_of(NAMES, [{"name": name, "count": 1} for name in names])._replace(note="<i>note</i>")
    return one_file(Document(title, names, names, [table], "<b>foot</b>")).decode()


def test_hostile_text_stands_as_text_wherever_it_may_stand() -> None:
    result = Elements(page(*HOSTILE, title=HOSTILE[0]).encode())
    assert "img" not in result.tags
    assert not {one for one in result.attributes if one.startswith("on")}
    for name in HOSTILE:
        assert name.replace("\u202e", "\\u202e").replace("\u202c", "\\u202c") in result.text


def test_a_table_without_rows_is_left_out() -> None:
    assert "<table" in page("a")
    assert "<table" not in page()
