"""What people read about the final pass rate: the interval, the hard bounds, or why there is no interval."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import pytest

from streamer.folding.fold import fold_records
from streamer.schemas.summaries import AgentModelSummary, FinalMissing
from streamer.schemas.wire import canonical_json, records_of_lines
from streamer.views.tables import EXPLAINED, REASONS, Table, agents_table, head_lines, pass_rate, reason

INFERENCE = Path(__file__).resolve().parents[2] / "docs" / "inference.md"
NOW = datetime(2027, 1, 1, tzinfo=UTC)
TASKS = [f"task {number}" for number in range(89)]
AGENTS = ("a", "b")


def summaries(plan: dict[str, Any] | None, finished: int, in_flight: int = 8) -> list[dict[str, Any]]:
    """Summaries of a run in which trials finish in the order of the tasks: a passes 3 of 4, b 2 of 4."""
    events: list[dict[str, Any]] = (
        [{"type": "run_started", "tasks": TASKS, "attempts": 1, **plan}] if plan is not None else []
    )
    for agent, passes in zip(AGENTS, (3, 2), strict=True):
        for at, task in enumerate(TASKS[: finished + in_flight]):
            slot = {"task_id": task, "agent": agent, "model": "m"}
            if at < finished:
                events.append({"type": "trial_result", **slot, "resolved": at % 4 < passes})
            else:
                events.append({"type": "trial_started", **slot})
    lines = [canonical_json({"run_id": "r", **event}) for event in events]
    return [change.summary or {} for change in fold_records(records_of_lines(lines)).summaries()]


def agents(plan: dict[str, Any] | None, finished: int, in_flight: int = 8) -> list[dict[str, Any]]:
    found = summaries(plan, finished, in_flight)
    return [summary for summary in found if summary["type"] == "agent_model_summary"]


def cells(table: Table, column: str) -> list[str]:
    return [row[table.heads.index(column)] for row in table.rows]


def test_a_shuffled_run_has_the_interval_of_the_final_pass_rate() -> None:
    table = agents_table(agents({"order": TASKS, "order_kind": "shuffled"}, 36))
    assert cells(table, "pass rate") == ["75.0 % so far [57, 88]", "50.0 % so far [33, 70]"]
    assert cells(table, "in flight") == ["8", "8"]
    assert "decided" not in table.heads
    assert table.note.splitlines() == [EXPLAINED["so far"], EXPLAINED["interval"]]


def test_an_order_that_was_not_declared_is_marked_with_what_it_assumes() -> None:
    table = agents_table(agents({"order": TASKS}, 36))
    assert cells(table, "pass rate") == ["75.0 % so far [57, 88]?", "50.0 % so far [33, 70]?"]
    assert EXPLAINED["if"] in table.note
    assert "if the order has nothing to do with difficulty" in table.note


def test_a_chosen_order_has_hard_bounds_and_the_reason() -> None:
    table = agents_table(agents({"order": TASKS, "order_kind": "chosen"}, 36))
    assert cells(table, "pass rate") == ["75.0 % so far (30 to 90)", "50.0 % so far (20 to 80)"]
    assert table.note.splitlines() == [
        EXPLAINED["so far"],
        EXPLAINED["bounds"],
        "No interval of the final pass rate: the order was chosen.",
    ]


def test_without_a_plan_there_are_no_bounds_either() -> None:
    table = agents_table(agents(None, 36))
    assert cells(table, "pass rate") == ["75.0 % so far", "50.0 % so far"]
    assert "No interval of the final pass rate: the run has not said how many trials it plans." in table.note


def test_a_grade_that_can_no_longer_change_is_marked_while_results_are_missing() -> None:
    table = agents_table(agents({"order": TASKS, "order_kind": "shuffled"}, 81))
    assert cells(table, "decided") == ["–", "yes"]
    assert EXPLAINED["decided"] in table.note


@pytest.mark.parametrize("kind", ["shuffled", "unknown", "chosen"])
def test_at_the_end_there_is_the_final_pass_rate_alone(kind: str) -> None:
    table = agents_table(agents({"order": TASKS, "order_kind": kind}, 89, 0))
    assert cells(table, "pass rate") == ["75.3 %", "50.6 %"]
    assert {"decided", "in flight"}.isdisjoint(table.heads)
    assert table.note == ""


def test_the_head_of_a_run_counts_the_trials_in_flight() -> None:
    [run] = [s for s in summaries({"agents": list(AGENTS)}, 36) if s["type"] == "run_summary"]
    assert any("in, 16 in flight, provisional" in line for line in head_lines(run, NOW))


def test_reasons_that_differ_name_the_agents() -> None:
    first, second = agents({"order": TASKS, "order_kind": "chosen"}, 36)
    second = second | {"uncertainty": second["uncertainty"] | {"final_missing": "attempts_together"}}
    assert agents_table([first, second]).note.splitlines()[2:] == [
        "No interval of the final pass rate for a:m: the order was chosen.",
        "No interval of the final pass rate for b:m: all attempts at a task run one after the other.",
    ]


def test_a_summary_of_a_worker_of_before_has_the_pass_rate_alone() -> None:
    [agent, _] = agents({"order": TASKS}, 36)
    assert pass_rate(agent | {"uncertainty": None}) == "75.0 % so far"
    assert reason(agent | {"uncertainty": None}) == ""
    assert pass_rate(AgentModelSummary.model_validate(agent)) == "75.0 % so far [57, 88]?"


def test_every_code_has_the_words_of_the_docs() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", INFERENCE.read_text(encoding="utf-8"), re.MULTILINE))
    assert {code: rows[code] for code in get_args(FinalMissing)} == REASONS
