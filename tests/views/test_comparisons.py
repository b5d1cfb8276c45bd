"""The words about two agents of a run, from what a fold publishes, and their tables."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from streamer.client.queries import ComparedRun
from streamer.schemas.summaries import TASK_OUTCOMES, RunComparison, RunSummary
from streamer.views.compare import PairStanding, between, comparison_tables, pair_standings
from tests.support.events import a_plan, a_trial, folded

TASKS = [f"t{number:02}" for number in range(20)]


def found(events: list[dict[str, Any]]) -> ComparedRun:
    run = folded(events)[0].run("run-1")
    changes = {change.kind: change.value or b"" for change in run.summaries()}
    comparison = changes.get("comparison")
    tasks = {task: TASK_OUTCOMES.validate_json(held) for task, held in run.comparisons.tasks().items()}
    return ComparedRun(
        RunSummary.model_validate_json(changes["run"]),
        None if comparison is None else RunComparison.model_validate_json(comparison),
        tasks,
    )


def the_pair(events: list[dict[str, Any]]) -> PairStanding:
    [pair] = pair_standings(found(events))
    json.loads(pair.model_dump_json())
    return pair


def trials(passed: dict[str, str]) -> list[dict[str, Any]]:
    """One trial of each agent for each letter: `+` passed, `-` did not, `.` is not in yet."""
    return [
        a_trial(task_id=task, agent=agent, model="m", resolved=letter == "+", score=None)
        for agent, letters in passed.items()
        for task, letter in zip(TASKS, letters, strict=False)
        if letter != "."
    ]


def plan(**fields: Any) -> dict[str, Any]:
    shuffled = {"order": TASKS, "order_kind": "shuffled", "judged": False}
    return a_plan(tasks=TASKS, attempts=1, **shuffled | fields)


def test_a_running_shuffled_run_tells_its_final_difference() -> None:
    pair = the_pair([plan(), *trials({"a": "+" * 15, "b": "-" * 15})])
    assert (pair.ahead, pair.behind, pair.open, pair.ended) == (15, 0, 5, False)
    assert pair.final is not None
    assert pair.reachable is not None
    assert pair.reachable.low == pytest.approx(0.5)
    assert pair.words[0] == "a:m can no longer be overtaken by b:m, unless results are corrected"
    assert pair.words[1].startswith("a:m ahead in this run's final pass rate: +100.0 points so far, [")
    assert pair.words[1].endswith("] in the end; 95 %, however often you look")
    assert (pair.interval, pair.p_value) == (None, None)


def test_the_other_direction_names_the_other_agent() -> None:
    pair = the_pair([plan(), *trials({"a": "-" * 15, "b": "+" * 15})])
    assert pair.words[0].startswith("b:m can no longer be overtaken by a:m")
    assert pair.words[1].startswith("b:m ahead in this run's final pass rate: +100.0 points")


def test_an_order_of_unknown_kind_claims_nothing() -> None:
    pair = the_pair([plan(order_kind=None), *trials({"a": "+" * 9, "b": "-" * 9})])
    assert pair.final is not None
    assert pair.words == [
        f"+100.0 points so far, [{100 * pair.final.low:.1f}, {100 * pair.final.high:.1f}] in the end, if the "
        "order has nothing to do with difficulty"
    ]


def test_at_the_end_the_interval_is_about_tasks_like_these() -> None:
    pair = the_pair([plan(), *trials({"a": "+-" * 10, "b": "-" * 20})])
    assert pair.ended
    assert pair.p_value == pytest.approx(2 / 2**10)
    assert pair.words[0] == "a:m ahead on tasks like these: sign test p = 0.00195"
    assert pair.words[1].startswith("a:m minus b:m: +50.0 points [26.0, 74.0]; 95 %")


def test_nothing_separates_equal_agents() -> None:
    pair = the_pair([plan(), *trials({"a": "+-+-", "b": "+-+-"})])
    assert pair.words == ["Nothing separates a:m and b:m yet"]


def test_across_runs_it_is_said_that_nothing_separates_them_on_tasks_like_these() -> None:
    """The numbers of one run may be decided all the same: other sentences say so."""
    ours = found([plan(), *trials({"a": "+-+-"})])
    theirs = replace(ours, run=ours.run.model_copy(update={"run_id": "run-2"}))
    [words] = between(ours, theirs, None, None, ended=False)
    assert words == "Nothing separates a:m of run-1 and a:m of run-2 on tasks like these yet"


def test_an_e_value_of_forty_shows_either_direction_while_the_run_goes_on() -> None:
    """Eight losses and twelve open tasks that both sides cannot win any more: b failed them all."""
    long = [*TASKS, *(f"u{number}" for number in range(60))]
    outcomes = trials({"a": "+" * 20, "b": "-" * 20})
    more = [a_trial(task_id=task, agent="b", model="m", resolved=False, score=None) for task in long[20:]]
    done = [a_trial(task_id=t, agent="a", model="m", resolved=False, score=None) for t in long[20:79]]
    pair = the_pair([a_plan(tasks=long, attempts=1, judged=False), *outcomes, *more, *done])
    assert not pair.ended
    assert pair.better > 40
    assert any(words.startswith("a:m better than b:m on tasks like these: e-value") for words in pair.words)


def test_with_unequal_attempts_there_is_a_difference_and_no_evidence() -> None:
    again = [
        a_trial(task_id=task, agent="a", model="m", resolved=True, score=None, attempt=2) for task in TASKS
    ]
    pair = the_pair(
        [*trials({"a": "+" * 20, "b": "-" * 20}), *again, {"type": "run_finished", "run_id": "run-1"}]
    )
    assert (pair.tasks, pair.uneven, pair.ahead, pair.ended) == (20, 20, 0, True)
    assert (pair.better, pair.worse, pair.p_value, pair.difference) == (1.0, 1.0, None, 1.0)
    assert pair.words == [
        "a:m minus b:m: +100.0 points [100.0, 100.0]; 95 %, about tasks like these",
        "20 of 20 tasks have unequal attempts: no test uses them",
    ]


def test_a_task_that_one_side_has_not_begun_stays_open_though_another_task_has_more_attempts() -> None:
    again = a_trial(task_id=TASKS[0], agent="a", model="m", resolved=False, score=None, attempt=2)
    pair = the_pair([plan(), *trials({"a": "-----", "b": ".....+"}), again])
    assert (pair.open, pair.uneven, pair.behind) == (10, 0, 0)


def test_without_a_plan_only_common_tasks_count() -> None:
    pair = the_pair(trials({"a": "+++", "b": "-."}))
    assert (pair.tasks, pair.ahead, pair.reachable, pair.ended) == (1, 1, None, False)


def test_tables_show_places_and_sentences_with_names_escaped() -> None:
    events = [plan(), *trials({"a": "+" * 15, "b\u202e": "-" * 15})]
    ranks, pairs = comparison_tables(found(events))
    assert [row[1] for row in ranks.rows] == ["1", "2"]
    assert "agents at once" in ranks.note
    assert pairs.rows[0][2:6] == ["15", "0", "0", "5"]
    assert not any("\u202e" in cell for table in (ranks, pairs) for row in table.rows for cell in row)
    without = comparison_tables(found(trials({"a": "+", "b": "-"})))[0]
    assert without.note.startswith("No ranks: the run has not said")
    assert comparison_tables(found(trials({"a": "+"}))) == []
    assert pair_standings(found(trials({"a": "+"}))) == []
