"""The shared columns as columns of the screens: heads, colours and ages."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from streamer.schemas.summaries import AgentModelSummary, RunSummary
from streamer.terminal.boards import BoardColumn, Sort, board_columns, first_sort, heading
from streamer.views.columns import AGENTS, RUNS
from streamer.views.models import RunNow
from tests.support.builders import a_formulacode_summary, a_run_change, an_agent_model_change, statistics_of

NOW = datetime(2026, 1, 2, 3, 5, 5, tzinfo=UTC)


def an_agent(agent: str = "claude", **fields: Any) -> AgentModelSummary:
    return AgentModelSummary.model_validate(an_agent_model_change(agent=agent, **fields).summary)


def by_key(columns: list[BoardColumn[Any]]) -> dict[str, BoardColumn[Any]]:
    return {column.key: column for column in columns}


def style(column: BoardColumn[Any], row: object) -> str:
    assert column.style
    return column.style(row)


def test_the_first_head_counts_the_rows_and_the_others_are_the_titles() -> None:
    heads = [column.head for column in board_columns(AGENTS, NOW, heading(AGENTS, 3))]
    assert heads[:2] == ["agents (3)", "pass rate"]
    assert board_columns(AGENTS, NOW)[0].head == "agent:model"


def test_marks_stand_beside_a_grade_and_it_has_a_colour() -> None:
    grade = by_key(board_columns(AGENTS, NOW))["grade"]
    waiting = an_agent(grade="B", provisional=True, grade_provisional=True)
    assert (grade.text(waiting), style(grade, waiting)) == ("B*?", "cyan")
    assert style(grade, an_agent(grade=None)) == ""


def test_baselines_are_dim() -> None:
    agent = by_key(board_columns(AGENTS, NOW))["agent"]
    assert [style(agent, an_agent(name)) for name in ("nop", "claude")] == ["dim", ""]


def test_costs_sort_from_the_least_and_rates_from_the_greatest() -> None:
    columns = by_key(board_columns(AGENTS, NOW))
    assert (columns["total_cost"].descending, columns["pass_rate"].descending) == (False, True)
    assert columns["pass@1"].value is None


def test_the_last_event_is_an_age_and_the_state_has_its_colour() -> None:
    at = "2026-01-02T03:04:05Z"
    run = RunNow.of(RunSummary.model_validate(a_run_change(last_event_at=at).summary), NOW)
    columns = by_key(board_columns(RUNS, NOW))
    assert columns["last"].text(run) == "1 min ago"
    assert style(columns["state"], run) in ("cyan", "green")


def test_a_run_is_sorted_by_the_pass_rate_unless_its_plan_says_otherwise() -> None:
    measured = [an_agent(formulacode=a_formulacode_summary())]
    assert first_sort("pass_rate", measured) == Sort("pass_rate", True)


def test_a_run_is_sorted_by_the_primary_metric_of_its_plan() -> None:
    latency = statistics_of(1.5) | {"direction": "lower", "unit": None, "label": None, "planned": True}
    agents = [an_agent(metrics={"latency": latency})]
    assert first_sort("metrics/latency", agents) == Sort("metrics/latency", False)
    assert first_sort("mean_cost", agents) == Sort("mean_cost", False)
    assert first_sort("metrics/unheard-of", agents) == Sort("pass_rate", True)
