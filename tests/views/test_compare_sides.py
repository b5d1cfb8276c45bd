"""Two public submissions of Terminal-Bench compared, against a count of their rows."""

from __future__ import annotations

from collections.abc import Iterable
from math import comb, sqrt
from statistics import mean, stdev
from typing import Any

import orjson
import pytest

from streamer.client.queries import ComparedRun
from streamer.views.compare import ComparedSide, compare_sides
from streamer.views.models import TrialRow
from tests.support.board_runs import board_runs
from tests.support.data import shared_data
from tests.support.events import Event, a_plan, folded
from tests.support.rows import read_rows, terminal_bench_row_to_event

OPENHANDS = "terminal-bench-core@0.1.1/20250711_openhands_claude-4-sonnet/openhands-sonnet2"
CURSOR = "terminal-bench-core@0.1.1/20250811_cursor-cli_claude-4-sonnet/run1_2025-08-10__05-27-18"
STUDENT_T_79 = 1.990450
"""Quantile .975 of Student's t with 79 degrees of freedom."""


def submission(path: str) -> dict[str, dict[str, Any]]:
    """The rows of one run, by task; a trial without a verdict has failed for good here."""
    rows = read_rows(shared_data() / "terminal_bench" / "trials.jsonl.gz")
    wanted = (row for row in rows if row["run_path"] == path)
    return {row["task_id"]: row | {"is_resolved": row["is_resolved"] is True} for row in wanted}


def a_side(run_id: str, events: Iterable[Event]) -> ComparedSide:
    held = list(events)
    [found] = board_runs(held)
    scored = folded(held)[0].run(run_id).take_changes().scored
    rows = [TrialRow.of("", orjson.loads(trial.value or b"")) for trial in scored]
    return ComparedSide(ComparedRun(found.run, None, found.tasks), found.agents, None, rows)


def side_of(path: str, rows: dict[str, dict[str, Any]], planned: int) -> ComparedSide:
    events = [terminal_bench_row_to_event(row, path) for row in rows.values()]
    return a_side(path, [a_plan(run_id=path, tasks=planned, attempts=1), *events])


def test_public_submissions_compare_to_what_a_count_of_their_rows_gives() -> None:
    ours, theirs = submission(OPENHANDS), submission(CURSOR)
    assert len(ours) == len(theirs) == 80
    found = compare_sides(side_of(OPENHANDS, ours, 80), side_of(CURSOR, theirs, 80), 0, 100)
    moved = [theirs[task]["is_resolved"] - ours[task]["is_resolved"] for task in ours]
    lost, won = moved.count(-1), moved.count(1)
    assert (found.ended, found.only_a, found.only_b, found.tasks) == (True, lost, won, 80)
    assert sum(group.count for group in found.flips) == lost + won
    passes = found.differences["pass_rate"]
    tail = sum(comb(lost + won, k) for k in range(min(lost, won) + 1))
    assert passes.p_value == pytest.approx(min(1.0, 2 * tail / 2 ** (lost + won)))
    half = STUDENT_T_79 * stdev(moved) / sqrt(80)
    assert passes.interval is not None
    assert (passes.interval.low, passes.interval.high) == pytest.approx(
        (mean(moved) - half, mean(moved) + half), rel=1e-5
    )
    assert passes.p_value < 0.05
    assert found.words[0].startswith("openhands:")
    assert f"sign test p = {passes.p_value:.3g}" in found.words[0]


def test_while_one_of_them_runs_there_is_evidence_but_no_interval() -> None:
    ours, theirs = submission(OPENHANDS), submission(CURSOR)
    some = dict(list(theirs.items())[:40])
    found = compare_sides(side_of(OPENHANDS, ours, 80), side_of(CURSOR, some, 80), 0, 100)
    assert (found.ended, found.differences["pass_rate"].interval, found.tasks) == (False, None, 40)
    assert not any("sign test" in words or "95 %, about tasks" in words for words in found.words)
