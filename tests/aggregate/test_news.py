"""News of grades: once per move, never of the run itself or of a group that is gone."""

from __future__ import annotations

import json

from streamer.folding.summaries import Grades
from tests.support.builders import a_run_change, an_agent_model_change


def test_a_grade_is_news_when_it_moves_and_only_then() -> None:
    grades = Grades()
    moves = [grades.moved(an_agent_model_change(grade=grade)) for grade in (None, "B", "B", "A", None)]
    told = [json.loads(item.value) for item in moves if item]
    assert [move is not None for move in moves] == [False, True, False, True, True]
    assert [(news["from_grade"], news["to_grade"]) for news in told] == [(None, "B"), ("B", "A"), ("A", None)]


def test_a_group_that_is_gone_is_no_news_and_begins_again_without_a_grade() -> None:
    grades = Grades()
    assert grades.moved(an_agent_model_change(grade="B")) is not None
    assert grades.moved(an_agent_model_change(deleted=True)) is None
    again = grades.moved(an_agent_model_change(grade="B"))
    assert again is not None
    assert json.loads(again.value)["from_grade"] is None


def test_the_run_itself_has_no_grade_to_tell() -> None:
    assert Grades().moved(a_run_change()) is None


def test_the_same_move_has_the_same_id_and_another_move_another() -> None:
    def moved(grade: str) -> dict[str, object]:
        item = Grades().moved(an_agent_model_change("a|b", grade=grade))
        assert item is not None
        assert item.key == "a%7Cb"
        found: dict[str, object] = json.loads(item.value)
        return found

    assert moved("A") == moved("A")
    assert moved("A")["id"] != moved("B")["id"]
