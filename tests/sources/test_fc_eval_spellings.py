"""R7 on run directories: logs with the configuration's keys and logs with the container's say the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from streamer.sources.files import ConfiguredAgent, container_key, spelled_for_files
from streamer.sources.tail import follow
from streamer.terminal import cli
from tests.sources.builders import (
    Event,
    a_result,
    a_run,
    a_trial_file,
    converted,
    once,
    trials_of,
    write_json,
)
from tests.sources.fc_eval_runs import (
    ONE_AGENT,
    SEVERAL_AGENTS,
    agents_of,
    container_keys,
    rekeyed,
    run_level_only,
)
from tests.support.tailing import followed
from tests.support.worker_process import wait_for

REAL_RUNS = (*ONE_AGENT, *SEVERAL_AGENTS)
NOT_AMONG = "with speedups in the log but none of their own agent's, so they count without any"
GPT, QWEN = ConfiguredAgent("terminus-2", "openai/gpt-5"), ConfiguredAgent("terminus-2", "fireworks/qwen3")
SPEEDUPS = {"m.f": {"agent/nop": 2.0, "oracle/nop": 3.0}}


def measured(events: list[Event]) -> int:
    return sum("benchmarks" in event for event in trials_of(events))


@pytest.mark.parametrize(
    ("name", "with_position"),
    [
        *((name, True) for name in REAL_RUNS),
        *((name, False) for name in ("fc-no-oracle-same-framework", "fc-nop-oracle-gpt5", "fc-rough")),
    ],
)
def test_a_run_rekeyed_to_the_containers_spelling_gives_the_same_events(
    runs: Path, tmp_path: Path, name: str, with_position: bool
) -> None:
    keys = container_keys(runs / name)
    if not with_position:
        keys = {key: key.replace("/", "-") for key in keys if "/" in key}
    copy = rekeyed(runs / name, tmp_path / "container", keys)
    panes = [path.read_bytes() for path in copy.rglob("post-test.txt")]
    assert any(f'"{key}"'.encode() in pane for key in keys.values() for pane in panes)
    assert not any(f'"{key}"'.encode() in pane for key in keys for pane in panes)
    expected = once(runs / name)[0]
    assert measured(expected) > 0
    assert converted(copy)[0] == expected


@pytest.mark.parametrize("name", ["fc-multi-of-one", "fc-nop-oracle-gpt5", "fc-two-attempts"])
def test_a_run_level_file_rekeyed_to_the_containers_spelling_gives_the_same_events(
    runs: Path, tmp_path: Path, name: str
) -> None:
    """Where no agent's entry was written over: the harness would not write over it with these keys."""
    expected = run_level_only(runs / name, tmp_path / "a", "fc.lock")
    result = run_level_only(
        rekeyed(runs / name, tmp_path / "b", container_keys(runs / name)), tmp_path / "c", "fc.lock"
    )
    assert measured(converted(expected)[0]) > 0
    assert converted(result)[0] == converted(expected)[0]


def a_run_of_two_models(folder: Path, own: dict[ConfiguredAgent, Any], tasks: int = 1) -> Path:
    """A run of two models of one framework; `own`: agent -> speedups by agent in its sub-trial's log."""
    run = a_run(folder / "run1")
    agents = [{"agent_name": agent.label, "model_name": agent.model} for agent in (GPT, QWEN)]
    write_json(run / "fc.lock", {"run_spec": {"agent_mode": "multi", "agents": agents}})
    for task in range(tasks):
        for position, agent in enumerate((GPT, QWEN), 1):
            by_agent = own[agent]
            improvements = {"last_agent": next(iter(by_agent)), "per_benchmark_speedups_by_agent": by_agent}
            metrics = {"improvements_dict": improvements, "tests_dict": {"passed": 1}}
            metrics["snapshot_dict"] = {"pass-to-fail": 0}
            name = f"t{task}.1-of-1.run1.agent-{position}-{agent.label}"
            result = a_result(f"t{task}", trial_name=name, id=name, parser_extra_metrics=metrics)
            a_trial_file(run, result)
    return run


