"""The boards are declared once: every surface can draw each column, and sorts by the same values."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from streamer.schemas.metrics import BOARD_METRICS
from streamer.schemas.summaries import AgentModelSummary, TierSummary
from streamer.schemas.summary_fields import Grade
from streamer.views.boards import (
    AGENTS,
    COMPARED,
    FAILURES,
    FORMULACODE,
    LEADERS,
    RUNS,
    TIERS,
    TRIALS,
    leaders_of,
)
from streamer.views.cells import FORMATS, known, sort_value, text
from streamer.views.columns import Board, Column
from streamer.views.models import RunNow, Side, TrialRow
from streamer.views.wording import GRADES, OUTCOMES
from streamer.web import STATIC
from streamer.web.models import LeaderboardRow, TrialOutcome, TrialSort
from tests.report.reporting import folded
from tests.support.builders import an_agent_model_change
from tests.support.events import a_trial

BOARDS = (RUNS, AGENTS, TIERS, TRIALS, LEADERS, COMPARED, FORMULACODE, FAILURES)
CHOSEN_ON_THE_PAGE = {"spread", "deviation"}
"""Columns of the statistic that the visitor of the page chooses; `tiers.js` draws them."""

MODELS = {
    "Runs": RunNow,
    "Agents": AgentModelSummary,
    "Tiers": TierSummary,
    "Trials": TrialRow,
    "Leaderboard": LeaderboardRow,
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
    only_in_text = {"verdict_source"}
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


def test_a_model_and_its_json_give_the_same_cells_and_the_same_order() -> None:
    values = an_agent_model_change("r", "a", "m", means={"pass_rate": 0.25}, cost_of_pass="Infinity").summary
    assert values
    model = AgentModelSummary.model_validate(values)
    for column in AGENTS.shown_on("text"):
        assert text(column, values) == text(column, model)
        assert sort_value(column, values) == sort_value(column, model) if column.sort else True
    cost = next(column for column in AGENTS.columns if column.name == "cost_of_pass")
    assert (text(cost, values), sort_value(cost, values)) == ("inf", float("inf"))


def test_grades_sort_from_the_best_and_unknown_values_sort_as_unknown() -> None:
    grade = next(column for column in AGENTS.columns if column.name == "grade")
    assert sorted(("B", "S", "F"), key=lambda letter: sort_value(grade, {"grade": letter})) == ["S", "B", "F"]
    assert sort_value(grade, {"grade": None}) is None
    rate = Column("rate", "rate", "percent", ("rate",), sort="greatest")
    assert [sort_value(rate, {"rate": value}) for value in (None, "NaN", 0.5)] == [None, None, 0.5]


def test_a_column_without_any_value_is_left_out_but_never_the_first() -> None:
    trials = folded([a_trial()]).trials or []
    rows = [{**trial, "tier": None, "outcome": "passed"} for trial in trials]
    names = [column.name for column in known(TRIALS.shown_on("text"), rows)]
    assert names[0] == "task"
    assert not {"tier", "composite_score", "grade", "failure"} & set(names)
    assert [column.name for column in known(TRIALS.shown_on("text"), [])] == ["task"]
