"""fc-eval run directories: one event per sub-trial, with what the agent measured itself."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from streamer.sources.fc_eval_payload import place
from tests.sources.builders import converted, plan_of, trials_of
from tests.sources.fc_eval_reading import SUB_TRIAL, by_trial, label_of, trial_directories
from tests.support.data import shared_data

REAL_RUNS = {
    "fc-multi-of-one": {"files": 8, "run_file": 2, "trials_left_out": 0},
    "fc-no-oracle-same-framework": {"files": 36, "run_file": 0, "trials_left_out": 2},
    "fc-nop-oracle-gpt5": {"files": 120, "run_file": 0, "trials_left_out": 0},
    "fc-rough": {"files": 76, "run_file": 0, "trials_left_out": 1},
    "fc-single-nop": {"files": 8, "run_file": 0, "trials_left_out": 0},
    "fc-single-terminus": {"files": 26, "run_file": 4, "trials_left_out": 0},
    "fc-two-attempts": {"files": 69, "run_file": 0, "trials_left_out": 1},
}
"""Events from files of agents, events that stand only in the run-level file, and trials of several agents
that ended before their agents were merged (D16)."""


LEFT_OUT = "of which some agents have no result in any file, so these agents are left out"


def in_pane(directory: Path, label: str) -> Any:
    """Benchmarks of an agent in the raw log, read independently of the parser; None if there are none."""
    pane = (directory / "panes" / "post-test.txt").read_text("utf-8")
    block = re.search("FORMULACODE_RESULT_START(.*)FORMULACODE_RESULT_END", pane, re.DOTALL)
    try:
        result = json.loads("".join(block[1].strip().splitlines())) if block else {}
    except ValueError:
        return None
    return result.get("per_benchmark_speedups_by_agent", {}).get(label)


def on_disk(value: Any) -> Any:
    """With null for what is not finite, as the harness writes it (D17)."""
    if isinstance(value, dict):
        return {name: on_disk(item) for name, item in value.items()}
    return None if value in ("NaN", "Infinity", "-Infinity") or value != value or value in INFINITE else value


INFINITE = (float("inf"), float("-inf"))


@pytest.mark.parametrize("name", REAL_RUNS)
def test_a_real_run_gives_one_event_per_agent_of_each_trial(runs: Path, name: str) -> None:
    expected = json.loads((shared_data() / "formulacode" / "runs_expected.json").read_bytes())[name]
    events, report = converted(runs / name)
    trials = trials_of(events)
    counts = REAL_RUNS[name]
    assert not report.unreadable + report.left_out + report.notes
    assert report.duplicates == 0
    left_out = report.remarks.get((name, LEFT_OUT))
    assert (left_out.trials if left_out else 0) == counts["trials_left_out"]
    per_agent = expected["n_trials_in_run_results"] - counts["trials_left_out"]
    assert len(trials) == counts["files"] + counts["run_file"] == per_agent * len(expected["agents"])
    assert counts["files"] == len(trial_directories(runs / name))
    assert report.run_file_trials == counts["run_file"]
    assert {e.get("agent_index") for e in trials} == (
        set(range(1, len(expected["agents"]) + 1)) if expected["multi_agent"] else {None}
    )
    for index, agent in enumerate(expected["agents"], 1):
        own = [e for e in trials if e.get("agent_index", 1) == index]
        assert len(own) == per_agent
        assert {(e["agent"], e["model"]) for e in own} == {(agent["agent_name"], agent["model_name"])}


@pytest.mark.parametrize("name", REAL_RUNS)
def test_every_event_says_what_its_own_file_says(runs: Path, name: str) -> None:
    events = by_trial(converted(runs / name)[0])
    for directory in trial_directories(runs / name):
        result = json.loads((directory / "results.json").read_bytes())
        match = SUB_TRIAL.search(directory.name)
        attempt = int(directory.name.split("-of-")[0].rpartition(".")[2])
        event = events[result["task_id"], attempt, int(match[1]) if match else None]
        assert event["trial_id"] == result["id"]
        assert event.get("resolved") == result["is_resolved"]
        assert event["failure_mode"] == result["failure_mode"]
        assert event.get("input_tokens") == result["total_input_tokens"]
        assert event["trajectory_length"] == result["parser_extra_metrics"]["trajectory_length"]
        tokens = (result["total_input_tokens"] or 0) > 0
        unknown = result["total_cost"] == 0 and (tokens or event["agent"] not in ("nop", "oracle"))
        assert event.get("cost_usd") == (None if unknown else result["total_cost"])
        assert event["revision"] == (directory / "results.json").stat().st_mtime_ns
        assert label_of(event) == result["parser_extra_metrics"]["agent_model_key"]


@pytest.mark.parametrize("name", REAL_RUNS)
def test_raw_speedups_are_those_of_the_log_with_and_without_the_log(
    runs: Path, name: str, tmp_path: Path
) -> None:
    """The harness writes its fallback over them in every field but one; no event may show it."""
    bare = Path(shutil.copytree(runs / name, tmp_path / name, ignore=shutil.ignore_patterns("panes")))
    with_panes, without = by_trial(converted(runs / name)[0]), by_trial(converted(bare)[0])
    measured = 0
    for directory in trial_directories(runs / name):
        match = SUB_TRIAL.search(directory.name)
        task, attempt = directory.parent.name, int(directory.name.split("-of-")[0].rpartition(".")[2])
        event = with_panes[task, attempt, int(match[1]) if match else None]
        if event["failure_mode"] == "test_timeout":
            assert not event.keys() & {"benchmarks", "tests", "snapshot"}
            continue
        raw = in_pane(directory, label_of(event))
        assert on_disk(event.get("benchmarks")) == on_disk(raw)
        measured += raw is not None
        if event["failure_mode"] != "parse_error":
            kept = without[task, attempt, event.get("agent_index")]
            assert on_disk(kept.get("benchmarks")) == on_disk(raw)
            assert "fallback_to_baseline" not in json.dumps(kept)
        assert "fallback_to_baseline" not in json.dumps(event)
    assert measured > 0


def test_some_real_speedups_are_overwritten_by_the_fallback(runs: Path) -> None:
    """So that the test above is about something: 1.0 stands in improvements_dict for what was measured."""

    def is_overwritten(directory: Path) -> bool:
        metrics = json.loads((directory / "results.json").read_bytes())["parser_extra_metrics"]
        return '"fallback_to_baseline": true' in json.dumps(metrics.get("improvements_dict"))

    overwritten = Counter(
        name
        for name in REAL_RUNS
        for directory in trial_directories(runs / name)
        if is_overwritten(directory)
    )
    assert set(overwritten) == REAL_RUNS.keys() - {"fc-multi-of-one"}
    assert overwritten["fc-rough"] == 35


def test_r28_nobody_makes_up_how_the_agents_of_a_crashed_trial_ended(runs: Path) -> None:
    """The file says that the trial as a whole ended; its agents are left out, and that is said."""
    events, report = converted(runs / "fc-rough")
    assert not [e for e in trials_of(events) if e["task_id"] == "shapely_shapely_rou0"]
    assert str(report.remarks["fc-rough", LEFT_OUT]) == (
        f"run fc-rough: 1 trial {LEFT_OUT}: "
        "1-nop, 2-oracle, 3-terminus-2, 4-terminus-2 (the trial ended: 'unknown_agent_error')"
    )
    plan = plan_of(events)
    assert "shapely_shapely_rou0" in plan["tasks"]
    assert (plan["attempts"], len(plan["agent_models"])) == (1, 4)


@pytest.mark.parametrize(("name", "index"), [("fc-single-terminus", None), ("fc-multi-of-one", 1)])
def test_a_crashed_trial_of_one_agent_is_that_agents_result(runs: Path, name: str, index: int | None) -> None:
    events, report = converted(runs / name)
    crashed = [e for e in trials_of(events) if e["failure_mode"] == "unknown_agent_error"]
    assert len(crashed) == REAL_RUNS[name]["run_file"] == report.run_file_trials
    assert {(e["agent"], e.get("agent_index")) for e in crashed} == {("terminus-2", index)}
    assert all(not e.keys() & {"resolved", "cost_usd", "input_tokens", "tests"} for e in crashed)
    files_only, _ = converted(runs / name, trial_files_only=True)
    assert len(trials_of(files_only)) == REAL_RUNS[name]["files"]


def test_the_plan_names_the_agents_and_the_baselines(runs: Path) -> None:
    events, _ = converted(runs / "fc-two-attempts")
    plan = plan_of(events)
    assert plan["agent_models"] == ["nop:nop", "oracle:oracle", "openhands:anthropic/claude-opus-4-1"]
    assert plan["baselines"] == ["nop", "oracle"]
    assert (plan["attempts"], len(plan["tasks"]), plan["benchmark"]) == (2, 12, "formulacode")
    assert (plan["harness"], plan["run_id"]) == ("fc-eval", "fc-two-attempts")
    assert plan["started_at"] == "2026-03-11T12:00:14.246914+00:00"
    assert events[-1]["type"] == "run_finished"


def test_converting_again_gives_the_same_events(runs: Path) -> None:
    assert converted(runs)[0] == converted(runs)[0]


def test_a_folder_of_runs_gives_them_all(runs: Path) -> None:
    events, report = converted(runs)
    assert sorted(report.runs) == sorted(REAL_RUNS)
    assert len(trials_of(events)) == sum(run["files"] + run["run_file"] for run in REAL_RUNS.values())


def test_trial_names_say_the_agent_whatever_the_run_is_called() -> None:
    assert place("t", "t.1-of-1.r.agent--1-x", {"r"}).agent_index is None
    assert place("t", "t.1-of-1.my.agent-1-run", {"my.agent-1-run"}).agent_index is None
    assert place("t", "t.1-of-1.my.agent-1-run.agent-2-nop", {"my.agent-1-run"})[2:] == (
        "my.agent-1-run",
        2,
        "nop",
    )
    assert place("t", "t.3-of-5.other.agent-12-a.b.C", {"r"}) == ("t.3-of-5.other", 3, "other", 12, "a.b.C")
    assert place("t", "t", {"r"})[1:4] == (1, None, None)
