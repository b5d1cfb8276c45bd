"""The same numbers in every format, and no text that does anything."""

from __future__ import annotations

import io
import json
import re
import sys
from datetime import datetime
from html.parser import HTMLParser

import orjson
import pyarrow.parquet as pq
import pytest
from markdown_it import MarkdownIt

from streamer.fold import fold_records
from streamer.report.as_csv import FORMULA_STARTS
from streamer.report.as_html import MAX_TRIALS, as_html
from streamer.report.as_parquet import ParquetMissing, as_parquet
from streamer.report.columns import COLUMNS, TrialColumn, Value, rows
from streamer.report.data import NoSuchRun, RunData
from streamer.report.formats import FORMATS
from streamer.schemas.canonical import canonical_json
from streamer.schemas.formulacode import FormulaCodePayload
from streamer.schemas.scored_trial import ScoredTrial
from streamer.schemas.summaries import SUMMARY
from streamer.text import visible
from streamer.views.tables import agents_table, tiers_tables
from tests.report.reporting import (
    HOSTILE,
    RUN,
    START,
    folded,
    from_csv,
    hostile_events,
    mixed_events,
    tiered,
)
from tests.support.events import a_trial, records
from tests.support.simulated import TIERED_RUN, simulate


@pytest.fixture(params=["mixed", "tiered", "hostile"])
def data(request: pytest.FixtureRequest) -> RunData:
    made = {"mixed": mixed_events, "hostile": hostile_events}
    return tiered() if request.param == "tiered" else folded(made[request.param]())


CELLS = ("td", "th", "h1", "h2", "dd", "p")
TYPES = {
    "text": "string",
    "integer": "int64",
    "number": "double",
    "boolean": "bool",
    "time": "timestamp[us, tz=UTC]",
}


