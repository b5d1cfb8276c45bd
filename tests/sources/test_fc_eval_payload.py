"""fc-eval run directories: one event per sub-trial, with what the agent measured itself."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from streamer.schemas.events import EVENT
from streamer.sources.fc_eval_payload import parse_log, place, sections_for
from streamer.sources.files import Subject
from tests.sources.builders import converted, once, plan_of, trials_of
from tests.sources.fc_eval_runs import SUB_TRIAL, by_trial, label_of, trial_directories
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
    events, report = once(runs / name)
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
    events = by_trial(once(runs / name)[0])
    for directory in trial_directories(runs / name):
        result = json.loads((directory / "results.json").read_bytes())
        match = SUB_TRIAL.search(directory.name)
        attempt = int(directory.name.split("-of-")[0].rpartition(".")[2])
        event = events[result["task_id"], attempt, int(match[1]) if match else None]
        assert event["trial_id"] == result["id"]
        assert event.get("resolved") == result["is_resolved"]
        assert event["failure_mode"] == result["failure_mode"]
        assert event.get("input_tokens") == result["total_input_tokens"]
        assert event.get("output_tokens") == result["total_output_tokens"]
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
    with_panes, without = by_trial(once(runs / name)[0]), by_trial(converted(bare)[0])
    measured = overwritten = 0
    for directory in trial_directories(runs / name):
        overwritten += '"fallback_to_baseline": true' in (directory / "results.json").read_text()
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
    assert overwritten or name == "fc-multi-of-one"


def test_r28_nobody_makes_up_how_the_agents_of_a_crashed_trial_ended(runs: Path) -> None:
    """The file says that the trial as a whole ended; its agents are left out, and that is said."""
    events, report = once(runs / "fc-rough")
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
    events, report = once(runs / name)
    crashed = [e for e in trials_of(events) if e["failure_mode"] == "unknown_agent_error"]
    assert len(crashed) == REAL_RUNS[name]["run_file"] == report.run_file_trials
    assert {(e["agent"], e.get("agent_index")) for e in crashed} == {("terminus-2", index)}
    assert all(not e.keys() & {"resolved", "cost_usd", "input_tokens", "tests"} for e in crashed)
    files_only, _ = converted(runs / name, trial_files_only=True)
    assert len(trials_of(files_only)) == REAL_RUNS[name]["files"]


def test_the_plan_names_the_agents_and_the_baselines(runs: Path) -> None:
    events, _ = once(runs / "fc-two-attempts")
    plan = plan_of(events)
    assert plan["agent_models"] == ["nop:nop", "oracle:oracle", "openhands:anthropic/claude-opus-4-1"]
    assert plan["baselines"] == ["nop", "oracle"]
    assert (plan["attempts"], len(plan["tasks"]), plan["benchmark"]) == (2, 12, "formulacode")
    assert (plan["harness"], plan["run_id"]) == ("fc-eval", "fc-two-attempts")
    assert plan["started_at"] == "2026-03-11T12:00:14.246914+00:00"
    assert events[-1]["type"] == "run_finished"


def test_a_folder_of_runs_gives_them_all_and_the_same_events_again(runs: Path) -> None:
    events, report = converted(runs)
    assert events == converted(runs)[0]
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


# -----------------------------------------------------------------------------
# The log parser on what logs should not hold: it fails what is wrong, never raises, never dawdles.


GPT5 = "terminus-2:openai/gpt-5"
BLOCKS = ("TESTS", "RESULT", "SNAPSHOT")


def a_block(name: str, content: Any) -> str:
    inner = content if isinstance(content, str) else json.dumps(content)
    return f"FORMULACODE_{name}_START\n{inner}\nFORMULACODE_{name}_END\n"


def a_log(tests: Any = None, result: Any = None, snapshot: Any = None) -> str:
    given_blocks = zip(BLOCKS, (tests, result, snapshot), strict=True)
    return "$ run\n" + "".join(a_block(name, block) for name, block in given_blocks if block is not None)


def a_result(label: str = GPT5, **fields: Any) -> dict[str, Any]:
    speedups = {"m.f": {"agent/nop": 1.5, "oracle/nop": 2.0}}
    return {
        "last_agent": label,
        "agent_advantage": -0.5,
        "per_benchmark_speedups_by_agent": {label: speedups},
        **fields,
    }


def sections(text: str, label: str = GPT5, *others: str) -> dict[str, Any]:
    """Sections of a log, accepted by the event schema as they are."""
    result = sections_for(parse_log(text), Subject(label, others=others))
    EVENT.validate_json(orjson.dumps({"type": "trial_result", "run_id": "r", "task_id": "t", **result}))
    return result


def test_a_complete_log_gives_every_section() -> None:
    tests = {"passed": 9, "failed": 1, "error": 0, "skipped": 2, "total": 12}
    snapshot = {"passed": 40, "failed": 2, "skipped": 0, "total": 42}
    text = a_log(tests | {"warnings": 7}, a_result(), snapshot | {"pass-to-fail": 1})
    assert sections(text) == {
        "tests": {"status": "failed", **tests},
        "snapshot": {"status": "failed", "pass_to_fail": 1.0, **snapshot},
        "benchmarks": {"m.f": {"agent/nop": 1.5, "oracle/nop": 2.0}},
    }


def test_an_empty_log_lacks_every_block() -> None:
    assert sections("") == {"tests": {"status": "missing"}, "snapshot": {"status": "missing"}}
    assert parse_log("").result is None


@pytest.mark.parametrize(
    "content", ["{oops", "[1]", "null", "3", '"text"', "{}", '{"a": 1}', "[" * 100_000, "1" * 5_000]
)
def test_a_block_of_a_wrong_shape_fails(content: str) -> None:
    parsed = parse_log(a_log(tests=content, snapshot=content))
    assert parsed.tests == {"status": "unparsable"}
    assert parsed.snapshot["status"] == ("passed" if content in ("{}", '{"a": 1}') else "unparsable")


@pytest.mark.parametrize("value", ['"1"', "null", "[]", "Infinity", "-Infinity", "1" + "0" * 400])
def test_a_snapshot_whose_pass_to_fail_is_no_count_fails(value: str) -> None:
    text = a_log(snapshot=f'{{"pass-to-fail": {value}}}')
    assert sections(text)["snapshot"]["status"] in ("failed", "unparsable")


def test_counts_go_through_int_and_an_infinite_one_fails() -> None:
    counts = sections(a_log(tests='{"passed": 1e30, "failed": 0.9, "error": "0", "skipped": null}'))["tests"]
    assert counts == {"status": "ok", "passed": 2**53, "failed": 0, "error": 0, "skipped": 0}
    assert sections(a_log(tests='{"passed": 1, "failed": Infinity}'))["tests"] == {"status": "unparsable"}


def test_an_error_of_the_snapshot_comparison_fails_whatever_it_is() -> None:
    assert sections(a_log(snapshot={"error": None, "passed": 3}))["snapshot"]["status"] == "failed"


def test_hostile_benchmarks_travel_as_what_may_travel() -> None:
    deep: Any = 1
    for _ in range(900):
        deep = [deep]
    logged = {
        "nan": {"agent/nop": float("nan"), "oracle/nop": float("-inf")},
        "huge": {"agent/nop": 10**30, "oracle/nop": -(10**400)},
        "half \ud800 name": "\udfff",
        "deep": {"agent/nop": deep, "oracle/nop": {"a": {"b": {"c": 1}}}},
        "others": {"true": True, "agent_s": [1.0, 2.0], "nop_s": 3},
    }
    text = json.dumps(a_result(per_benchmark_speedups_by_agent={GPT5: logged}))
    assert sections(a_log(result=text))["benchmarks"] == {
        "nan": {"agent/nop": "NaN", "oracle/nop": "-Infinity"},
        "huge": {"agent/nop": 1e30, "oracle/nop": "-Infinity"},
        "half \ufffd name": "\ufffd",
        "deep": {"agent/nop": [[None]], "oracle/nop": {"a": {"b": None}}},
        "others": logged["others"],
    }


def test_a_model_is_the_same_however_either_side_spells_it() -> None:
    kimi = "accounts/fireworks/models/kimi"
    assert "benchmarks" in sections(a_log(result=a_result("terminus-2:@openai/gpt-5")))
    assert "benchmarks" in sections(a_log(result=a_result(f"a:{kimi}")), f"a:fireworks/{kimi}")
    assert "benchmarks" in sections(a_log(result=a_result(f"a:fireworks/{kimi}")), f"a:{kimi}")
    assert "benchmarks" not in sections(a_log(result=a_result("terminus-2:gpt-5")), GPT5, "terminus-2:gpt-5")


def test_flat_speedups_are_the_last_agents_and_count_only_where_the_harness_counts_them() -> None:
    """B11: beside something that is not an object; neither beside an object nor beside nothing."""
    flat = {"m.g": {"agent/nop": 3.0, "oracle/nop": 1.0}}
    for by_agent, expected in ((None, flat), ([1], flat), ({}, None)):
        text = a_log(result=a_result(per_benchmark_speedups_by_agent=by_agent, per_benchmark_speedups=flat))
        assert sections(text).get("benchmarks") == expected
        assert "benchmarks" not in sections(text, "oracle:oracle")


def test_claims_are_kept_only_where_there_are_no_speedups() -> None:
    claims = {
        GPT5: {"agent_advantage": "0.25", "agent_advantage_level1": float("nan"), "total_benchmarks": "x"}
    }
    with_speedups = a_result(agent_advantages_by_agent=claims)
    without = with_speedups | {"per_benchmark_speedups_by_agent": {}}
    assert "claimed" not in sections(a_log(result=with_speedups))
    expected = {"agent_advantage": 0.25, "agent_advantage_level1": "NaN", "total_benchmarks": 0}
    assert sections(a_log(result=without))["claimed"] == expected
    assert sections(a_log(result=without), "nop:nop").get("claimed") is None


def test_the_old_format_is_the_mean_change_turned_round() -> None:
    def percentage(**entries: Any) -> float | None:
        return sections(a_log(result=entries)).get("speedup_percentage")

    assert percentage(a={"change": "-", "delta_pct": -10}, b={"change": "+", "delta_pct": 4.0}) == 3.0
    assert percentage(a={"change": "-", "delta_pct": -10}, b={"change": "x", "delta_pct": 90}) == 10.0
    assert percentage(a={"change": "-", "delta_pct": -10}, b={"change": "-", "delta_pct": -101}) == 10.0
    assert percentage(a={"change": "-", "delta_pct": -10}, b={"change": "!", "delta_pct": 1}) == 0.0
    assert percentage(a={"change": "-", "delta_pct": None}) == 0.0
    assert percentage(a={"change": "-", "delta_pct": "-10"}) is None
    assert percentage(a=[1]) is None


def test_markers_count_anywhere_in_a_line_and_the_first_of_each_counts() -> None:
    whole = 'x FORMULACODE_TESTS_START{"passed": 1}FORMULACODE_TESTS_END y'
    assert sections(whole)["tests"]["status"] == "ok"
    assert sections("echo FORMULACODE_TESTS_END\n" + whole)["tests"] == {"status": "missing"}
    assert sections(whole.replace("{", "\r{\x85\n").replace("1", "1\u2028"))["tests"]["passed"] == 1


HOSTILE: dict[str, Callable[[int], str]] = {
    "starts without an end": lambda size: "FORMULACODE_RESULT_START" * (size // 24),
    "halves of markers": lambda size: "FORMULACODE_" * (size // 12),
    "line breaks": lambda size: a_log(result="{" + "\n" * size + "}"),
    "digits": lambda size: a_log(result='{"agent_advantage": 0.' + "1" * size + "}"),
    "open brackets": lambda size: a_log(tests="[" * size),
    "objects in objects": lambda size: a_log(tests='{"a":' * (size // 5)),
    "backslashes": lambda size: a_log(result='"' + "\\" * size),
    "agents without speedups": lambda size: a_log(
        result='{"agent_advantage": null, "per_benchmark_speedups_by_agent": {'
        + ",".join(f'"{number}:m": 1' for number in range(size // 12))
        + "}}"
    ),
    "agents": lambda size: a_log(
        result='{"agent_advantage": 1, "per_benchmark_speedups_by_agent": {'
        + ",".join(f'"{number}:m": {{"f": {{}}}}' for number in range(size // 22))
        + "}}"
    ),
    "surrogates": lambda size: a_log(
        result='{"agent_advantage": 1, "per_benchmark_speedups_by_agent": {"a:b": {"'
        + "\\ud800" * (size // 6)
        + '": 1}}}'
    ),
    "old entries": lambda size: a_log(
        result="{" + ",".join(f'"{number}": {{"delta_pct": 1}}' for number in range(size // 24)) + "}"
    ),
}
SMALL, LARGE = 2**17, 2**20
NOISE_SECONDS = 0.005


def seconds(text: str) -> float:
    """Processor time of a parse."""
    start = time.process_time()
    sections_for(parse_log(text), Subject(GPT5))
    return time.process_time() - start


@pytest.mark.parametrize("name", HOSTILE)
def test_eight_times_the_text_takes_nothing_like_64_times_the_time(name: str) -> None:
    small, large = (HOSTILE[name](size) for size in (SMALL, LARGE))
    limit = 32 * max(NOISE_SECONDS, min(seconds(small) for _ in range(3)))
    assert any(seconds(large) < limit for _ in range(3)), limit
