"""Small harbor job directories: rewards, exceptions, lengths, dirty files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.sources.builders import converted, plan_of, trials_of, write_json
from tests.sources.harbor import a_job, a_trial_result, one_event, summaries


def test_without_a_lock_the_config_tells_attempts_and_agents(tmp_path: Path) -> None:
    job = a_job(tmp_path / "job", a_trial_result())
    agents = [{"name": "codex", "model_name": "openai/gpt-5"}, {"name": "oracle"}]
    dataset = {"name": "terminal-bench", "version": "2.0"}
    config = {"job_name": "job", "n_attempts": 3, "agents": agents, "datasets": [dataset]}
    write_json(job / "config.json", config)
    plan = plan_of(converted(job)[0])
    assert plan["agent_models"] == ["codex:openai/gpt-5", "oracle:unknown"]
    assert [plan[name] for name in ("attempts", "benchmark", "benchmark_version")] == [3, *dataset.values()]
    assert "tasks" not in plan


def test_a_retry_is_a_revision_of_the_same_slot(tmp_path: Path) -> None:
    job = a_job(tmp_path / "job")
    file = job / "t__abc1234" / "result.json"
    failed = a_trial_result(id="1", verifier_result=None, exception_info={"exception_type": "ApiError"})
    write_json(file, failed, mtime_ns=10)
    first = converted(job)[0]
    write_json(file, a_trial_result(id="2"), mtime_ns=20)
    second = converted(job)[0]
    (summary,) = summaries([*second, *first]).values()
    assert (summary["trials"], summary["resolved"], summary["superseded"]) == (1, 1, 1)


@pytest.mark.parametrize(
    ("rewards", "resolved"),
    [
        ({"reward": 1}, True),
        ({"reward": 1.0, "other": 0}, True),
        ({"reward": 0.999}, False),
        ({"reward": 3.5}, False),
        ({"reward": -1}, False),
        ({"accuracy": 1}, True),
        ({"reward": "1"}, None),
        ({"reward": None}, None),
        ({"a": 1, "b": 1}, None),
        ({}, None),
        ([1], None),
        (None, None),
    ],
)
def test_a_trial_passed_if_its_main_reward_is_one(tmp_path: Path, rewards: Any, resolved: Any) -> None:
    assert one_event(tmp_path, verifier_result={"rewards": rewards}).get("resolved") is resolved


@pytest.mark.parametrize(
    ("told", "cost"), [(0.0, None), (0.25, 0.25), (None, None)], ids=["0.0 means unknown", "told", "untold"]
)
def test_a_cost_of_nothing_beside_tokens_is_unknown(tmp_path: Path, told: Any, cost: Any) -> None:
    context = {"n_input_tokens": 10, "n_output_tokens": 1, "cost_usd": told}
    assert one_event(tmp_path, agent_result=context).get("cost_usd") == cost


def test_the_model_is_what_the_user_asked_for_else_what_the_agent_says(tmp_path: Path) -> None:
    assert one_event(tmp_path / "a")["model"] == "openai/gpt-5"
    assert one_event(tmp_path / "b", config={})["model"] == "openai/gpt-5"
    info = {"name": "codex", "model_info": {"name": "gpt-5", "provider": None}}
    assert one_event(tmp_path / "c", config={}, agent_info=info)["model"] == "gpt-5"
    assert one_event(tmp_path / "d", config={}, agent_info={"name": "nop"})["model"] == "unknown"


def test_the_first_exception_of_a_step_is_the_failure_mode(tmp_path: Path) -> None:
    steps = [{"step_name": "a"}, {"step_name": "b", "exception_info": {"exception_type": "HealthcheckError"}}]
    assert one_event(tmp_path, step_results=steps)["failure_mode"] == "HealthcheckError"


@pytest.mark.parametrize(
    "content",
    ["", "{", '{"task_name": "t", "trial', "[]", "null", '{"task_name": 5}', "{}", "\x00" * 9],
)
def test_a_result_that_cannot_be_read_is_named_and_the_others_count(tmp_path: Path, content: str) -> None:
    job = a_job(tmp_path / "job", a_trial_result(), a_trial_result(name="u__abc1234"))
    write_json(job / "t0" / "result.json", content)
    events, report = converted(job)
    assert [trial["shard"] for trial in trials_of(events)] == ["u__abc1234"]
    assert [path for path, _ in report.unreadable] == [job / "t0" / "result.json"]


def test_values_of_wrong_types_are_left_out_and_named(tmp_path: Path) -> None:
    context = {"n_input_tokens": "many", "n_cache_tokens": -3, "n_output_tokens": 1.5, "cost_usd": "cheap"}
    wrong: dict[str, Any] = {
        "agent_result": context,
        "started_at": "yesterday",
        "agent_info": 5,
        "config": [],
        "id": 7,
    }
    job = a_job(tmp_path / "job", a_trial_result(**wrong))
    events, report = converted(job)
    assert trials_of(events)[0]["resolved"] is True
    left_out = {"input_tokens", "cache_read_tokens", "output_tokens", "cost_usd", "started_at"}
    assert {name for _, name, _ in report.left_out} == left_out


@pytest.mark.parametrize("datasets", [7, 1.5, True, "text", {"name": "d"}, [7], None])
def test_datasets_that_are_no_list_name_no_benchmark(tmp_path: Path, datasets: object) -> None:
    job = a_job(tmp_path / "job", a_trial_result())
    write_json(job / "config.json", {"job_name": "job", "datasets": datasets})
    events, _ = converted(job)
    assert "benchmark" not in plan_of(events)
