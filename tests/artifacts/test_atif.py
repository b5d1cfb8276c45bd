"""Steps of trajectories in ATIF: recordings of harbor, and what else the format allows."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from streamer.web import artifacts
from streamer.web.artifacts import MAX_CALLS, MAX_PARTS, Step
from tests.support.data import REPOSITORY

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
        steps, more = artifacts.atif_steps(content)
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
    [found], _ = artifacts.atif_steps({"schema_version": "ATIF-v1.5", "steps": [step]})
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
    [found], _ = artifacts.atif_steps({"schema_version": "ATIF-v1.2", "steps": [step]})
    assert found.calls[0].output == "/app"


def step_of(**fields: object) -> Step:
    [found], _ = artifacts.atif_steps(
        {"schema_version": "ATIF-v1.5", "steps": [{"source": "agent", **fields}]}
    )
    return found


def test_each_output_is_told_once_however_many_calls_have_its_id() -> None:
    calls = [{"tool_call_id": "c", "function_name": "bash"}] * 50
    results = [{"source_call_id": "c", "content": f"out-{number}"} for number in range(50)]
    found = step_of(tool_calls=calls, observation={"results": results})
    assert [call.output for call in found.calls] == ["\n".join(f"out-{n}" for n in range(50)), *[None] * 49]


def test_of_very_many_calls_and_parts_the_first_are_shown_and_the_others_counted() -> None:
    found = step_of(tool_calls=[{}] * (MAX_CALLS + 3), message=[0] * (MAX_PARTS + 1000))
    assert len(found.calls) == MAX_CALLS
    assert found.text.splitlines()[-2:] == ["[1,000 more parts not shown]", "[3 more calls not shown]"]


def test_numbers_that_cannot_be_sent_are_unknown() -> None:
    found = step_of(metrics={"cost_usd": 10**400, "completion_tokens": 10**30})
    assert (found.cost_usd, found.tokens) == (None, None)
