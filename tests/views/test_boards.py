"""The boards are declared once: every surface can draw each column, and sorts by the same values."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from streamer.schemas.events import BOARD_METRICS
from streamer.schemas.summaries import AgentModelSummary, Grade, TierSummary
from streamer.views.columns import (
    AGENTS,
    COMPARED,
    FAILURES,
    FORMULACODE,
    GRADES,
    LEADERS,
    OUTCOMES,
    RUNS,
    TIERS,
    TRIALS,
    Board,
    leaders_of,
)
from streamer.views.leaderboard import POOLED, BoardRow
from streamer.views.models import RunNow, Side, TrialOutcome, TrialRow
from streamer.views.tables import FORMATS
from streamer.web import STATIC
from streamer.web.models import LeaderboardRow, TrialSort

BOARDS = (RUNS, AGENTS, TIERS, TRIALS, LEADERS, POOLED, COMPARED, FORMULACODE, FAILURES)
CHOSEN_ON_THE_PAGE = {"spread", "deviation"}
"""Columns of the statistic that the visitor of the page chooses; `tiers.js` draws them."""

MODELS = {
    "Runs": RunNow,
    "Agents": AgentModelSummary,
    "Tiers": TierSummary,
    "Trials": TrialRow,
    "Leaderboard": LeaderboardRow,
    "Leaderboard of a benchmark": BoardRow,
    "Metrics": Side,
    "FormulaCode": AgentModelSummary,
}
"""Title of a board -> the model of its rows."""


def drawn_by_the_page() -> set[str]:
    """The formats that `cells.js` knows."""
    source = (STATIC / "js" / "cells.js").read_text(encoding="utf-8")
    [writers] = re.findall(r"WRITERS = \{ (.*) \};", source)
    [cells] = re.findall(r"^const CELLS = \{\n(.*?)^\};", source, re.DOTALL | re.MULTILINE)
    return set(re.findall(r"(\w+)(?:: \w+)?(?:, |$)", writers)) | set(
        re.findall(r"^  (\w+):", cells, re.MULTILINE)
    )


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.title)
def test_every_surface_draws_the_formats_of_its_columns(board: Board) -> None:
    for column in board.columns:
        if column.name in CHOSEN_ON_THE_PAGE:
            assert column.on == ("page",)
            continue
        assert column.format in FORMATS, column
        assert (
            "page" not in column.on
            or board in (FORMULACODE, FAILURES)
            or column.format in drawn_by_the_page()
        )


@pytest.mark.parametrize(
    "board", [board for board in BOARDS if board.title in MODELS], ids=lambda board: board.title
)
def test_every_column_begins_at_a_field_of_its_rows(board: Board) -> None:
    fields = set(MODELS[board.title].model_fields)
    only_in_text = {"verdict_source", "place"}
    for column in board.columns:
        assert {path[0] for path in (column.path, column.beside) if path} <= fields | only_in_text, column


def test_names_are_unique_within_a_board() -> None:
    for board in BOARDS:
        names = [column.name for column in board.columns]
        assert len(set(names)) == len(names)


def test_every_metric_has_a_column_and_a_leaderboard() -> None:
    assert set(BOARD_METRICS) <= {column.name for column in AGENTS.columns}
    for name in BOARD_METRICS:
        [value] = [column for column in leaders_of(name).columns if column.name == name]
        assert (value.path, value.sort) == (("value",), None)


def test_trials_sort_on_the_page_by_what_the_server_sorts_by() -> None:
    sortable = {column.name for column in TRIALS.shown_on("page") if column.sort}
    assert sortable == set(get_args(TrialSort)) - {"latest"}


def test_words_cover_grades_and_outcomes() -> None:
    assert tuple(GRADES) == get_args(Grade)
    assert tuple(OUTCOMES) == get_args(TrialOutcome)
