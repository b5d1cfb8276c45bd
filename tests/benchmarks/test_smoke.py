"""Every benchmark runs and says something; what it measures at this scale means nothing."""

from __future__ import annotations

import doctest
import json
import os
import sys
from collections.abc import Iterator
from functools import partial
from math import isfinite
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks import bench_large_run, difference, history, peers, report, stacks, verdicts
from benchmarks.bench_trickle_bytes import trickle_bytes
from benchmarks.big_run import big_run
from benchmarks.commands import commands
from benchmarks.common import SCALES
from benchmarks.families import drained
from benchmarks.growth import growth
from benchmarks.latency import measure as trickle
from benchmarks.machine import cores, cpu_seconds, move
from benchmarks.page import page
from benchmarks.report import as_text, chart, read, write
from benchmarks.rows import Measured, Row, Sites
from benchmarks.scale_out import two_workers
from benchmarks.sizing import as_sizes
from benchmarks.starts import backlogs, cut_milliseconds, starts
from benchmarks.startup import startup
from benchmarks.volume import volume
from tests.house.repository import ROOT, ran
from tests.web.browsing import a_stack

pytestmark = [pytest.mark.timeout(600), pytest.mark.in_turn(3)]

TINY = SCALES["tiny"]
ON_KAFKA = {
    "growth": growth,
    "starts": starts,
    "two-workers": two_workers,
    "latency": partial(trickle, engine="kafka"),
    "volume": volume,
    "big-run": partial(big_run, stores=["memory"]),
}


@pytest.fixture(scope="module")
def sites() -> Iterator[Sites]:
    """Brokers that the families share, each started when it is first needed."""
    with Sites() as running:
        yield running


def check(measured: Measured) -> None:
    """Finite figures above zero in every row, and details that JSON can say."""
    assert measured.rows
    for row in measured.rows:
        assert all(isfinite(value) and value > 0 for value in row.values), row
        json.dumps(row.as_dict(), allow_nan=False)
    json.dumps(measured.details, allow_nan=False)


@pytest.mark.kafka
@pytest.mark.parametrize("family", ON_KAFKA)
def test_a_family_runs_on_kafka(family: str, sites: Sites) -> None:
    check(ON_KAFKA[family](TINY, sites))


@pytest.mark.kafka
def test_ours_and_the_peers_run_turn_about(sites: Sites) -> None:
    if not peers.PEERS.is_dir():
        pytest.skip("SKIPPED LOUDLY: the peers' folder ../shared/peers is not beside this checkout")
    measured = drained(TINY, sites, folder=peers.PEERS)
    check(measured)
    assert set(measured.details["rates"]) == {peers.OURS, *peers.runnable()}
    assert "naive_faust" in peers.as_table(measured.details)


@pytest.mark.stack
def test_a_trickle_runs_on_the_embedded_broker(sites: Sites) -> None:
    check(trickle(TINY, sites, "embedded"))


def test_each_trial_of_the_backlog_with_starts_starts_before_its_result() -> None:
    alone, queue, started = ([json.loads(line) for line in case] for case in backlogs(600).values())
    assert [event["type"] for event in queue] == ["run_started", *["trial_result"] * 600]
    assert [event for event in started if event["type"] != "trial_started"] == queue
    seen = set()
    for event in started:
        slot = event.get("task_id"), event.get("agent")
        assert event["type"] != "trial_result" or slot in seen
        seen |= {slot} if event["type"] == "trial_started" else set()
    assert len(seen) == len(alone) == 600
    order = queue[0]["order"]
    assert [event["task_id"] for event in alone if event["agent"] == "agent-00"] == order


def test_a_cut_of_a_large_run_is_timed() -> None:
    assert all(taken > 0 for taken in cut_milliseconds(2))


def test_the_bytes_of_a_trickle_are_worked_out_by_topic() -> None:
    result = trickle_bytes(100)
    assert {"state pages", "agent_model summaries", "tier summaries", "run summaries", "scored trials"} < set(
        result
    )
    for of_topic in result.values():
        assert 0 < of_topic["zstd 19"] <= of_topic["zstd 3"] * 1.05 < of_topic["raw"] * 1.1
    assert result["all"]["raw"] > result["tier summaries"]["raw"] > 1
    assert trickle_bytes(100, together=10)["all"]["zstd 3"] < result["all"]["zstd 3"]


