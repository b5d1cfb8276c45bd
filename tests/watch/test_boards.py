"""The boards on a screen: the columns of the shared boards, with their styles and what they sort by."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from streamer.schemas.summaries import AgentModelSummary, RunSummary
from streamer.views.boards import AGENTS, RUNS
from streamer.watch.boards import board_columns, counted, name_of
from tests.support.builders import a_run_change, an_agent_model_change

NOW = datetime(2026, 1, 2, 3, 5, 5, tzinfo=UTC)


def an_agent(agent: str = "claude", **fields: Any) -> AgentModelSummary:
    return AgentModelSummary.model_validate(an_agent_model_change(agent=agent, **fields).summary)


def test_the_columns_are_those_that_the_board_shows_on_a_terminal() -> None:
    wanted = [column.name for column in AGENTS.shown_on("terminal")]
    assert [column.key for column in board_columns(AGENTS, NOW)] == wanted


def test_the_head_names_the_table_and_the_other_columns_keep_their_titles() -> None:
    first, *others = board_columns(AGENTS, NOW, "agents (3)")
    plain = board_columns(AGENTS, NOW)
    assert first.head == "agents (3)"
    assert [column.head for column in others] == [column.head for column in plain[1:]]
    assert counted(AGENTS, 3) == f"{AGENTS.title.lower()} (3)"


def test_baselines_are_dim_and_grades_have_their_colours() -> None:
    styles = {column.key: column.style for column in board_columns(AGENTS, NOW) if column.style}
    found = {
        style(row) for style in styles.values() for row in (an_agent("nop"), an_agent(grade="A"), an_agent())
    }
    assert found >= {"dim", "green", ""}


def test_a_column_sorts_only_if_its_board_says_so() -> None:
    sorting = {column.name: column.sort for column in RUNS.shown_on("terminal")}
    for column in board_columns(RUNS, NOW):
        assert (column.value is not None) == bool(sorting[column.key])
        assert column.descending == (sorting[column.key] == "greatest")


def test_a_run_is_called_by_its_name_else_by_its_id_and_nothing_in_it_acts() -> None:
    def name(**fields: Any) -> str:
        return name_of(RunSummary.model_validate(a_run_change(**fields).summary))

    assert (name(), name(display_name="Nightly")) == ("r1", "Nightly")
    assert "\x1b" not in name(display_name="\x1b[31mred")
