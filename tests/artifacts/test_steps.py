"""Steps of trajectories in every format that is known, from real logs and made ones."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from streamer.artifacts import atif, openhands, terminus
from streamer.artifacts.steps import MAX_STEPS, NotThisFormat
from tests.support.data import REPOSITORY, shared_data

JOBS = REPOSITORY / "tests" / "sources" / "harbor" / "jobs.tar.gz"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The trajectories that harbor's agents wrote (tests/sources/harbor/record.py)."""
    folder = tmp_path_factory.mktemp("jobs")
    with tarfile.open(JOBS) as packed:
        packed.extractall(folder, filter="data")
    return sorted(folder.glob("**/trajectory.json"))


def test_every_recorded_trajectory_of_harbor_becomes_its_own_steps(recorded: list[Path]) -> None:
    assert len(recorded) >= 10
    for file in recorded:
        content = json.loads(file.read_text())
        steps, more = atif.steps_of(content)
        assert more == 0
        assert [step.source for step in steps] == [step["source"] for step in content["steps"]]
        assert [step.text for step in steps] == [step["message"] for step in content["steps"]]


def test_calls_of_atif_have_their_outputs_and_what_failed_is_marked() -> None:
    call = {"tool_call_id": "c1", "function_name": "bash", "arguments": {"keystrokes": "ls\n"}}
    other = {"tool_call_id": "c2", "function_name": "edit", "arguments": "x"}
    results = [
        {"source_call_id": "c2", "content": [{"type": "text", "text": "Traceback (most recent call last):"}]},
        {"source_call_id": "c1", "content": "a.py"},
        {"content": "a notice"},
    ]
    step = {
        "source": "agent",
        "message": [{"type": "text", "text": "look"}, {"type": "image"}],
        "reasoning_content": "hm",
        "timestamp": "2026-01-01T00:00:00Z",
        "tool_calls": [call, other],
        "observation": {"results": results},
        "metrics": {"completion_tokens": 5, "cost_usd": 0.25},
    }
    [found], _ = atif.steps_of({"schema_version": "ATIF-v1.5", "steps": [step]})
    assert (found.text, found.reasoning, found.tokens, found.cost_usd) == (
        "look\n[image not shown]\na notice",
        "hm",
        5,
        0.25,
    )
    assert [(one.name, one.arguments, one.output, one.error) for one in found.calls] == [
        ("bash", '{"keystrokes": "ls\\n"}', "a.py", False),
        ("edit", "x", "Traceback (most recent call last):", True),
    ]
    assert found.error


def test_terminus_in_atif_leaves_its_one_output_at_its_one_call() -> None:
    call = {"tool_call_id": "call_0", "function_name": "bash_command", "arguments": {"keystrokes": "pwd\n"}}
    step = {"source": "agent", "tool_calls": [call], "observation": {"results": [{"content": "/app"}]}}
    [found], _ = atif.steps_of({"schema_version": "ATIF-v1.2", "steps": [step]})
    assert found.calls[0].output == "/app"


def test_every_agent_log_of_fc_eval_that_is_a_list_of_actions_becomes_steps() -> None:
    read = 0
    for file in sorted((shared_data() / "formulacode" / "logs").glob("*/agent-logs/*.json")):
        try:
            content = json.loads(file.read_bytes())
            steps, _ = openhands.steps_of(content)
        except (ValueError, NotThisFormat):
            continue
        read += 1
        actions = [event for event in content if isinstance(event, dict)]
        assert [step.calls[0].name for step in steps] == [event["action"] for event in actions]
        assert {call.arguments for step in steps for call in step.calls} == {"ls"}
    assert read >= 20


def test_an_observation_of_openhands_stands_at_the_action_that_caused_it() -> None:
    events: list[Any] = [
        {"id": 0, "source": "user", "action": "message", "args": {"content": "fix it"}},
        {"id": 1, "source": "agent", "action": "run", "args": {"command": "make", "thought": "try"}},
        {"id": 2, "cause": 1, "source": "agent", "observation": "run", "content": "no rule"}
        | {"extras": {"metadata": {"exit_code": 2}}},
        {"id": 3, "source": "environment", "observation": "error", "content": "lost"},
        {"id": 4, "source": "agent", "action": "finish", "args": {"final_thought": "done"}},
        "not an event",
    ]
    steps, _ = openhands.steps_of(events)
    assert [(step.source, step.text) for step in steps] == [
        ("user", "fix it"),
        ("agent", "try"),
        ("environment", ""),
        ("agent", "done"),
    ]
    [call] = steps[1].calls
    assert (call.arguments, call.output, call.error) == ("make", "no rule", True)
    assert [step.error for step in steps] == [False, True, True, False]


def test_an_answer_of_terminus_is_what_it_thinks_and_types() -> None:
    first = {"state_analysis": "new", "explanation": "look", "is_task_complete": False}
    second = {"analysis": "seen", "plan": "end", "task_complete": True}
    keys = [{"keystrokes": "ls\n", "is_blocking": True}]
    steps, _ = terminus.steps_of([first | {"commands": keys}, second | {"commands": []}])
    assert [step.text for step in steps] == ["new\nlook", "seen\nend\nIt says that the task is complete."]
    assert [call.arguments for call in steps[0].calls] == ["ls\n"]


@pytest.mark.parametrize("content", [None, 1, "x", [], {}, [1], {"steps": 1}, {"commands": [1]}, [{"a": 1}]])
def test_whatever_is_none_of_the_formats_is_said_to_be_none(content: Any) -> None:
    for read in (atif.steps_of, openhands.steps_of, terminus.steps_of):
        with pytest.raises(NotThisFormat):
            read(content)


def test_hostile_values_in_every_field_become_text_or_nothing() -> None:
    odd = [{}, [], 1, True, None, "\x1b[31m<script>", "\ud800", float("nan"), 10**30, {"a": [1, "\ud800"]}]
    names = ("source", "message", "reasoning_content", "timestamp", "tool_calls", "observation", "metrics")
    steps = [dict.fromkeys(names, value) for value in odd]
    found, _ = atif.steps_of({"schema_version": "ATIF-v1.5", "steps": steps})
    assert len(found) == len(odd)
    fields = ("action", "observation", "args", "content", "extras", "cause", "id", "source", "timestamp")
    events = [dict.fromkeys(fields, value) for value in odd]
    assert openhands.steps_of(events)[0]


def test_of_a_very_long_trajectory_the_first_steps_are_shown_and_the_others_counted() -> None:
    steps = [{"source": "agent", "message": "x"}] * (MAX_STEPS + 2)
    found, more = atif.steps_of({"schema_version": "ATIF-v1.5", "steps": steps})
    assert (len(found), more) == (MAX_STEPS, 2)
