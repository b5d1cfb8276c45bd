"""What holds of every format of trajectories: nonsense is refused, and hostile values become text."""

from __future__ import annotations

from typing import Any

import pytest

from streamer.web import artifacts
from streamer.web.artifacts import MAX_CHARACTERS, MAX_STEP_CHARACTERS, MAX_STEPS, NotThisFormat, numbered
from tests.support.data import REPOSITORY

JOBS = REPOSITORY / "tests" / "sources" / "harbor" / "jobs.tar.gz"


@pytest.mark.parametrize("content", [None, 1, "x", [], {}, [1], {"steps": 1}, {"commands": [1]}, [{"a": 1}]])
def test_whatever_is_none_of_the_formats_is_said_to_be_none(content: Any) -> None:
    for read in (artifacts.atif_steps, artifacts.openhands_steps, artifacts.terminus_steps):
        with pytest.raises(NotThisFormat):
            read(content)


def test_hostile_values_in_every_field_become_text_or_nothing() -> None:
    odd = [{}, [], 1, True, None, "\x1b[31m<script>", "\ud800", float("nan"), 10**30, {"a": [1, "\ud800"]}]
    names = ("source", "message", "reasoning_content", "timestamp", "tool_calls", "observation", "metrics")
    steps = [dict.fromkeys(names, value) for value in odd]
    found, _ = artifacts.atif_steps({"schema_version": "ATIF-v1.5", "steps": steps})
    assert len(found) == len(odd)
    fields = ("action", "observation", "args", "content", "extras", "cause", "id", "source", "timestamp")
    events = [dict.fromkeys(fields, value) for value in odd]
    assert artifacts.openhands_steps(events)[0]


def test_of_a_very_long_trajectory_the_first_steps_are_shown_and_the_others_counted() -> None:
    steps = [{"source": "agent", "message": "x"}] * (MAX_STEPS + 2)
    found, more = artifacts.atif_steps({"schema_version": "ATIF-v1.5", "steps": steps})
    assert (len(found), more) == (MAX_STEPS, 2)


def test_steps_that_are_not_shown_are_not_read() -> None:
    read: list[int] = []

    def fields_of(one: int) -> dict[str, Any]:
        read.append(one)
        return {"source": "agent", "calls": []}

    assert numbered(range(MAX_STEPS * 3), fields_of)[1] == MAX_STEPS * 2
    assert len(read) == MAX_STEPS


def test_all_steps_together_are_bounded() -> None:
    steps = [{"source": "agent", "message": "\x01" * MAX_STEP_CHARACTERS}] * 200
    found, more = artifacts.atif_steps({"schema_version": "ATIF-v1.5", "steps": steps})
    assert len(found) + more == len(steps)
    sent = sum(len(step.model_dump_json()) for step in found)
    assert MAX_CHARACTERS / 2 < sent <= MAX_CHARACTERS
