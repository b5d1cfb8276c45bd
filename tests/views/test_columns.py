"""The boards are declared once: every surface can draw each column, and sorts by the same values."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from streamer.schemas.events import BOARD_METRICS
from streamer.schemas.summaries import AgentModelSummary, Grade, Leader, RunSummary, State, TierSummary
from streamer.text import UNSEEN
from streamer.views.cells import FORMATS, filled_columns, sort_value, text
from streamer.views.columns import (
    AGENTS,
    COMPARED,
    FAILURES,
    FORMULACODE,
    GRADES,
    LEADERS,
    MOST_NAMED_COLUMNS,
    OUTCOMES,
    RUNS,
    TIERS,
    TRIALS,
    Board,
    Column,
    leaders_of,
    with_named,
    with_values,
)
from streamer.views.decide.leaderboard import POOLED, BoardRow
from streamer.views.drawing import DRAWN
from streamer.views.models import ListedRun, Side, TrialOutcome, TrialRow
from streamer.views.tables import agents_table
from streamer.web.models import LeaderboardRow, RunSort, TrialSort
from tests.support.builders import a_row, a_run_change, an_agent_model_change
from tests.support.events import a_plan, a_trial, summarised

BOARDS = (RUNS, AGENTS, TIERS, TRIALS, LEADERS, POOLED, COMPARED, FORMULACODE, FAILURES)
CHOSEN_ON_THE_PAGE = {"spread", "deviation"}
"""Columns of the statistic that the visitor of the page chooses; `draw_tiers` draws them."""

MODELS = {
    "Runs": ListedRun,
    "Agents": AgentModelSummary,
    "Tiers": TierSummary,
    "Trials": TrialRow,
    "Leaderboard": LeaderboardRow,
    "Leaderboard of a benchmark": BoardRow,
    "Metrics": Side,
    "FormulaCode": AgentModelSummary,
}
"""Title of a board -> the model of its rows."""


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.title)
def test_every_surface_draws_the_formats_of_its_columns(board: Board) -> None:
    for column in board.columns:
        if column.name in CHOSEN_ON_THE_PAGE:
            assert column.on == ("page",)
            continue
        assert column.format in FORMATS, column
        assert "page" not in column.on or board in (FORMULACODE, FAILURES) or column.format in DRAWN


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


@pytest.mark.parametrize(
    ("board", "known"), [(TRIALS, set(get_args(TrialSort)) - {"latest"}), (RUNS, set(get_args(RunSort)))]
)
def test_a_board_sorts_on_the_page_by_what_the_server_sorts_by(board: Board, known: set[str]) -> None:
    assert {column.name for column in board.shown_on("page") if column.sort} == known


def test_every_metric_grade_and_outcome_has_its_place_on_the_boards() -> None:
    assert set(BOARD_METRICS) <= {column.name for column in AGENTS.columns}
    for name in BOARD_METRICS:
        [value] = [column for column in leaders_of(name).columns if column.name == name]
        assert (value.path, value.sort) == (("value",), None)
    assert tuple(GRADES) == get_args(Grade)
    assert tuple(OUTCOMES) == get_args(TrialOutcome)


# -----------------------------------------------------------------------------
# Cells as text: each outcome has its word, what is unknown is a dash, and every model sorts as its JSON.


def an_agent(agent: str = "claude", **fields: Any) -> AgentModelSummary:
    return AgentModelSummary.model_validate(an_agent_model_change(agent=agent, **fields).summary)


def a_run(state: State = "running", **fields: Any) -> ListedRun:
    run = RunSummary.model_validate(a_run_change(**fields).summary)
    return ListedRun.model_construct(**dict(run), state=state)


def cells(board: Board, row: object) -> dict[str, str]:
    return {column.name: text(column, row) for column in board.shown_on("terminal")}


def column_of(board: Board, name: str) -> Column:
    [column] = [column for column in board.columns if column.name == name]
    return column


def test_a_listed_run_says_what_its_best_agent_has_and_names_any_metric_but_the_pass_rate() -> None:
    leader = Leader(agent_model="a:m", value=0.5)
    runs = [a_run(), a_run(primary_metric="mean_cost"), a_run(primary_metric="metrics/reward")]
    said = [cells(RUNS, run.led_by(leader)) for run in runs]
    assert [row["leader"] for row in said] == ["50.0 %", "$0.5000 mean cost", "0.5 reward"]
    assert {row["whose"] for row in said} == {"a:m"}
    assert [cells(RUNS, a_run())[column] for column in ("leader", "whose")] == ["–", "–"]


PASS_AT_4 = {k: {"value": 1.0, "tasks_covered": 1, "partial": k == "4"} for k in ("1", "4")}


@pytest.mark.parametrize(
    ("board", "row", "said"),
    [
        (TRIALS, a_row(outcome="passed"), {"outcome": "passed", "attempt": "1"}),
        (TRIALS, a_row(outcome="fell_back", attempt=2), {"outcome": "fell back", "attempt": "2"}),
        (TRIALS, a_row(outcome="no_verdict"), {"outcome": "no verdict"}),
        *((TRIALS, a_row(failure_mode=mode), {"failure": UNSEEN}) for mode in (None, "", "none", "unset")),
        (TRIALS, a_row(failure_mode="agent_timeout"), {"failure": "agent_timeout"}),
        (
            TRIALS,
            a_row(tier="T1", subtest="02", shard="night", task_id="t"),
            {"tier": "T1/02", "task": "night: t"},
        ),
        (TRIALS, a_row(subtest="02"), {"tier": UNSEEN}),
        (AGENTS, an_agent("nop"), {"agent": "nop:opus (baseline)", "infrastructure": UNSEEN}),
        (
            AGENTS,
            an_agent(infrastructure_failures=3, accuracy_excluding_infrastructure=0.5),
            {"agent": "claude:opus", "infrastructure": "50.0 % (3)"},
        ),
        (AGENTS, an_agent(pass_at_k=PASS_AT_4), {"pass@1": "100.0 %", "pass@most": "4: 100.0 %*"}),
        (RUNS, a_run(), {"run": "r1", "id": UNSEEN}),
        (RUNS, a_run(display_name="N"), {"run": "N", "id": "r1"}),
    ],
)
def test_a_cell_says_what_its_row_has(board: Board, row: object, said: dict[str, str]) -> None:
    shown = cells(board, row)
    assert {name: shown[name] for name in said} == said


def test_values_sort_from_the_best_and_what_is_unknown_has_no_place() -> None:
    grade, rate, cost = (column_of(AGENTS, name) for name in ("grade", "pass_rate", "cost_of_pass"))
    best, worse, none = (sort_value(grade, an_agent(grade=letter)) for letter in ("S", "C", None))
    assert best < worse
    assert none is None
    assert [sort_value(rate, an_agent(means=means)) for means in ({"pass_rate": 0.5}, None)] == [0.5, None]
    assert sort_value(rate, {"statistics": {"pass_rate": {"mean": "NaN"}}}) is None
    free = an_agent(cost_of_pass="Infinity")
    assert (text(cost, free), sort_value(cost, free)) == ("inf", float("inf"))


def test_a_model_and_its_json_give_the_same_cells_and_the_same_order() -> None:
    values = an_agent_model_change(means={"pass_rate": 0.25}, cost_of_pass="Infinity").summary
    model = AgentModelSummary.model_validate(values)
    for column in AGENTS.shown_on("text"):
        assert text(column, values) == text(column, model)
        assert sort_value(column, values) == sort_value(column, model) if column.sort else True


def test_a_column_is_left_out_where_it_says_nothing_but_never_the_first() -> None:
    """An attempt says something only where there are several."""

    def names(*rows: TrialRow) -> list[str]:
        return [column.name for column in filled_columns(TRIALS.shown_on("text"), rows)]

    assert names() == ["task"]
    assert not {"attempt", "tier", "composite_score", "grade", "failure"} & set(names(a_row()))
    assert names(a_row())[0] == "task"
    assert "attempt" in names(a_row(), a_row(attempt=2))


# -----------------------------------------------------------------------------
# Columns of metrics that harnesses name themselves (R30).


def agents(*events: dict[str, Any]) -> list[dict[str, Any]]:
    return [summary for key, summary in summarised(events).items() if key.startswith("agent_model ")]


def test_a_named_metric_has_a_column_behind_the_pass_rate_as_the_plan_says() -> None:
    plan = a_plan(metrics={"latency": {"label": "a\x1b[31mb", "unit": "seconds", "direction": "lower"}})
    table = agents_table(agents(plan, a_trial(metrics={"latency": 90.0, "reward": 0.75})))
    at = table.heads.index("pass rate")
    assert table.heads[at + 1 : at + 3] == ["a\\x1b[31mb", "reward"]
    assert table.rows[0][at + 1 : at + 3] == ["90 s", "0.75"]
    assert table.columns[at + 1].sort == "least"
    assert with_named(AGENTS, agents(a_trial())) == AGENTS


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


def test_agents_stand_in_the_order_of_the_primary_metric() -> None:
    """R30: pass rate unless the plan says otherwise; baselines and unknown values come last."""
    events = [
        a_trial(agent="fast", resolved=False, metrics={"latency": 1.0}),
        a_trial(agent="slow", resolved=True, metrics={"latency": 9.0}),
        a_trial(agent="mute", resolved=True),
        a_trial(agent="nop", resolved=True, metrics={"latency": 0.5}),
    ]
    plan = a_plan(metrics={"latency": {"direction": "lower"}}, primary_metric="metrics/latency")
    result = summarised([plan, *events])
    run, of_agents = result["run run-1"], [s for key, s in result.items() if key.startswith("agent_model ")]
    by_latency = [row[0].split(":")[0] for row in agents_table(of_agents, run).rows]
    by_pass_rate = [row[0].split(":")[0] for row in agents_table(of_agents).rows]
    assert by_latency == ["fast", "slow", "mute", "nop"]
    assert by_pass_rate == ["mute", "slow", "fast", "nop"]
