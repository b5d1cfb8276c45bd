"""Trials of harbor that have begun: named as their result will name them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from streamer.sources.base import ConvertOptions
from streamer.sources.harbor import start_in
from tests.sources.builders import write_json
from tests.sources.harbor import a_trial_result

NAME = "t__abc1234"
DEFAULT = {"name": "oracle"}
"""The agent that harbor runs unless the user names one."""


def begun(job: Path, agent: dict[str, Any], name: str = NAME) -> Path:
    """A trial whose files harbor wrote at its start; its config.json leaves out what is a default."""
    left = {} if agent == DEFAULT else {"agent": agent}
    write_json(job / NAME / "config.json", {"trial_name": name, "task": {"path": "t"}, **left})
    write_json(job / NAME / "lock.json", {"task": {"name": "t"}, "agent": agent})
    return job / NAME


def starts(job: Path, trial: Path) -> list[dict[str, Any]]:
    return [dict(found.event) for found in start_in(job, trial, ConvertOptions())]


def test_a_start_has_the_slot_that_its_result_will_fill(tmp_path: Path) -> None:
    trial = begun(tmp_path, {"name": "codex", "model_name": "openai/gpt-5"})
    [start] = starts(tmp_path, trial)
    assert {name: start[name] for name in ("type", "shard", "task_id", "attempt", "agent", "model")} == {
        "type": "trial_started",
        "shard": NAME,
        "task_id": "t",
        "attempt": 1,
        "agent": "codex",
        "model": "openai/gpt-5",
    }
    assert str(start["started_at"]).startswith("20")


def test_the_default_agent_is_named_by_the_lock_alone(tmp_path: Path) -> None:
    trial = begun(tmp_path, DEFAULT)
    [start] = starts(tmp_path, trial)
    assert (start["agent"], start["model"]) == ("oracle", "unknown")


def test_an_agent_that_is_code_is_known_from_the_first_result_on(tmp_path: Path) -> None:
    code = {"name": "package.module:Agent", "model_name": "m"}
    trial = begun(tmp_path, code)
    assert starts(tmp_path, trial) == []
    result = a_trial_result(name="t__xyz9876", config={"agent": code, "task": {"path": "another"}})
    write_json(tmp_path / "t__xyz9876" / "result.json", result)
    [start] = starts(tmp_path, trial)
    assert (start["agent"], start["task_id"]) == ("codex", "t")


def test_a_task_with_another_name_in_results_takes_that_name(tmp_path: Path) -> None:
    trial = begun(tmp_path, {"name": "codex", "model_name": "m"})
    result = a_trial_result(task="org/t", name="t__xyz9876", config={"task": {"path": "t"}})
    write_json(tmp_path / "t__xyz9876" / "result.json", result)
    assert [start["task_id"] for start in starts(tmp_path, trial)] == ["org/t"]


def test_a_trial_whose_files_are_not_there_or_of_another_has_no_start(tmp_path: Path) -> None:
    assert starts(tmp_path, tmp_path / "t__nothing") == []
    assert starts(tmp_path, begun(tmp_path, {"name": "codex"}, name="t__another")) == []
