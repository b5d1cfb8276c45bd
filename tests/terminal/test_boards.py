"""Summaries as tables: what is there is shown, and what is not there is said."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from streamer.terminal.boards import print_board
from streamer.views.tables import runs_table, trials_table
from tests.support.builders import a_run_change

NOW = datetime(2026, 1, 2, 3, 4, 6, tzinfo=UTC)


def test_runs_are_lines_in_the_given_order_with_what_they_have_done_of_what_is_planned(
    capsys: pytest.CaptureFixture[str],
) -> None:
    progress = {
        "b": {"done": 3, "planned": 12},
        "a": {"done": 3, "planned": None, "plan_complete": False},
        "c": {"done": 4, "planned": None},
    }
    runs = [a_run_change(run, progress=of).summary or {} for run, of in progress.items()]
    print_board(runs_table(runs, NOW))
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert [run for run in lines if run in progress] == list(progress)
    assert "3 of 12" in lines["b"]
    assert "3 (plan not complete yet)" in lines["a"]
    assert "plan" not in lines["c"]


def test_nothing_to_show_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    print_board(runs_table([], NOW), empty="No runs yet.")
    assert capsys.readouterr().out == "No runs yet.\n"
    print_board(trials_table([]), runs_table([a_run_change().summary or {}], NOW), empty="Nothing.")
    assert "Nothing." not in capsys.readouterr().out
