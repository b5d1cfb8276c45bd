"""Boards as elements: texts stay texts, equal columns fold, long tables keep their order."""

from __future__ import annotations

from typing import Any

from streamer.views.columns import AGENTS, Column
from streamer.views.drawing import Look, draw, draw_agents, h, html_of, table, text_of
from tests.support.events import a_trial, summarised

HOSTILE = "<img src=x onerror=alert(1)>\u202e"


def agents(*trials: dict[str, Any]) -> list[dict[str, Any]]:
    found = summarised(trials)
    rows = [one for key, one in found.items() if key.startswith("agent_model ")]
    return [row | {"place": None, "over": True, "graded": False} for row in rows]


def titles(rows: list[dict[str, Any]]) -> list[str]:
    return [text_of(head) for head in draw_agents(rows, "pass_rate").heads]


def test_a_text_cannot_become_markup_wherever_it_stands() -> None:
    look = Look(HOSTILE, key=lambda row: row["name"], empty=HOSTILE)
    columns = [Column("name", HOSTILE, "name", ("name",), sort="least", hint=HOSTILE, outside=True)]
    for rows in ([{"name": HOSTILE}], []):
        written = html_of(table(draw(columns, rows, look)))
        assert "<img" not in written
        assert "&lt;img src=x onerror=alert(1)&gt;" in written


def test_what_acts_on_text_is_written_out_in_cells_heads_and_attributes() -> None:
    look = Look("Names", key=lambda row: row["name"])
    columns = [Column("name", HOSTILE, "name", ("name",), sort="least", hint=HOSTILE, outside=True)]
    assert "\u202e" not in html_of(table(draw(columns, [{"name": HOSTILE}], look)))


def test_an_attribute_that_is_a_text_is_quoted() -> None:
    assert html_of(h("a", {"title": '" onclick="x'})) == '<a title="&quot; onclick=&quot;x"></a>'


def test_accuracy_and_pass_at_1_fold_into_the_pass_rate_while_all_agents_agree() -> None:
    alike = [a_trial(agent=agent, task_id=f"t{n}", resolved=n == 0) for agent in "ab" for n in range(2)]
    rows = agents(*alike)
    assert {"Accuracy", "Pass@1"}.isdisjoint(titles(rows))
    [head] = [head for head in draw_agents(rows, "pass_rate").heads if head[1]["data-id"] == "pass_rate"]
    assert head[1]["title"].endswith("The same here: accuracy and pass@1")
    other = [row | {"accuracy": 0.25} if at else row for at, row in enumerate(rows)]
    assert "Accuracy" in titles(other)


def test_every_column_of_a_board_has_a_head_and_a_cell_or_neither() -> None:
    drawn = draw(
        AGENTS, agents(a_trial(), a_trial(agent="z")), Look("Agents", key=lambda row: row["agent_model"])
    )
    assert {len(row) - 2 for _, row in drawn.rows} == {len(drawn.heads)}
