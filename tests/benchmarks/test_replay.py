"""Public runs replayed: what becomes known when, which looks miss, and that the page has the table."""

from __future__ import annotations

import pytest

from benchmarks.replay import HEAD, Past, missing_of, moments, past, public_runs, replayed
from streamer.statistics.final import FinalMissing
from tests.house.repository import ROOT

PAGE = (ROOT / "docs" / "inference.md").read_text("utf-8")
RUNS = dict(public_runs())
REPLAYED = {run: trials for run, rows in RUNS.items() if (trials := past(rows))}


def one_by_one(outcomes: list[bool]) -> list[Past]:
    return [Past(f"t{n}", outcome, started=n, ended=n + 0.5) for n, outcome in enumerate(outcomes)]


def test_a_result_counts_at_the_place_of_its_start() -> None:
    trials = [Past("slow", True, started=0, ended=9), Past("quick", False, started=1, ended=2)]
    assert [tuple(known) for known in moments(trials)] == [
        (None, None),
        (None, None),
        (None, False),
        (True, False),
    ]
    found = replayed("r", trials)
    assert (found.looks, found.at_once, found.rate) == (4, 2, 0.5)


def test_an_order_that_follows_the_outcomes_misses_and_is_caught() -> None:
    """20 passes, then 20 failures: 15 of 15 do not agree with the half that passes in the end."""
    found = replayed("r", one_by_one([True] * 20 + [False] * 20))
    assert found.misses > 0 < found.wilson_misses
    assert found.missing is FinalMissing.EMPTY
    in_blocks = replayed("r", one_by_one(([True] * 10 + [False] * 10) * 4))
    assert in_blocks.missing is FinalMissing.ORDER_FOLLOWS_OUTCOME
    fair = replayed("r", one_by_one([True, False] * 20))
    assert (fair.misses, fair.missing) == (0, None)


def test_the_width_of_wilson_is_the_one_of_the_textbook() -> None:
    """10 of 20 passed: [0.299, 0.701]."""
    assert replayed("r", one_by_one([True, False] * 20)).wilson_width == pytest.approx(0.4014, abs=1e-4)


def test_the_page_has_a_row_for_each_run_with_times() -> None:
    assert len(REPLAYED) == 14
    _, found, table = PAGE.partition(HEAD)
    assert found
    rows = table.strip().splitlines()[: len(REPLAYED) + 1]
    assert [row.split(" | ")[0] for row in rows] == [*(f"| {run}" for run in REPLAYED), ""]


@pytest.mark.parametrize(
    "run", ["swe-agent-mini_claude-4-sonnet, 2025-08-14__19-39-35", "droid_gpt-5, tb_rc2_g5_5"]
)
def test_two_of_its_rows_are_what_the_command_prints(run: str) -> None:
    assert replayed(run, REPLAYED[run]).line() in PAGE


def test_the_run_without_times_has_the_reason_that_the_page_says() -> None:
    [run] = RUNS.keys() - REPLAYED
    assert missing_of(run, RUNS[run]) is FinalMissing.ORDER_UNKNOWN_IN_PART
    by_task = sorted(RUNS[run], key=lambda row: (row["task_id"], row["attempt"]))
    assert len(by_task) == 391
    assert {row["n_attempts"] for row in by_task} == {5}
