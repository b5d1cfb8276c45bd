"""Steps of the answers that Terminus gets from its model."""

from __future__ import annotations

from streamer.web import artifacts
from streamer.web.artifacts import MAX_CALLS
from tests.support.data import REPOSITORY

JOBS = REPOSITORY / "tests" / "sources" / "harbor" / "jobs.tar.gz"


def test_an_answer_of_terminus_is_what_it_thinks_and_types() -> None:
    first = {"state_analysis": "new", "explanation": "look", "is_task_complete": False}
    second = {"analysis": "seen", "plan": "end", "task_complete": True}
    keys = [{"keystrokes": "ls\n", "is_blocking": True}]
    steps, _ = artifacts.terminus_steps([first | {"commands": keys}, second | {"commands": []}])
    assert [step.text for step in steps] == ["new\nlook", "seen\nend\nIt says that the task is complete."]
    assert [call.arguments for call in steps[0].calls] == ["ls\n"]


def test_of_very_many_keystrokes_the_first_are_shown_and_the_others_counted() -> None:
    [step], _ = artifacts.terminus_steps({"commands": [{"keystrokes": "ls"}] * (MAX_CALLS + 3)})
    assert (len(step.calls), step.text) == (MAX_CALLS, "[3 more calls not shown]")
