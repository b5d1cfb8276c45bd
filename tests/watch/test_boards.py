"""What the tables of the boards hold, and what their rows are sorted by."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from streamer.schemas.summaries import AgentModelSummary, RunSummary
from streamer.text import UNSEEN
from streamer.watch.boards import RunLine, agent_columns, agent_name, default_sort_key, run_columns
from tests.support.builders import a_formulacode_summary, a_run_change, an_agent_model_change

NOW = datetime(2026, 1, 2, 3, 5, 5, tzinfo=UTC)


def an_agent(agent: str = "claude", **fields: Any) -> AgentModelSummary:
    return AgentModelSummary.model_validate(an_agent_model_change(agent=agent, **fields).summary)


def a_line(**fields: Any) -> RunLine:
    return RunLine(RunSummary.model_validate(a_run_change(**fields).summary), "running")


def texts(agent: AgentModelSummary) -> dict[str, str]:
    return {column.key: column.text(agent) for column in agent_columns([agent])}


def values(key: str, *agents: AgentModelSummary) -> list[Any]:
    [value] = [column.value for column in agent_columns(agents) if column.key == key]
    assert value is not None
    return [value(agent) for agent in agents]


def test_a_baseline_says_that_it_is_one() -> None:
    assert agent_name(an_agent("nop")) == "nop:opus (baseline)"
    assert agent_name(an_agent()) == "claude:opus"


def test_better_grades_sort_higher_and_no_grade_has_no_place() -> None:
    best, good, none = values("grade", an_agent(grade="S"), an_agent(grade="C"), an_agent(grade=None))
    assert best > good
    assert none is None


def test_a_number_that_is_none_has_no_place_and_infinity_has_one() -> None:
    rates = values("pass_rate", an_agent(means={"pass_rate": 0.5}), an_agent())
    assert rates == [0.5, None]


def test_infrastructure_failures_are_told_only_where_there_were_some() -> None:
    assert texts(an_agent())["infrastructure"] == UNSEEN
    some = an_agent(infrastructure_failures=3, accuracy_excluding_infrastructure=0.5)
    assert "50" in texts(some)["infrastructure"]
    assert "(3)" in texts(some)["infrastructure"]


def test_the_head_of_pass_at_k_names_the_largest_k_of_all_agents() -> None:
    of_4 = {k: {"value": 1.0, "tasks_covered": 1, "partial": False} for k in ("1", "4")}
    heads = {c.key: c.head for c in agent_columns([an_agent(), an_agent(pass_at_k=of_4)])}
    assert heads["pass@k"] == "pass@4"


def test_where_speedups_are_measured_the_board_begins_with_them() -> None:
    assert default_sort_key([an_agent()]) == "pass_rate"
    assert default_sort_key([an_agent(formulacode=a_formulacode_summary())]) == "mean_speedup"


def test_a_run_shows_its_id_only_where_its_name_is_another() -> None:
    def shown(line: RunLine) -> dict[str, str]:
        return {column.key: column.text(line) for column in run_columns(NOW)}

    assert (shown(a_line())["run"], shown(a_line())["id"]) == ("r1", UNSEEN)
    assert (shown(a_line(display_name="N"))["run"], shown(a_line(display_name="N"))["id"]) == ("N", "r1")
