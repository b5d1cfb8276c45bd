"""Steps of OpenHands, and of the agent logs of fc-eval from real runs."""

from __future__ import annotations

import json
from typing import Any

from streamer.web import artifacts
from streamer.web.artifacts import NotThisFormat
from tests.support.data import REPOSITORY, shared_data

JOBS = REPOSITORY / "tests" / "sources" / "harbor" / "jobs.tar.gz"


def test_every_agent_log_of_fc_eval_that_is_a_list_of_actions_becomes_steps() -> None:
    read = 0
    for file in sorted((shared_data() / "formulacode" / "logs").glob("*/agent-logs/*.json")):
        try:
            content = json.loads(file.read_bytes())
            steps, _ = artifacts.openhands_steps(content)
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
    steps, _ = artifacts.openhands_steps(events)
    assert [(step.source, step.text) for step in steps] == [
        ("user", "fix it"),
        ("agent", "try"),
        ("environment", ""),
        ("agent", "done"),
    ]
    [call] = steps[1].calls
    assert (call.arguments, call.output, call.error) == ("make", "no rule", True)
    assert [step.error for step in steps] == [False, True, True, False]
