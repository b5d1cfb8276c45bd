"""Reading agent logs and recordings, and giving their numbers to a trial (E1-E3, E6-E8, R1, R2, R8)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from streamer.sources.files import AgentLogs, enriched, read_agent_logs
from tests.sources.recordings import write_cast, written
from tests.support.events import a_trial


def a_step(prompt: Any = 10, completion: Any = 2) -> dict[str, Any]:
    usage = {"prompt_tokens": prompt, "completion_tokens": completion}
    return {"llm_metrics": {"accumulated_token_usage": usage}}


def write_steps(trial: Path, steps: Any, name: str = "t.json", mtime: int = 1_700_000_000) -> Path:
    return written(trial / "agent-logs" / name, json.dumps(steps), mtime)


def test_a_trial_without_logs_says_nothing(tmp_path: Path) -> None:
    assert read_agent_logs(tmp_path) == AgentLogs()
    assert read_agent_logs(tmp_path / "gone") == read_agent_logs(None) == AgentLogs()


def test_the_last_step_that_states_tokens_counts_since_they_are_accumulated(tmp_path: Path) -> None:
    write_steps(tmp_path, [a_step(10, 2), a_step(30, 5), a_step(0, 0), {}])
    logs = read_agent_logs(tmp_path)
    assert (logs.input_tokens, logs.output_tokens, logs.trajectory_length) == (30, 5, 4)


def test_tokens_that_are_stated_as_0_are_0(tmp_path: Path) -> None:
    write_steps(tmp_path, [a_step(0, 0), {}])
    logs = read_agent_logs(tmp_path)
    assert (logs.input_tokens, logs.output_tokens) == (0, 0)


@pytest.mark.parametrize("completion", ["many", None, [], 1e400])
def test_a_bad_completion_count_leaves_the_prompt_count_and_an_unknown(
    completion: Any, tmp_path: Path
) -> None:
    write_steps(tmp_path, [a_step(7, 7), a_step(10, completion)])
    logs = read_agent_logs(tmp_path)
    assert (logs.input_tokens, logs.output_tokens, logs.trajectory_length) == (10, None, 2)
    assert logs.sources == dict.fromkeys(("input_tokens", "trajectory_length"), "agent-logs/t.json")
    assert "step 1: completion_tokens is" in logs.problems[0]


def test_a_count_that_a_usage_lacks_is_unknown(tmp_path: Path) -> None:
    write_steps(tmp_path, [{"llm_metrics": {"accumulated_token_usage": {"prompt_tokens": 3}}}])
    logs = read_agent_logs(tmp_path)
    assert (logs.input_tokens, logs.output_tokens) == (3, None)


def test_a_step_in_error_ends_the_scan_and_what_later_steps_stated_stays(tmp_path: Path) -> None:
    write_steps(tmp_path, [a_step(9, 9), {"llm_metrics": None}, a_step(0, 0)])
    logs = read_agent_logs(tmp_path)
    assert (logs.input_tokens, logs.output_tokens) == (0, 0)
    assert logs.problems == ("agent-logs/t.json: step 1: found None where an object belongs",)


def test_of_logs_written_at_the_same_instant_the_last_by_name_counts(tmp_path: Path) -> None:
    write_steps(tmp_path, [a_step(1, 1)], "a.json")
    write_steps(tmp_path, [a_step(2, 2)], "b.json")
    assert read_agent_logs(tmp_path).input_tokens == 2


@pytest.mark.parametrize("name", ["t.JSON", "t.jsonl", "below/t.json"])
def test_only_json_files_of_the_directory_itself_are_logs(name: str, tmp_path: Path) -> None:
    write_steps(tmp_path, [a_step()], name)
    assert read_agent_logs(tmp_path) == AgentLogs()


def test_an_empty_list_gives_way_to_a_recording_and_is_0_without_one(tmp_path: Path) -> None:
    write_steps(tmp_path, [])
    assert read_agent_logs(tmp_path).trajectory_length == 0
    write_cast(tmp_path, 3)
    logs = read_agent_logs(tmp_path)
    assert (logs.trajectory_length, logs.sources["trajectory_length"]) == (3, "sessions/agent.cast")


def test_links_and_what_is_no_file_are_not_read(tmp_path: Path) -> None:
    elsewhere = write_steps(tmp_path / "elsewhere", [a_step()])
    trial = tmp_path / "trial"
    (trial / "agent-logs").mkdir(parents=True)
    (trial / "agent-logs" / "link.json").symlink_to(elsewhere)
    assert read_agent_logs(trial) == AgentLogs()
    os.mkfifo(trial / "agent-logs" / "pipe.json")
    assert read_agent_logs(trial).problems == ("agent-logs/pipe.json: not a regular file",)
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "agent-logs").symlink_to(elsewhere.parent)
    assert read_agent_logs(linked) == AgentLogs()


def test_hostile_logs_are_problems_not_exceptions(tmp_path: Path) -> None:
    for number, text in enumerate(("[" * 100_000, "[1", "\ud800", "[" + "9" * 5000 + "]", "null")):
        trial = tmp_path / str(number)
        (trial / "agent-logs").mkdir(parents=True)
        (trial / "agent-logs" / "t.json").write_bytes(text.encode("utf-8", "surrogatepass"))
        logs = read_agent_logs(trial)
        assert logs.trajectory_length is None
        assert len(logs.problems) == 1


def test_a_sub_trial_finds_its_recording_in_the_main_trial_by_its_index(tmp_path: Path) -> None:
    main, sub = tmp_path / "t.1-of-1.r", tmp_path / "t.1-of-1.r.agent-1-x"
    sub.mkdir()
    write_cast(main, 4, "agent-1-x:gpt-5.cast", mtime=1_700_000_000)
    write_cast(main, 9, "agent-10-y:gpt-5.cast", mtime=1_700_000_010)
    write_steps(main, [a_step()])
    logs = read_agent_logs(sub, main_trial=main.name, agent_index=1)
    assert (logs.trajectory_length, logs.input_tokens) == (4, None)
    assert (sub / logs.sources["trajectory_length"]).resolve() == main / "sessions" / "agent-1-x:gpt-5.cast"


def test_a_sub_trials_own_recording_comes_before_the_main_trials(tmp_path: Path) -> None:
    main, sub = tmp_path / "main", tmp_path / "sub"
    write_cast(main, 4, "agent-1-x.cast")
    write_cast(sub, 2, "agent-1-x.cast")
    assert read_agent_logs(sub, main_trial=main.name, agent_index=1).trajectory_length == 2


def some_logs(input_tokens: int | None, output_tokens: int | None, length: int | None = None) -> AgentLogs:
    values = {"input_tokens": input_tokens, "output_tokens": output_tokens, "trajectory_length": length}
    sources = {name: "agent-logs/t.json" for name, value in values.items() if value is not None}
    return AgentLogs(input_tokens, output_tokens, length, sources)


def test_tokens_of_the_logs_replace_the_agents_own_if_either_is_above_0() -> None:
    event = a_trial(input_tokens=5, output_tokens=5)
    found = enriched(event, some_logs(0, 8))
    assert (found.event["input_tokens"], found.event["output_tokens"]) == (0, 8)
    assert found.sources == dict.fromkeys(("input_tokens", "output_tokens"), "agent-logs/t.json")


@pytest.mark.parametrize("logged", [(0, 0), (-7, -1), (None, None)])
def test_tokens_of_the_logs_that_are_not_above_0_replace_nothing(
    logged: tuple[int | None, int | None],
) -> None:
    event = a_trial(input_tokens=5, output_tokens=6)
    found = enriched(event, some_logs(*logged))
    assert found.event == event
    assert found.sources == dict.fromkeys(("input_tokens", "output_tokens"), "results.json")
    assert "input_tokens" not in enriched(a_trial(), some_logs(*logged)).event


def test_a_reported_cost_of_0_beside_tokens_of_the_logs_is_unknown() -> None:
    assert "cost_usd" not in enriched(a_trial(cost_usd=0.0), some_logs(10, 2)).event
    assert enriched(a_trial(cost_usd=0.0), some_logs(None, None)).event["cost_usd"] == 0.0


def test_what_the_logs_changed_is_remembered_as_the_harness_had_it() -> None:
    event = a_trial(cost_usd=0.0, input_tokens=5, trajectory_length=3)
    assert enriched(event, some_logs(10, 2, 7)).own == {
        "input_tokens": 5,
        "output_tokens": None,
        "cost_usd": 0.0,
    }
    assert enriched(event, some_logs(5, None, 3)).own == {"cost_usd": 0.0}
    assert enriched(event, some_logs(None, None)).own == {}


def test_a_reported_cost_stays() -> None:
    found = enriched(a_trial(cost_usd=0.5), some_logs(10, 2), own="trial/results.json")
    assert (found.event["cost_usd"], found.sources["cost_usd"]) == (0.5, "trial/results.json")


@pytest.mark.parametrize(("own", "logged", "taken"), [(None, 7, 7), (0, 7, 7), (5, 7, 5), (0, None, 0)])
def test_the_trajectory_length_enters_from_the_harness_or_from_the_logs(
    own: int | None, logged: int | None, taken: int
) -> None:
    event = a_trial() if own is None else a_trial(trajectory_length=own)
    assert enriched(event, some_logs(None, None, logged)).event["trajectory_length"] == taken