def test_the_coverage_of_a_difference_is_one_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Two comparisons for each setting say nothing about it, but any 50 % is below what it must be."""
    below = difference.main(["--runs", "2", "--seed", "36"])
    head, _, *rows = capsys.readouterr().out.splitlines()
    assert len(rows) == len(difference.TASKS) * 2 + len(difference.UNEQUAL_TASKS) * 2
    assert {row.count("|") for row in rows} == {head.count("|")}
    assert below == any("| 50.0%" in row or "| 0.0%" in row for row in rows)


def test_comparisons_of_public_agents_are_three_tables(capsys: pytest.CaptureFixture[str]) -> None:
    """Five agents, one order each: drops of all sizes, and a forecast of each kind."""
    assert history.main(["--orders", "1", "--agents", "5"]) == 0
    tables = [table.splitlines() for table in capsys.readouterr().out.strip().split("\n\n")]
    assert [len(table) - 2 for table in tables] == [len(history.BANDS), 1, 2 * len(history.SHARES)]
    assert all(row.count("|") == table[0].count("|") for table in tables for row in table)
    ratios = [float(row.rsplit("|", 3)[1]) for row in tables[0][2:]]
    assert all(0 < ratio <= 1 for ratio in ratios)


@pytest.mark.stack
def test_verdicts_of_two_trees_are_one_table(capsys: pytest.CaptureFixture[str]) -> None:
    verdicts.main([str(ROOT), "--runs", "2"])
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[2:]]
    assert len(rows) == len(verdicts.STATES) * len(verdicts.MEASURES)
    assert all(row[-1] == row[-2] for row in rows), "a tree differs from itself"
    assert {"0%", "100%"} <= {row[-1] for row in rows}


@pytest.mark.stack
def test_answers_about_a_large_run_are_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_large_run, "QUIET_SECONDS", 0.5)
    monkeypatch.setattr(bench_large_run, "PAUSE_SECONDS", 0.1)
    with a_stack(tmp_path) as stack:
        rows = bench_large_run.measure(stack, str(tmp_path), 2_000)
    assert rows.keys() == bench_large_run.ASKED.keys()
    assert all(len(row) == 4 and min(row) > 0 for row in rows.values()), rows


@pytest.mark.stack
def test_the_start_of_a_stack_runs(sites: Sites) -> None:
    check(startup(TINY, sites))


@pytest.mark.browser
def test_the_page_is_measured(sites: Sites) -> None:
    measured = page(TINY, sites)
    check(measured)
    assert all(row.values for row in measured.rows), [row.what for row in measured.rows]


def test_without_a_browser_the_rows_say_so(sites: Sites, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHROMIUM", "")
    monkeypatch.setenv("PATH", "")
    rows = [row.as_dict() for row in page(TINY, sites).rows]
    assert all(
        row["what"].endswith("not measured: there is no Chromium on PATH or in CHROMIUM") for row in rows
    )
    assert {(row["median"], row["met"], row["turns"]) for row in rows} == {(None, None, 0)}
    result = {"families": {"page": {"rows": rows}}}
    assert "not measured" in as_text(result)


@pytest.mark.stack
def test_the_processor_time_of_commands_is_measured(sites: Sites) -> None:
    check(commands(TINY, sites))


def test_micro_benchmarks_run() -> None:
    ran(sys.executable, "-m", "pytest", "benchmarks/micro", "-q", "--benchmark-disable")


def test_the_command_writes_table_json_and_chart_and_keeps_what_was_measured_before(tmp_path: Path) -> None:
    before = {"families": {"volume": {"scale": "full", "machine": {}, "rows": [], "details": {}}}}
    (tmp_path / "bench.json").write_text(json.dumps(before))
    options = ["--scale", "tiny", "--only", "fold", "--out", tmp_path]
    printed = ran(sys.executable, "-m", "benchmarks", *options).stdout
    families = read(tmp_path)["families"]
    assert set(families) == {"fold", "volume"}
    assert families["fold"]["rows"]
    assert all(isfinite(row["median"]) and row["median"] > 0 for row in families["fold"]["rows"])
    assert (tmp_path / "bench.txt").read_text() == printed
    assert (tmp_path / "bench.png").read_bytes().startswith(b"\x89PNG")


def test_missing_peers_are_said_loudly(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="THE PEERS ARE MISSING"):
        peers.find_peers(tmp_path)


def test_a_row_says_whether_its_target_is_met() -> None:
    rows = [Row("a", [1.0, 3.0, 2.0], "x", ">=", 2.0), Row("b", [1.0], "s", "<=", 0.5), Row("c", [1.0], "s")]
    assert [row.as_dict()["met"] for row in rows] == [True, False, None]
    assert rows[0].as_dict()["median"] == 2.0


def test_a_table_and_a_chart_need_no_family(tmp_path: Path) -> None:
    write({"families": {}}, tmp_path)
    chart({"families": {}}, tmp_path / "again.png")
    assert as_text({"families": {}}).startswith("what")


def test_sizes_follow_from_what_was_measured() -> None:
    told = as_sizes(read(report.OUT))
    assert set(told) == {"constants", "loads", "slots"}
    assert "100,000" in told["loads"]
    assert as_sizes({"families": {}}) == {}


@pytest.mark.parametrize("module", [stacks, report], ids=lambda module: module.__name__)
def test_examples_in_docstrings_hold(module: ModuleType) -> None:
    assert doctest.testmod(module).failed == 0


def test_a_process_can_be_moved_and_its_processor_time_read() -> None:
    move(os.getpid(), *cores())
    assert cpu_seconds(os.getpid()) > 0
