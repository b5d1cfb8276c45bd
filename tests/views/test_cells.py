"""Cells as text: each outcome has its word, what is unknown is a dash, and every model sorts as its JSON."""

from __future__ import annotations

from typing import Any

import pytest

from streamer.schemas.summaries import AgentModelSummary, RunSummary, State
from streamer.text import UNSEEN
from streamer.views.columns import AGENTS, RUNS, TRIALS, Board, Column
from streamer.views.models import RunNow, TrialRow
from streamer.views.tables import known, sort_value, text
from tests.support.builders import a_row, a_run_change, an_agent_model_change


def an_agent(agent: str = "claude", **fields: Any) -> AgentModelSummary:
    return AgentModelSummary.model_validate(an_agent_model_change(agent=agent, **fields).summary)


def a_run(state: State = "running", **fields: Any) -> RunNow:
    run = RunSummary.model_validate(a_run_change(**fields).summary)
    return RunNow.model_construct(**dict(run), state=state)


def cells(board: Board, row: object) -> dict[str, str]:
    return {column.name: text(column, row) for column in board.shown_on("terminal")}


def column_of(board: Board, name: str) -> Column:
    [column] = [column for column in board.columns if column.name == name]
    return column


@pytest.mark.parametrize(
    ("outcome", "word"), [("passed", "passed"), ("fell_back", "fell back"), ("no_verdict", "no verdict")]
)
def test_each_outcome_has_its_word(outcome: Any, word: str) -> None:
    assert cells(TRIALS, a_row(outcome=outcome))["outcome"] == word


def test_the_number_of_the_attempt_is_shown_only_where_there_are_several() -> None:
    def names(*rows: TrialRow) -> list[str]:
        return [column.name for column in known(TRIALS.shown_on("text"), rows)]

    assert "attempt" not in names(a_row())
    assert "attempt" in names(a_row(), a_row(attempt=2))
    assert [cells(TRIALS, row)["attempt"] for row in (a_row(), a_row(attempt=2))] == ["1", "2"]


@pytest.mark.parametrize("mode", [None, "", "none", "unset"])
def test_a_failure_mode_that_says_none_is_a_dash(mode: str | None) -> None:
    assert cells(TRIALS, a_row(failure_mode=mode))["failure"] == UNSEEN
    assert cells(TRIALS, a_row(failure_mode="agent_timeout"))["failure"] == "agent_timeout"


def test_tier_and_shard_stand_before_what_lies_in_them() -> None:
    row = cells(TRIALS, a_row(tier="T1", subtest="02", shard="night", task_id="t"))
    assert (row["tier"], row["task"]) == ("T1/02", "night: t")
    assert cells(TRIALS, a_row(subtest="02"))["tier"] == UNSEEN


def test_a_baseline_says_that_it_is_one() -> None:
    assert cells(AGENTS, an_agent("nop"))["agent"] == "nop:opus (baseline)"
    assert cells(AGENTS, an_agent())["agent"] == "claude:opus"


def test_grades_sort_from_the_best_and_no_grade_has_no_place() -> None:
    grade = column_of(AGENTS, "grade")
    found = [sort_value(grade, an_agent(grade=letter)) for letter in ("S", "C", None)]
    assert found[0] < found[1]
    assert found[2] is None


def test_a_number_that_is_none_has_no_place_and_infinity_has_one() -> None:
    rate, cost = column_of(AGENTS, "pass_rate"), column_of(AGENTS, "cost_of_pass")
    assert [sort_value(rate, an_agent(means=means)) for means in ({"pass_rate": 0.5}, None)] == [0.5, None]
    assert sort_value(rate, {"statistics": {"pass_rate": {"mean": "NaN"}}}) is None
    free = an_agent(cost_of_pass="Infinity")
    assert (text(cost, free), sort_value(cost, free)) == ("inf", float("inf"))


def test_infrastructure_failures_are_told_only_where_there_were_some() -> None:
    assert cells(AGENTS, an_agent())["infrastructure"] == UNSEEN
    some = an_agent(infrastructure_failures=3, accuracy_excluding_infrastructure=0.5)
    assert cells(AGENTS, some)["infrastructure"] == "50.0 % (3)"


def test_pass_at_k_of_the_largest_k_names_it() -> None:
    of_4 = {k: {"value": 1.0, "tasks_covered": 1, "partial": k == "4"} for k in ("1", "4")}
    row = cells(AGENTS, an_agent(pass_at_k=of_4))
    assert (row["pass@1"], row["pass@most"]) == ("100.0 %", "4: 100.0 %*")


def test_a_run_shows_its_id_only_where_its_name_is_another() -> None:
    for name, expected in ((None, ("r1", UNSEEN)), ("N", ("N", "r1"))):
        row = cells(RUNS, a_run(display_name=name))
        assert (row["run"], row["id"]) == expected


def test_a_model_and_its_json_give_the_same_cells_and_the_same_order() -> None:
    values = an_agent_model_change(means={"pass_rate": 0.25}, cost_of_pass="Infinity").summary
    model = AgentModelSummary.model_validate(values)
    for column in AGENTS.shown_on("text"):
        assert text(column, values) == text(column, model)
        assert sort_value(column, values) == sort_value(column, model) if column.sort else True


def test_a_column_without_any_value_is_left_out_but_never_the_first() -> None:
    names = [column.name for column in known(TRIALS.shown_on("terminal"), [a_row()])]
    assert names[0] == "task"
    assert not {"tier", "composite_score", "grade", "failure"} & set(names)
    assert [column.name for column in known(TRIALS.shown_on("text"), [])] == ["task"]
