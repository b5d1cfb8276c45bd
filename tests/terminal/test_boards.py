"""Summaries as tables: what is there is shown, and what is not there is said."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from streamer.terminal.boards import print_board, print_run
from streamer.views.tables import runs_table, trials_table
from tests.support.builders import a_run_change, a_tier_change, an_agent_model_change

NOW = datetime(2026, 1, 2, 3, 4, 6, tzinfo=UTC)


def test_a_run_is_shown_with_its_agents_and_tiers(capsys: pytest.CaptureFixture[str]) -> None:
    changes = (a_run_change(benchmark="tb"), a_tier_change(), an_agent_model_change())
    print_run([change.summary or {} for change in changes], NOW)
    shown = capsys.readouterr().out
    assert shown.startswith("Run r1 · tb")
    for text in ("claude:opus", "T0"):
        assert text in shown


def test_runs_are_lines_in_the_given_order_with_what_they_have_done(
    capsys: pytest.CaptureFixture[str],
) -> None:
    of_12 = {"done": 3, "planned": 12}
    print_board(runs_table([a_run_change(run, progress=of_12).summary or {} for run in ("b", "a")], NOW))
    rows = [line for line in capsys.readouterr().out.splitlines() if "3 of 12" in line]
    assert [row.split()[0] for row in rows] == ["b", "a"]


def test_a_run_whose_plan_is_incomplete_has_its_trials_alone_and_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    reading, silent = {"done": 3, "planned": None, "plan_complete": False}, {"done": 4, "planned": None}
    runs = [a_run_change(run, progress=of).summary or {} for run, of in (("a", reading), ("b", silent))]
    print_board(runs_table(runs, NOW))
    result = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert "3 (plan not complete yet)" in result["a"]
    assert "plan" not in result["b"]


def test_nothing_to_show_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    print_board(runs_table([], NOW), empty="No runs yet.")
    assert capsys.readouterr().out == "No runs yet.\n"
    print_board(trials_table([]), runs_table([a_run_change().summary or {}], NOW), empty="Nothing.")
    assert "Nothing." not in capsys.readouterr().out
