"""Messages while screens have the terminal, and the plain lines where there is none."""

from __future__ import annotations

from typing import Any

import pytest

from streamer.schemas.summaries import AgentModelSummary, RunSummary, TierSummary
from streamer.terminal.harness import Messages, print_lines
from tests.support.builders import a_run_change, an_agent_model_change


def test_messages_are_held_while_the_screens_are_up_and_printed_after_them_also_if_they_fail(
    capsys: pytest.CaptureFixture[str],
) -> None:
    messages = Messages()
    messages.say("before")
    with pytest.raises(ZeroDivisionError), messages.deferred():  # noqa: PT012
        messages.say("one")
        assert messages.new() == ["one"]
        messages.say("two")
        assert messages.new() == ["two"]
        assert messages.new() == []
        assert capsys.readouterr().err == "before\n"
        raise ZeroDivisionError
    assert capsys.readouterr().err == "one\ntwo\n"


class Reader:
    """Answers with one run, whose agent has another grade at each look."""

    def __init__(self, *grades: str | None) -> None:
        self.grades = list(grades)

    def runs(self) -> list[RunSummary]:
        return [RunSummary.model_validate(a_run_change().summary)]

    def agents(self, run_id: str) -> list[AgentModelSummary]:
        grade = self.grades.pop(0)
        changes = [
            an_agent_model_change(grade=grade, means={"pass_rate": 0.5}),
            an_agent_model_change(agent="nop", means={"pass_rate": 1.0}),
        ]
        return [AgentModelSummary.model_validate(change.summary) for change in changes]

    def tiers(self, run_id: str) -> list[TierSummary]:
        return []


def test_each_look_is_a_line_and_each_change_of_a_grade_another(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("streamer.terminal.harness.LINES_SECONDS", 0.0)
    monkeypatch.setattr("streamer.terminal.harness.LOOK_SECONDS", 0.0)
    reader: Any = Reader("C", "B", "B")
    print_lines(reader, lambda: not reader.grades)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert lines[0].endswith("ahead: claude:opus with pass rate 50.0 %")
    assert [line.strip() for line in lines if "grade" in line] == ["r1 claude:opus: grade C -> B"]
