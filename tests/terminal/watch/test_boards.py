"""The shared columns as columns of the screens: heads, colours and ages."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.schemas.summaries import AgentModelSummary, RunSummary
from streamer.terminal.boards import (
    DrawnColumn,
    Sort,
    board_columns,
    first_sort,
    fit,
    gap_of,
    heading,
    next_sort,
    ordered,
)
from streamer.views.columns import AGENTS, RUNS
from streamer.views.models import ListedRun
from tests.support.builders import a_formulacode_summary, a_run_change, an_agent_model_change, statistics_of

NOW = datetime(2026, 1, 2, 3, 5, 5, tzinfo=UTC)


def an_agent(agent: str = "claude", **fields: Any) -> AgentModelSummary:
    return AgentModelSummary.model_validate(an_agent_model_change(agent=agent, **fields).summary)


def by_key(columns: list[DrawnColumn[Any]]) -> dict[str, DrawnColumn[Any]]:
    return {column.key: column for column in columns}


def style(column: DrawnColumn[Any], row: object) -> str:
    assert column.style
    return column.style(row)


def test_columns_have_heads_marks_colours_and_directions() -> None:
    heads = [column.head for column in board_columns(AGENTS, NOW, heading(AGENTS, 3))]
    assert heads[:2] == ["agents (3)", "pass rate"]
    assert board_columns(AGENTS, NOW)[0].head == "agent:model"
    columns = by_key(board_columns(AGENTS, NOW))
    waiting = an_agent(grade="B", provisional=True, grade_provisional=True)
    assert (columns["grade"].text(waiting), style(columns["grade"], waiting)) == ("B*?", "cyan")
    assert style(columns["grade"], an_agent(grade=None)) == ""
    assert [style(columns["agent"], an_agent(name)) for name in ("nop", "claude")] == ["dim", ""]
    assert (columns["total_cost"].descending, columns["pass_rate"].descending) == (False, True)
    assert columns["pass@1"].value is None


def test_the_last_event_is_an_age_and_the_state_has_its_colour() -> None:
    at = "2026-01-02T03:04:05Z"
    run = ListedRun.of(RunSummary.model_validate(a_run_change(last_event_at=at).summary), NOW)
    columns = by_key(board_columns(RUNS, NOW))
    assert columns["last"].text(run) == "1 min ago"
    assert style(columns["state"], run) in ("cyan", "green")


def test_a_run_is_sorted_by_the_primary_metric_of_its_plan() -> None:
    latency = statistics_of(1.5) | {"direction": "lower", "unit": None, "label": None, "planned": True}
    agents = [an_agent(metrics={"latency": latency}, formulacode=a_formulacode_summary())]
    for metric, expected in (
        ("pass_rate", Sort("pass_rate", True)),
        ("metrics/latency", Sort("metrics/latency", False)),
        ("mean_cost", Sort("mean_cost", False)),
        ("metrics/unheard-of", Sort("pass_rate", True)),
    ):
        assert first_sort(metric, agents) == expected


# -----------------------------------------------------------------------------
# Columns never take more room than there is, and the important ones stay.


columns = st.lists(
    st.builds(lambda rank, least: (rank, least), st.integers(0, 12), st.sampled_from([0, 0, 4, 16])),
    min_size=1,
    max_size=12,
).map(
    lambda result: [
        DrawnColumn(str(n), "head", str, rank, least=least) for n, (rank, least) in enumerate(result)
    ]
)
widths = st.lists(st.integers(1, 60), min_size=12, max_size=12)


def table(*expected: tuple[str, int, int]) -> list[DrawnColumn[int]]:
    """(key, rank, least) as columns."""
    return [DrawnColumn(key, key, str, rank, least=least) for key, rank, least in expected]


@given(columns, widths, st.integers(1, 200))
def test_what_was_chosen_fits(columns: list[DrawnColumn[int]], widths: list[int], width: int) -> None:
    widest = {column.key: widths[number] for number, column in enumerate(columns)}
    fitted = fit(columns, widest, width)
    assert fitted
    assert sum(one.width for one in fitted) + gap_of(width) * (len(fitted) - 1) <= width
    assert all(one.width <= widest[one.key] for one in fitted)
    assert [one.key for one in fitted] == [c.key for c in columns if c.key in {one.key for one in fitted}]


@pytest.mark.parametrize(
    ("rank", "name", "width", "kept", "expected"),
    [
        (2, 30, 20, [], {"name": 11, "cost": 8}),  # the less important column goes first
        (2, 30, 20, ["extra"], {"name": 11, "extra": 8}),  # the sorted one stays
        (12, 30, 45, [], {"name": 30, "cost": 8}),  # a dispensable one gets only what names leave
        (12, 30, 48, [], {"name": 30, "cost": 8, "extra": 8}),
        (12, 512, 90, [], {"name": 72, "cost": 8, "extra": 8}),  # very long names leave something
        (None, 30, 30, [], {"name": 21, "cost": 8}),  # a name gets what is left, and no more than it needs
        (None, 30, 90, [], {"name": 30, "cost": 8}),
    ],
)
def test_columns_give_way_by_their_rank(
    rank: int | None, name: int, width: int, kept: list[str], expected: dict[str, int]
) -> None:
    columns = table(("name", 0, 8), ("cost", 1, 0), *([] if rank is None else [("extra", rank, 0)]))
    fitted = fit(columns, {"name": name, "cost": 8, "extra": 8}, width, frozenset(kept))
    assert {one.key: one.width for one in fitted} == expected


def test_unknown_values_come_last_in_both_directions_and_baselines_after_them() -> None:
    column = DrawnColumn("value", "value", str, 0, value=lambda row: row[1])
    rows = [("a", 1.0), ("nop", 9.0), ("b", None), ("c", 3.0)]
    for descending, order in ((True, "c a b nop"), (False, "a c b nop")):
        result = ordered(rows, [column], Sort("value", descending), lambda row: row[0] == "nop")
        assert " ".join(name for name, _ in result) == order


def test_sorting_goes_round_all_columns_that_can_be_sorted_by() -> None:
    columns = [
        DrawnColumn("a", "a", str, 0, value=str, descending=False),
        DrawnColumn("b", "b", str, 0),
        DrawnColumn("c", "c", str, 0, value=str),
    ]
    assert next_sort(columns, Sort("a", True)) == Sort("c", True)
    assert next_sort(columns, Sort("c", True)) == Sort("a", False)
    assert next_sort(columns, Sort("gone", True)) == Sort("a", False)
    assert next_sort(columns[1:2], Sort("gone", True)) == Sort("gone", True)
