"""Columns of metrics that harnesses name themselves (R30)."""

from __future__ import annotations

from typing import Any

from streamer.views.columns import AGENTS, MOST_NAMED_COLUMNS, TRIALS, primary_of, with_named, with_values
from streamer.views.tables import agents_table
from tests.support.events import a_plan, a_trial, summarised


def agents(*events: dict[str, Any]) -> list[dict[str, Any]]:
    return [summary for key, summary in summarised(events).items() if key.startswith("agent_model ")]


def test_a_named_metric_has_a_column_behind_the_pass_rate() -> None:
    [summary] = agents(a_trial(metrics={"reward": 0.75}))
    table = agents_table([summary])
    at = table.heads.index("pass rate")
    assert table.heads[at + 1] == "reward"
    assert table.rows[0][at + 1] == "0.75"


def test_the_plan_gives_heading_unit_and_direction() -> None:
    plan = a_plan(metrics={"latency": {"label": "Latency", "unit": "seconds", "direction": "lower"}})
    table = agents_table(agents(plan, a_trial(metrics={"latency": 90.0})))
    at = table.heads.index("Latency")
    assert (table.rows[0][at], table.columns[at].sort) == ("90 s", "least")


def test_a_heading_from_outside_is_made_visible() -> None:
    plan = a_plan(metrics={"x": {"label": "a\x1b[31mb"}})
    heads = agents_table(agents(plan, a_trial(metrics={"x": 1.0}))).heads
    assert not any("\x1b" in head for head in heads)


def test_planned_metrics_come_first_and_no_more_than_six_have_columns() -> None:
    events = [a_trial(task_id=f"t{n}", metrics={f"m{k}": 1.0 for k in range(n + 1)}) for n in range(9)]
    board = with_named(AGENTS, agents(a_plan(metrics={"m8": {}}), *events))
    names = [column.name for column in board.columns if column.name.startswith("metrics/")]
    assert names == ["metrics/m8", *(f"metrics/m{k}" for k in range(MOST_NAMED_COLUMNS - 1))]


def test_trials_have_columns_of_their_named_metrics_behind_the_duration() -> None:
    trials = [{"metrics": {"reward": 1.0, "wait": 90.0}}, {"metrics": None}, {"metrics": {"reward": 0.5}}]
    planned = {"wait": {"label": "Wait", "unit": "seconds", "direction": "lower"}, "never": {}}
    columns = with_values(TRIALS, trials, planned).columns
    at = [column.name for column in columns].index("duration_seconds")
    first, second = columns[at + 1 : at + 3]
    assert (first.title, first.format, first.path) == ("Wait", "span", ("metrics", "wait"))
    assert (second.title, second.format, second.sort) == ("reward", "number", None)
    assert len(columns) == len(TRIALS.columns) + 2
    assert with_values(TRIALS, [{"metrics": None}, {}]) == TRIALS


def test_without_named_metrics_the_board_is_the_same() -> None:
    assert with_named(AGENTS, agents(a_trial())) == AGENTS


def test_agents_stand_in_the_order_of_the_primary_metric() -> None:
    """R30: pass rate unless the plan says otherwise; baselines and unknown values come last."""
    events = [
        a_trial(agent="fast", resolved=False, metrics={"latency": 1.0}),
        a_trial(agent="slow", resolved=True, metrics={"latency": 9.0}),
        a_trial(agent="mute", resolved=True),
        a_trial(agent="nop", resolved=True, metrics={"latency": 0.5}),
    ]
    plan = a_plan(metrics={"latency": {"direction": "lower"}}, primary_metric="metrics/latency")
    found = summarised([plan, *events])
    run, of_agents = found["run run-1"], [s for key, s in found.items() if key.startswith("agent_model ")]
    by_latency = [row[0].split(":")[0] for row in agents_table(of_agents, primary_of(run)).rows]
    by_pass_rate = [row[0].split(":")[0] for row in agents_table(of_agents).rows]
    assert by_latency == ["fast", "slow", "mute", "nop"]
    assert by_pass_rate == ["mute", "slow", "fast", "nop"]
