"""The same numbers in every format, and no text that does anything."""

from __future__ import annotations

import io
import json
import re

import orjson
import pyarrow.parquet as pq
import pytest

from streamer.folding.fold import fold_records
from streamer.schemas.summaries import SUMMARY
from streamer.schemas.wire import canonical_json
from streamer.text import visible
from streamer.views import models
from streamer.views.tables import COLUMNS, agents_table, tiers_tables
from streamer.web.report import FORMATS, MAX_TRIALS, RunData, as_html
from tests.report.reporting import (
    HOSTILE,
    RUN,
    START,
    Elements,
    folded,
    from_csv,
    hostile_events,
    mixed_events,
    tiered,
)
from tests.support.events import a_trial, records
from tests.support.simulated import TIERED_RUN, simulate


def test_json_holds_the_summaries_and_trials_of_the_fold_as_they_are() -> None:
    events = simulate(seed=5, start=START)
    report = json.loads(FORMATS["json"](folded(events, TIERED_RUN)))
    folding = fold_records(records(events))
    summaries = [change.summary for change in folding.pipeline.run(TIERED_RUN).summaries()]
    reported = [report["run"], *report["agents"], *report["tiers"], report["comparison"]]
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


def test_a_matrix_that_is_too_large_is_named_in_the_html_report_and_left_out(
    data: RunData, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "MAX_CELLS", 1)
    found = as_html(data).decode()
    assert "has over 1 cells, too many to show" in found
    assert '"matrix":' not in found


def test_an_infinite_cost_of_pass_is_infinite_everywhere() -> None:
    data = folded([a_trial(resolved=False, cost_usd=0.5)])
    at = [column.name for column in COLUMNS].index("cost_of_pass")
    [row] = from_csv(FORMATS["csv"](data))
    assert row[at] == float("inf")
    assert pq.read_table(io.BytesIO(FORMATS["parquet"](data))).to_pylist()[0]["cost_of_pass"] == float("inf")
    assert json.loads(FORMATS["json"](data))["trials"][0]["cost_of_pass"] == "Infinity"


def test_a_run_without_trials_has_a_report_in_every_format() -> None:
    data = folded([{"type": "run_started", "run_id": "r", "tasks": 3}])
    assert data.trials == []
    for write in FORMATS.values():
        assert write(data)


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