@pytest.mark.parametrize("spelling", ["configured", "container", "no position"])
def test_a_crashed_model_never_gets_the_numbers_of_the_other_model_of_its_framework(
    tmp_path: Path, spelling: str
) -> None:
    """The first model left nothing; in its log the other's entry is the only one, and the last agent's."""
    key = {
        "configured": QWEN.key,
        "container": container_key(2, QWEN),
        "no position": f"{QWEN.label}:{spelled_for_files(QWEN.model or '')}",
    }[spelling]
    run = a_run_of_two_models(tmp_path, {GPT: {key: SPEEDUPS}, QWEN: {key: SPEEDUPS}})
    events, report = converted(run)
    crashed, other = trials_of(events)
    assert (crashed["model"], "benchmarks" in crashed) == (GPT.model, False)
    assert (other["model"], other["benchmarks"]) == (QWEN.model, SPEEDUPS)
    (remarks,) = report.remarks.values()
    assert str(remarks) == f"run run1: 1 trial {NOT_AMONG}: {GPT.key!r} is not among {key!r}"


def test_convert_says_once_per_run_which_keys_were_there(tmp_path: Path) -> None:
    strange = {"openhands:x": SPEEDUPS, "\x1b[31mred:y": SPEEDUPS}
    run = a_run_of_two_models(tmp_path, {GPT: strange, QWEN: strange}, tasks=3)
    result = CliRunner().invoke(cli, ["convert", str(run)])
    (line,) = [line for line in result.stderr.splitlines() if "speedups" in line]
    assert line.startswith(f"note: run run1: 6 trials {NOT_AMONG}: '{GPT.key}' is not among 'openhands:x', ")
    assert "\\x1b[31mred:y" in line
    assert "\x1b" not in result.stderr
    assert all("benchmarks" not in json.loads(event) for event in result.stdout.splitlines())
    assert result.exit_code == 0


def test_convert_says_nothing_where_every_agent_is_found_or_nothing_was_measured(tmp_path: Path) -> None:
    result = {container_key(1, GPT): SPEEDUPS, container_key(2, QWEN): {}}
    run = a_run_of_two_models(tmp_path, {GPT: result, QWEN: {"nop:nop": {}}})
    assert not converted(run)[1].remarks


def test_tail_says_once_per_run_which_keys_were_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while more such trials come: the run is said of once, whatever it says of how many."""
    monkeypatch.setattr(follow, "CALM_SECONDS", 0.1)
    strange = {"openhands:x": SPEEDUPS}
    run = a_run_of_two_models(tmp_path, {GPT: strange, QWEN: strange})
    with followed(run) as following:
        wait_for(lambda: any(NOT_AMONG in line for line in following.said), "the keys that were there")
        a_run_of_two_models(tmp_path, {GPT: strange, QWEN: strange | {"codex:z": SPEEDUPS}}, tasks=4)
        wait_for(lambda: len(following.trials) >= 8, "more trials")
        readings = following.follower.status.readings
        wait_for(lambda: following.follower.status.readings >= readings + 3, "more readings")
    (line,) = [line for line in following.said if NOT_AMONG in line]
    assert line.startswith("note: run run1: ")
    assert "'openhands:x'" in line


def test_a_baseline_whose_model_is_capitalised_is_the_baseline(runs: Path, tmp_path: Path) -> None:
    """R7: in the lock, in results and in logs; a model of its own stays what it says."""
    run = rekeyed(runs / "fc-nop-oracle-gpt5", tmp_path, {"oracle:oracle": "oracle:Oracle"})
    required = converted(run)[0]
    lock = (run / "fc.lock").read_text()
    for model, expected in (("Oracle", "oracle"), ("openai/gpt-5", "openai/gpt-5")):
        (run / "fc.lock").write_text(lock.replace('"model_name": "oracle"', f'"model_name": "{model}"'))
        assert agents_of(run)[1].model == model
        events = converted(run)[0]
        assert {e["model"] for e in trials_of(events) if e["agent"] == "oracle"} == {expected}
        assert f"oracle:{expected}" in events[0]["agent_models"]
        if model == "Oracle":
            assert trials_of(events) == trials_of(required)