class Elements(HTMLParser):
    """The elements, attributes and texts of a page, as a browser without scripts sees them."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.cells: list[str] = []
        self.data = self.text = ""
        self._inside = ""
        self._in_cell = False
        self.feed(page.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self._inside = "data" if ("id", "data") in attrs else tag
        if tag in CELLS:
            self.cells.append("")
            self._in_cell = True

    def handle_data(self, text: str) -> None:
        if self._inside == "data":
            self.data += text
            return
        self.text += text
        if self._in_cell:
            self.cells[-1] += text

    def handle_endtag(self, tag: str) -> None:
        self._in_cell = self._in_cell and tag not in CELLS


def test_json_holds_the_summaries_and_trials_of_the_fold_as_they_are() -> None:
    events = simulate(seed=5, start=START)
    report = json.loads(FORMATS["json"](folded(events, TIERED_RUN)))
    folding = fold_records(records(events))
    summaries = [change.summary for change in folding.pipeline.run(TIERED_RUN).summaries()]
    reported = [report["run"], *report["agents"], *report["tiers"]]
    assert sorted(map(canonical_json, reported)) == sorted(map(canonical_json, summaries))
    scored = [
        orjson.loads(c.value) for c in folding.pipeline.run(TIERED_RUN).take_changes().scored if c.value
    ]
    assert sorted(t["digest"] for t in report["trials"]) == sorted(t["digest"] for t in scored)
    assert len(report["trials"]) == report["run"]["progress"]["done"]


def test_every_object_of_json_is_a_message_of_the_schemas(data: RunData) -> None:
    report = json.loads(FORMATS["json"](data))
    for found in (report["run"], *report["agents"], *report["tiers"], *report["trials"]):
        SUMMARY.validate_json(orjson.dumps(found), extra="forbid")


def test_csv_reads_back_to_the_values_of_the_trials(data: RunData) -> None:
    assert data.trials
    assert from_csv(FORMATS["csv"](data)) == list(rows(data.trials))


def test_parquet_reads_back_to_the_values_of_the_trials(data: RunData) -> None:
    assert data.trials
    table = pq.read_table(io.BytesIO(FORMATS["parquet"](data)))
    expected = [list(map(_read, COLUMNS, row)) for row in rows(data.trials)]
    assert [list(row.values()) for row in table.to_pylist()] == expected
    assert [str(field.type) for field in table.schema] == [TYPES[column.kind] for column in COLUMNS]
    assert all(field.metadata[b"description"] for field in table.schema)


def _read(column: TrialColumn, value: Value) -> Value | datetime:
    return datetime.fromisoformat(value) if column.kind == "time" and isinstance(value, str) else value


def test_an_infinite_cost_of_pass_is_infinite_everywhere() -> None:
    data = folded([a_trial(resolved=False, cost_usd=0.5)])
    at = [column.name for column in COLUMNS].index("cost_of_pass")
    [row] = from_csv(FORMATS["csv"](data))
    assert row[at] == float("inf")
    assert pq.read_table(io.BytesIO(FORMATS["parquet"](data))).to_pylist()[0]["cost_of_pass"] == float("inf")
    assert json.loads(FORMATS["json"](data))["trials"][0]["cost_of_pass"] == "Infinity"


def test_every_plain_field_of_a_scored_trial_is_a_column() -> None:
    told = {column.path for column in COLUMNS}
    nested = {"type", "formulacode"}
    wanted = {(name,) for name in ScoredTrial.model_fields if name not in nested}
    repeated = {"success", "task_cost_usd", "trajectory_length"}
    blocks = {"per_benchmark_speedups", "pytest_summary", "snapshot_summary"}
    wanted |= {("formulacode", name) for name in set(FormulaCodePayload.model_fields) - repeated - blocks}
    assert told - {()} == wanted


def test_no_cell_of_csv_begins_a_formula() -> None:
    content = FORMATS["csv"](folded(hostile_events())).decode()
    for text in HOSTILE:
        guarded = f"'{text}" if text[0] in FORMULA_STARTS else text
        assert f'"{guarded.replace(chr(34), chr(34) * 2)}"' in content
    for start in "=+@＝":
        assert f',"{start}' not in content
        assert f",{start}" not in content.replace(f'"{start}', "")


def test_an_empty_text_and_an_unknown_value_differ_in_csv() -> None:
    [row] = from_csv(FORMATS["csv"](folded([a_trial()])))
    values = dict(zip((column.name for column in COLUMNS), row, strict=True))
    assert (values["shard"], values["tier"], values["cost_usd"]) == ("", None, None)


def test_without_pyarrow_parquet_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ParquetMissing, match=r"trialstream\[report\]"):
        as_parquet([])


def test_a_run_without_trials_has_a_report_in_every_format() -> None:
    data = folded([{"type": "run_started", "run_id": "r", "tasks": 3}])
    assert data.trials == []
    for write in FORMATS.values():
        assert write(data)


def test_markdown_becomes_tables_of_the_texts_and_nothing_else() -> None:
    data = folded(hostile_events())
    rendered = MarkdownIt("js-default", {"html": True, "linkify": False}).render(FORMATS["md"](data).decode())
    page = Elements(rendered.encode())
    assert page.tags <= {"h2", "h3", "p", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "code"}
    assert page.attributes <= {"style"}
    for name in HOSTILE:
        assert visible(f"{name}") in page.cells
    assert rendered.count("<tr>") == 3 + len(data.agents) + len(data.tiers) + 1 + len(HOSTILE)


def test_nothing_in_markdown_is_a_link_or_a_mention() -> None:
    text = FORMATS["md"](folded(hostile_events())).decode()
    for token in ("://", "www.", "](", " @", "<script", "#1"):
        assert token not in text.replace("&#", "")


def test_html_has_no_element_or_attribute_that_a_name_brought() -> None:
    page, plain = (Elements(as_html(folded(events))) for events in (hostile_events(), mixed_events()))
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
    for table in (agents_table(data.agents), *tiers_tables(data.tiers)):
        for cells in table.rows:
            assert any(page.cells[at : at + len(cells)] == cells for at in range(len(page.cells))), cells


def test_html_allows_its_own_scripts_alone_and_names_no_other_host() -> None:
    page = as_html(tiered()).decode()
    policy = page.split('Content-Security-Policy" content="')[1].split('"')[0]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    for loads in (" src=", "url(", "@import", "<link"):
        assert loads not in page.split("<body>")[0].split("<script>")[0]
        assert f"<script{loads}" not in page


def test_html_lists_so_many_trials_and_says_how_many_there_are() -> None:
    data = folded([a_trial(task_id=f"t{n}") for n in range(MAX_TRIALS + 5)])
    page = as_html(data).decode()
    assert f"The first 1,000 of {MAX_TRIALS + 5:,}; CSV has all." in page
    assert len(re.findall(r'class="name">t\d', page)) == MAX_TRIALS


def test_the_history_of_a_file_ends_with_what_the_summaries_say() -> None:
    data = tiered()
    for agent in data.agents:
        label = agent["agent_model"]
        points = [p for p in data.history if (p["kind"], p["agent_model"]) == ("agent_model", label)]
        assert len(points) > 10
        assert points[-1]["pass_rate"] == agent["statistics"]["pass_rate"]["mean"]


def test_of_several_runs_one_must_be_named() -> None:
    lines = simulate(seed=5, start=START)
    with pytest.raises(NoSuchRun, match="2 runs"):
        folded(lines)
    with pytest.raises(NoSuchRun, match="Did you mean demo-tiers"):
        folded(lines, "demo-tier")
