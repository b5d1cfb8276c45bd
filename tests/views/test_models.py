"""Failures that are alike stand together, whatever numbers, ids and paths are in their messages."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.schemas.summaries import TrialInFlight
from streamer.views import models
from streamer.views.drawing import draw_failures
from streamer.views.models import (
    FailedTrial,
    Matrix,
    StoredRow,
    TooManyCells,
    TrialRow,
    WholeMatrix,
    failure_groups,
    kind_of,
    matrix_of,
    outcome_of,
    telling_line,
    whole_matrix,
)
from tests.support.builders import a_row
from tests.support.events import a_trial, folded


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("exit code 1", "exit code 137", True),
        ("no file /app/a/b.py", "no file /srv/x/c.txt", True),
        ("container 4f5a6b7c8d9e is gone", "container 0011aabbccdd is gone", True),
        ("run 123e4567-e89b-12d3-a456-426614174000", "run 00000000-0000-0000-0000-000000000001", True),
        ("at 0xdeadbeef", "at 0x1", True),
        ("GET https://a.example/x?y=1 failed", "GET http://b.example failed", True),
        ("Traceback (most recent call last):\n  File x\nKeyError: 'a'", "KeyError: 'a'", True),
        ("\n\n  first line \nsecond", "first line\nother", True),
        ("failed tests: test_a", "failed tests: test_b", False),
        ("decade", "facade", False),
        ("a", "", False),
    ],
)
def test_messages_of_one_kind_differ_in_such_parts_alone(one: str, other: str, alike: bool) -> None:
    assert (kind_of(one) == kind_of(other)) is alike


def test_hostile_messages_end_soon() -> None:
    for message in ("/" * 4096, "a" * 4096, "0x" * 2048, "1." * 2048, "\n" * 4096, ""):
        assert len(kind_of(message)) <= 160
        assert len(telling_line(message)) <= 300


def test_groups_have_counts_shares_and_agents_the_largest_first() -> None:
    failures = [("a", "unset", "x 1"), ("b", "none", "x 2"), ("a", None, "x 3"), ("a", "timeout", "")]
    groups, _ = failure_groups(
        FailedTrial(agent, mode, kind_of(message) if message else "", message or None)
        for agent, mode, message in failures
    )
    assert [
        (group.failure_mode, group.kind, group.count, group.share, group.example) for group in groups
    ] == [(None, "x N", 3, 0.75, "x 1"), ("timeout", "", 1, 0.25, None)]
    assert groups[0].agents == {"a": 2, "b": 1}
    assert failure_groups([]) == ([], 0)


def test_of_many_groups_it_is_said_how_many_are_not_shown() -> None:
    failed = (FailedTrial("a:m", None, f"kind {chr(at)}", "x") for at in range(0x4E00, 0x4E00 + 250))
    groups, total = failure_groups(failed)
    assert (len(groups), total) == (200, 250)
    rows = [group.model_dump() for group in groups]
    assert draw_failures(rows, lambda *_: "", total).notes == ["The largest 200 of 250 groups."]
    assert draw_failures(rows, lambda *_: "", 200).notes == []


# -----------------------------------------------------------------------------
# The matrix: its cells add up to the trials, and its orders show what is worth a look.


def row(task: str, agent: str, passed: bool, **fields: object) -> TrialRow:
    outcome = "passed" if passed else "failed"
    return a_row(task_id=task, agent_model=agent, success=passed, outcome=outcome, **fields)


def test_the_hardest_task_and_the_best_agent_come_first() -> None:
    rows = [row("easy", agent, True) for agent in "ab"] + [row("hard", agent, False) for agent in "ab"]
    rows += [row("split", "a", True), row("split", "b", False)]
    result = matrix_of(rows, ())
    assert result.agents == ["a", "b"]
    rates = [("hard", 0), ("split", 0.5), ("easy", 1)]
    assert [(task.task_id, task.pass_rate) for task in result.tasks] == rates
    assert matrix_of(rows, (), sort="disagreement").tasks[0].task_id == "split"
    assert [task.task_id for task in matrix_of(rows, (), sort="task").tasks] == ["easy", "hard", "split"]


def test_tiers_of_a_task_are_rows_of_their_own() -> None:
    result = matrix_of([row("t", "a", True, tier="T1"), row("t", "a", False, tier="T0")], ())
    cells = [("T0", [(1, 0, 0, 0, None)]), ("T1", [(1, 1, 0, 0, None)])]
    assert [(task.tier, task.cells) for task in result.tasks] == cells


def test_a_trial_in_flight_makes_a_cell_of_its_own() -> None:
    slot = {"shard": "", "task_id": "t", "attempt": 1, "agent": "a", "model": "m"}
    running = TrialInFlight.model_validate(dict.fromkeys(TrialInFlight.model_fields) | slot)
    result = matrix_of([], [running])
    assert (result.agents, result.tasks[0].cells) == (["a:m"], [(0, 0, 0, 1, None)])
    assert result.tasks[0].pass_rate is None


def test_a_number_in_place_of_a_verdict_is_in_no_pass_rate() -> None:
    """R31; a trial that crashed has failed (R19)."""
    unknown = {"resolved": None, "outcome": "no_verdict"}
    rows = [a_row(task_id="t", agent_model="a", success=None, **unknown), row("t", "b", True)]
    rows += [a_row(task_id="u", agent_model="a", success=None, **unknown)]
    rows += [a_row(task_id="v", agent_model="b", success=False, **unknown)]
    result = matrix_of(rows, ())
    assert [(task.task_id, task.pass_rate) for task in result.tasks] == [("v", 0), ("t", 1), ("u", None)]
    assert result.tasks[1].cells == [(1, 1, 0, 0, None), (1, 0, 1, 0, None)]
    assert (result.agents, result.tasks[1].disagreement) == (["b", "a"], 0)


def test_a_metric_is_the_mean_of_what_is_known() -> None:
    rows = [row("t", "a", True, cost_usd=cost) for cost in (1.0, 3.0, None)]
    result = matrix_of(rows, (), metric="cost_usd")
    assert (result.tasks[0].cells, result.low, result.high) == ([(3, 3, 0, 0, 2.0)], 2.0, 2.0)
    assert matrix_of([], (), metric="cost_usd").low is None
    huge = [row("t", "a", True, cost_usd=1.5e308) for _ in range(2)]
    assert whole_matrix(huge).means["cost_usd"].cells == [[1.5e308]], "no float holds their sum"


def test_a_matrix_of_too_many_cells_is_refused_however_few_trials_there_are() -> None:
    side = 708
    rows = [row(f"task-{number}", f"agent-{number}", True) for number in range(side)]
    assert side**2 > models.MAX_CELLS
    with pytest.raises(TooManyCells, match="708 tasks and 708 agents has over 500,000 cells"):
        matrix_of(rows, ())


@given(st.lists(st.tuples(st.sampled_from("xyz"), st.sampled_from("abc"), st.booleans()), max_size=30))
def test_the_cells_add_up_to_the_trials(trials: list[tuple[str, str, bool]]) -> None:
    result = matrix_of([row(*trial) for trial in trials], ())
    cells = [cell for task in result.tasks for cell in task.cells if cell is not None]
    assert sum(cell[0] for cell in cells) == len(trials)
    assert sum(cell[1] for cell in cells) == sum(passed for *_, passed in trials)
    assert all(len(task.cells) == len(result.agents) for task in result.tasks)
    assert all(0 <= task.disagreement <= 0.5 for task in result.tasks)


def shown(whole: WholeMatrix, metric: str, sort: str) -> Matrix:
    """What a file shows: the means of a metric put into the cells, the tasks in an order."""
    means = whole.means.get(metric)
    tasks = []
    for at, task in enumerate(whole.matrix.tasks):
        values = [None] * len(task.cells) if means is None else means.cells[at]
        cells = [cell and (*cell[:4], value) for cell, value in zip(task.cells, values, strict=True)]
        tasks.append(task.model_copy(update={"cells": cells}))
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


# -----------------------------------------------------------------------------
# The row of a scored trial: its outcome in one word.


@pytest.mark.parametrize(
    ("resolved", "success", "formulacode", "outcome"),
    [
        (True, True, None, "passed"),
        (False, False, None, "failed"),
        (None, False, None, "no_verdict"),
        (None, False, {"task_speedup": 1.0}, "failed"),
        (True, True, {"fallback_to_baseline": True}, "fell_back"),
    ],
)
def test_each_outcome_follows_from_verdict_success_and_fallback(
    resolved: bool | None, success: bool, formulacode: dict[str, Any] | None, outcome: str
) -> None:
    trial = {"success": success, "resolved": resolved, "formulacode": formulacode}
    assert outcome_of(trial) == outcome


def test_a_stored_row_says_what_a_row_says_of_every_outcome() -> None:
    ratios = {"m.f": {"agent/nop": 2.0, "oracle/nop": 1.0}}
    events = [
        a_trial(tier="T0", subtest="01", cost_usd=0.5, metrics={"reward": 0.5}, score=0.7),
        a_trial(task_id="t2", resolved=None, duration_seconds=3),
        a_trial(task_id="t3", resolved=False, failure_mode="agent_timeout", shard="s"),
        a_trial(task_id="t4", benchmarks=ratios),
        a_trial(task_id="t5", benchmarks=ratios, tests={"status": "failed", "failed": 1}, attempt=2),
    ]
    rows = {}
    for change in folded(events)[0].run("run-1").take_scored():
        stored = StoredRow.of(change.value or b"")
        stored.id = "0" * 24
        row = rows[stored.task_id] = TrialRow.of(stored.id, json.loads(change.value or b""))
        assert {name: getattr(stored, name) for name in TrialRow.model_fields} == dict(row)
    assert {row.outcome for row in rows.values()} == {"passed", "no_verdict", "failed", "fell_back"}
    first = rows["task-1"]
    assert (first.agent_model, first.tier, first.cost_usd) == ("terminus:gpt-5", "T0", 0.5)
    assert (first.outcome, first.task_speedup, first.metrics) == ("passed", None, {"reward": 0.5})
