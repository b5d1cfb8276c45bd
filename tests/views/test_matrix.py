"""The matrix: its cells add up to the trials, and its orders show what is worth a look."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.schemas.summaries import TrialInFlight
from streamer.views import models
from streamer.views.models import Matrix, TooManyCells, TrialRow, WholeMatrix, matrix_of, whole_matrix
from tests.support.builders import a_row


def row(task: str, agent: str, passed: bool, **fields: object) -> TrialRow:
    outcome = "passed" if passed else "failed"
    return a_row(task_id=task, agent_model=agent, success=passed, outcome=outcome, **fields)


def test_the_hardest_task_and_the_best_agent_come_first() -> None:
    rows = [row("easy", agent, True) for agent in "ab"]
    rows += [
        row("hard", "a", False),
        row("hard", "b", False),
        row("split", "a", True),
        row("split", "b", False),
    ]
    found = matrix_of(rows, ())
    assert found.agents == ["a", "b"]
    assert [(task.task_id, task.pass_rate) for task in found.tasks] == [
        ("hard", 0),
        ("split", 0.5),
        ("easy", 1),
    ]
    assert matrix_of(rows, (), sort="disagreement").tasks[0].task_id == "split"
    assert [task.task_id for task in matrix_of(rows, (), sort="task").tasks] == ["easy", "hard", "split"]


def test_tiers_of_a_task_are_rows_of_their_own() -> None:
    found = matrix_of([row("t", "a", True, tier="T1"), row("t", "a", False, tier="T0")], ())
    assert [(task.tier, task.cells) for task in found.tasks] == [
        ("T0", [(1, 0, 0, 0, None)]),
        ("T1", [(1, 1, 0, 0, None)]),
    ]


def test_the_mean_of_values_whose_sum_no_float_holds_is_known() -> None:
    rows = [row("t", "a", True, cost_usd=1.5e308) for _ in range(2)]
    assert whole_matrix(rows).means["cost_usd"].cells == [[1.5e308]]


def test_a_trial_in_flight_makes_a_cell_of_its_own() -> None:
    running = TrialInFlight(
        shard="",
        task_id="t",
        attempt=1,
        agent="a",
        model="m",
        tier=None,
        subtest=None,
        started_at=None,
        position=None,
    )
    found = matrix_of([], [running])
    assert (found.agents, found.tasks[0].cells) == (["a:m"], [(0, 0, 0, 1, None)])
    assert found.tasks[0].pass_rate is None


def test_a_metric_is_the_mean_of_what_is_known() -> None:
    rows = [row("t", "a", True, cost_usd=cost) for cost in (1.0, 3.0, None)]
    found = matrix_of(rows, (), metric="cost_usd")
    assert (found.tasks[0].cells, found.low, found.high) == ([(3, 3, 0, 0, 2.0)], 2.0, 2.0)
    assert matrix_of([], (), metric="cost_usd").low is None


def test_a_matrix_of_too_many_cells_is_refused_however_few_trials_there_are() -> None:
    side = 708
    rows = [row(f"task-{number}", f"agent-{number}", True) for number in range(side)]
    assert side**2 > models.MAX_CELLS
    with pytest.raises(TooManyCells, match="708 tasks and 708 agents has over 500,000 cells"):
        matrix_of(rows, ())


@given(st.lists(st.tuples(st.sampled_from("xyz"), st.sampled_from("abc"), st.booleans()), max_size=30))
def test_the_cells_add_up_to_the_trials(trials: list[tuple[str, str, bool]]) -> None:
    found = matrix_of([row(*trial) for trial in trials], ())
    cells = [cell for task in found.tasks for cell in task.cells if cell is not None]
    assert sum(cell[0] for cell in cells) == len(trials)
    assert sum(cell[1] for cell in cells) == sum(passed for *_, passed in trials)
    assert all(len(task.cells) == len(found.agents) for task in found.tasks)
    assert all(0 <= task.disagreement <= 0.5 for task in found.tasks)


def shown(whole: WholeMatrix, metric: str, sort: str) -> Matrix:
    """What a file shows: the means of a metric put into the cells, the tasks in an order."""
    means = whole.means.get(metric)
    tasks = [
        task.model_copy(
            update={
                "cells": [
                    cell and (*cell[:4], None if means is None else means.cells[at][agent])
                    for agent, cell in enumerate(task.cells)
                ]
            }
        )
        for at, task in enumerate(whole.matrix.tasks)
    ]
    ends = {"low": means and means.low, "high": means and means.high, "metric": metric}
    return whole.matrix.model_copy(update={"tasks": [tasks[at] for at in whole.orders[sort]], **ends})


@pytest.mark.parametrize("sort", ["difficulty", "disagreement", "task"])
@pytest.mark.parametrize("metric", ["outcome", "cost_usd", "duration_seconds", "task_speedup"])
def test_a_file_has_each_matrix_that_the_page_may_ask_for(metric: str, sort: str) -> None:
    rows = [row("a", "x", True, cost_usd=1.0), row("a", "y", False, cost_usd=3.0, tier="T0")]
    rows += [row("b", "y", False, duration_seconds=0.0), row("c", "x", False), row("c", "y", True)]
    whole = whole_matrix(rows)
    assert shown(whole, metric, sort) == matrix_of(rows, (), metric, sort)
    assert set(whole.means) == {"cost_usd", "duration_seconds"}
