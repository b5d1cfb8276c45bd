"""fc-eval's runs: an event for each agent of each trial, from its own file, its log, or merged results."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner

from streamer.schemas.events import EVENT
from streamer.sources.fc_eval import OTHER_VERDICT
from streamer.sources.fc_eval_payload import parse_log, place, sections_for
from streamer.sources.files import ConfiguredAgent, Subject, container_key, spelled_for_files
from streamer.sources.tail import follow
from streamer.terminal import cli
from tests.sources.builders import (
    Event,
    a_result,
    a_run,
    a_trial_file,
    converted,
    edit_json,
    once,
    plan_of,
    the_trial,
    trials_of,
    write_json,
)
from tests.sources.fc_eval_runs import (
    ALWAYS,
    CONFIGURATION,
    ONE_AGENT,
    SEVERAL_AGENTS,
    SUB_TRIAL,
    agents_of,
    both,
    by_trial,
    container_keys,
    label_of,
    rekeyed,
    run_level_only,
    trial_directories,
)
from tests.support.tailing import followed
from tests.support.worker_process import wait_for

REAL_RUNS = {
    "fc-multi-of-one": (8, 2, 0),
    "fc-no-oracle-same-framework": (36, 0, 2),
    "fc-nop-oracle-gpt5": (120, 0, 0),
    "fc-rough": (76, 0, 1),
    "fc-single-nop": (8, 0, 0),
    "fc-single-terminus": (26, 4, 0),
    "fc-two-attempts": (69, 0, 1),
}
"""Events from files of agents, events that stand only in the run-level file, and trials of several agents
that ended before their agents were merged (D16)."""

LEFT_OUT = "of which some agents have no result in any file, so these agents are left out"
SPEEDUPS = {"m.f": {"agent/nop": 2.0, "oracle/nop": 3.0}}


def copy_of(run: Path, folder: Path, *ignored: str) -> Path:
    return Path(shutil.copytree(run, folder / run.name, ignore=shutil.ignore_patterns(*ignored)))


def own_results(run: Path) -> Iterator[tuple[Path, Event, tuple[Any, ...]]]:
    """Directory and result of each agent's trial, and where `by_trial` has its event."""
    for directory in trial_directories(run):
        match = SUB_TRIAL.search(directory.name)
        attempt = int(directory.name.split("-of-")[0].rpartition(".")[2])
        index = int(match[1]) if match else None
        result = json.loads((directory / "results.json").read_bytes())
        yield directory, result, (directory.parent.name, attempt, index)


def in_pane(directory: Path, label: str) -> Any:
    """Benchmarks of an agent in the raw log, read independently of the parser; None if there are none."""
    pane = (directory / "panes" / "post-test.txt").read_text("utf-8")
    block = re.search("FORMULACODE_RESULT_START(.*)FORMULACODE_RESULT_END", pane, re.DOTALL)
    try:
        result = json.loads("".join(block[1].strip().splitlines())) if block else {}
    except ValueError:
        return None
    return result.get("per_benchmark_speedups_by_agent", {}).get(label)


INFINITE = (float("inf"), float("-inf"), "NaN", "Infinity", "-Infinity")


def on_disk(value: Any) -> Any:
    """With null for what is not finite, as the harness writes it (D17)."""
    if isinstance(value, dict):
        return {name: on_disk(item) for name, item in value.items()}
    return None if value != value or value in INFINITE else value


@pytest.mark.parametrize("name", REAL_RUNS)
def test_every_agent_of_a_trial_has_one_event_that_says_what_its_file_says(runs: Path, name: str) -> None:
    events, report = once(runs / name)
    files, run_file, left_out = REAL_RUNS[name]
    assert not report.unreadable + report.left_out + report.notes
    assert (report.duplicates, report.run_file_trials) == (0, run_file)
    said = report.remarks.get((name, LEFT_OUT))
    assert (said.trials if said else 0) == left_out
    assert len(trials_of(events)) == files + run_file
    own = list(own_results(runs / name))
    assert len(own) == files
    for directory, result, at in own:
        event = by_trial(events)[at]
        assert event["task_id"] == result["task_id"]
        assert event["trial_id"] == result["id"]
        assert event["failure_mode"] == result["failure_mode"]
        assert event.get("input_tokens") == result["total_input_tokens"]
        assert event.get("output_tokens") == result["total_output_tokens"]
        assert event["revision"] == (directory / "results.json").stat().st_mtime_ns
        assert label_of(event) == result["parser_extra_metrics"]["agent_model_key"]


@pytest.mark.parametrize("name", REAL_RUNS)
def test_raw_speedups_are_the_logs_with_and_without_the_log(runs: Path, name: str, tmp_path: Path) -> None:
    """The harness writes its fallback over them in every field but one; no event may show it."""
    bare = copy_of(runs / name, tmp_path, "panes")
    with_panes, without = by_trial(once(runs / name)[0]), by_trial(converted(bare)[0])
    measured = overwritten = 0
    for directory, result, at in own_results(runs / name):
        overwritten += '"fallback_to_baseline": true' in json.dumps(result)
        event = with_panes[at]
        if event["failure_mode"] == "test_timeout":
            assert not event.keys() & {"benchmarks", "tests", "snapshot"}
            continue
        raw = in_pane(directory, label_of(event))
        measured += raw is not None
        parsed = [event] if event["failure_mode"] == "parse_error" else [event, without[at]]
        for one in parsed:
            assert on_disk(one.get("benchmarks")) == on_disk(raw)
            assert "fallback_to_baseline" not in json.dumps(one)
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
    files, run_file, _ = REAL_RUNS[name]
    crashed = [e for e in trials_of(events) if e["failure_mode"] == "unknown_agent_error"]
    assert len(crashed) == run_file == report.run_file_trials
    assert {(e["agent"], e.get("agent_index")) for e in crashed} == {("terminus-2", index)}
    assert all(not e.keys() & {"resolved", "cost_usd", "input_tokens", "tests"} for e in crashed)
    assert len(trials_of(converted(runs / name, trial_files_only=True)[0])) == files


def test_the_plan_names_the_agents_and_the_baselines(runs: Path) -> None:
    events, _ = once(runs / "fc-two-attempts")
    plan = plan_of(events)
    assert plan["agent_models"] == ["nop:nop", "oracle:oracle", "openhands:anthropic/claude-opus-4-1"]
    assert plan["baselines"] == ["nop", "oracle"]
    assert (plan["attempts"], len(plan["tasks"]), plan["benchmark"]) == (2, 12, "formulacode")
    assert (plan["harness"], plan["run_id"]) == ("fc-eval", "fc-two-attempts")
    assert plan["started_at"] == "2026-03-11T12:00:14.246914+00:00"
    assert events[-1]["type"] == "run_finished"


def test_trial_names_say_the_agent_whatever_the_run_is_called() -> None:
    assert place("t", "t.1-of-1.r.agent--1-x", {"r"}).agent_index is None
    assert place("t", "t.1-of-1.my.agent-1-run.agent-2-nop", {"my.agent-1-run"})[2:] == (
        *("my.agent-1-run", 2, "nop"),
    )
    assert place("t", "t.3-of-5.other.agent-12-a.b.C", {"r"}) == ("t.3-of-5.other", 3, "other", 12, "a.b.C")
    assert place("t", "t", {"r"})[1:4] == (1, None, None)


# -----------------------------------------------------------------------------
# The log parser on what logs should not hold: it fails what is wrong, never raises, never dawdles.


GPT5 = "terminus-2:openai/gpt-5"


def a_log(**blocks: Any) -> str:
    """A log with these blocks, of the names `tests`, `result` and `snapshot`."""
    texts = {name.upper(): one if isinstance(one, str) else json.dumps(one) for name, one in blocks.items()}
    marked = (f"FORMULACODE_{name}_START\n{text}\nFORMULACODE_{name}_END\n" for name, text in texts.items())
    return "".join(["$ run\n", *marked])


def a_block(label: str = GPT5, **fields: Any) -> Event:
    """What a log has of a result."""
    by_agent = {label: {"m.f": {"agent/nop": 1.5, "oracle/nop": 2.0}}}
    block = {"last_agent": label, "agent_advantage": -0.5, "per_benchmark_speedups_by_agent": by_agent}
    return block | fields


def sections(text: str, label: str = GPT5, *others: str) -> dict[str, Any]:
    """Sections of a log, accepted by the event schema as they are."""
    result = sections_for(parse_log(text), Subject(label, others=others))
    EVENT.validate_json(orjson.dumps({"type": "trial_result", "run_id": "r", "task_id": "t", **result}))
    return result


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


def test_an_error_of_the_snapshot_comparison_fails_whatever_it_is() -> None:
    assert sections(a_log(snapshot={"error": None, "passed": 3}))["snapshot"]["status"] == "failed"


def test_counts_go_through_int_and_an_infinite_one_fails() -> None:
    odd = '{"passed": 1e30, "failed": 0.9, "error": "0", "skipped": null, "warnings": 7}'
    counts = {"passed": 2**53, "failed": 0, "error": 0, "skipped": 0}
    assert sections(a_log(tests=odd))["tests"] == {"status": "ok"} | counts
    assert sections(a_log(tests='{"passed": 1, "failed": Infinity}'))["tests"] == {"status": "unparsable"}


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
    block = a_block(per_benchmark_speedups_by_agent={GPT5: logged})
    assert sections(a_log(result=block))["benchmarks"] == {
        "nan": {"agent/nop": "NaN", "oracle/nop": "-Infinity"},
        "huge": {"agent/nop": 1e30, "oracle/nop": "-Infinity"},
        "half \ufffd name": "\ufffd",
        "deep": {"agent/nop": [[None]], "oracle/nop": {"a": {"b": None}}},
        "others": logged["others"],
    }


def test_flat_speedups_are_the_last_agents_and_count_only_where_the_harness_counts_them() -> None:
    """B11: beside something that is not an object; neither beside an object nor beside nothing."""
    flat = {"m.g": {"agent/nop": 3.0, "oracle/nop": 1.0}}
    for by_agent, expected in ((None, flat), ([1], flat), ({}, None)):
        text = a_log(result=a_block(per_benchmark_speedups_by_agent=by_agent, per_benchmark_speedups=flat))
        assert sections(text).get("benchmarks") == expected
        assert "benchmarks" not in sections(text, "oracle:oracle")


def test_claims_are_kept_only_where_there_are_no_speedups() -> None:
    claims = {"agent_advantage": "0.25", "agent_advantage_level1": float("nan"), "total_benchmarks": "x"}
    block = a_block(agent_advantages_by_agent={GPT5: claims})
    assert "claimed" not in sections(a_log(result=block))
    without = a_log(result=block | {"per_benchmark_speedups_by_agent": {}})
    expected = {"agent_advantage": 0.25, "agent_advantage_level1": "NaN", "total_benchmarks": 0}
    assert sections(without)["claimed"] == expected
    assert sections(without, "nop:nop").get("claimed") is None


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


BY_AGENT = '{"agent_advantage": 1, "per_benchmark_speedups_by_agent": {'
HOSTILE = {
    "starts without an end": ("", "FORMULACODE_RESULT_START", ""),
    "halves of markers": ("", "FORMULACODE_", ""),
    "line breaks": ("{", "\n", "}"),
    "digits": ('{"agent_advantage": 0.', "1", "}"),
    "open brackets": ("", "[", ""),
    "objects in objects": ("", '{"a":', ""),
    "backslashes": ('"', "\\", ""),
    "agents without speedups": (BY_AGENT.replace("1", "null"), '"#:m": 1, ', '"a:b": 1}}'),
    "agents": (BY_AGENT, '"#:m": {"f": {}}, ', '"a:b": 1}}'),
    "surrogates": (BY_AGENT + '"a:b": {"', "\\ud800", '": 1}}}'),
    "old entries": ("{", '"#": {"delta_pct": 1}, ', '"a": 1}'),
}
"""What stands at the start, what is repeated, # being its number, and what stands at the end."""

SMALL, LARGE = 2**17, 2**20
NOISE_SECONDS = 0.005


def hostile(name: str, size: int) -> str:
    """A log of this size, whose blocks hold the text, or which the markers alone are."""
    start, piece, end = HOSTILE[name]
    text = "".join(piece.replace("#", str(number)) for number in range(size // len(piece)))
    return text if "FORMULACODE" in piece else a_log(tests=text, result=start + text + end)


def seconds(text: str) -> float:
    """Processor time of a parse."""
    start = time.process_time()
    sections_for(parse_log(text), Subject(GPT5))
    return time.process_time() - start


@pytest.mark.parametrize("name", HOSTILE)
def test_eight_times_the_text_takes_nothing_like_64_times_the_time(name: str) -> None:
    small, large = (hostile(name, size) for size in (SMALL, LARGE))
    limit = 32 * max(NOISE_SECONDS, min(seconds(small) for _ in range(3)))
    assert any(seconds(large) < limit for _ in range(3)), limit


# -----------------------------------------------------------------------------
# R28: which agents a run-level file names, and what it says of each.


@pytest.mark.parametrize("name", SEVERAL_AGENTS)
def test_agents_and_plan_are_those_of_the_configuration(runs: Path, tmp_path: Path, name: str) -> None:
    """The core counts the planned agents of which no file says anything (R21)."""
    expected, result = (plan_of(events) for events in both(runs, name, tmp_path, *CONFIGURATION))
    for field in ("agent_models", "tasks", "attempts", "baselines", "started_at", "benchmark"):
        assert result[field] == expected[field]
    assert len(result["agent_models"]) == len(agents_of(runs / name))


@pytest.mark.parametrize("name", ONE_AGENT)
def test_without_a_configuration_results_name_the_agent(runs: Path, tmp_path: Path, name: str) -> None:
    beside, alone = (
        trials_of(converted(run_level_only(runs / name, tmp_path / place, *others))[0])
        for place, others in (("beside", CONFIGURATION), ("alone", ()))
    )
    assert alone == beside


def test_agents_without_a_directory_are_read_from_the_merged_result(runs: Path, tmp_path: Path) -> None:
    """Also where the run-level file is missing; the others stay what their own files say."""
    run = copy_of(runs / "fc-nop-oracle-gpt5", tmp_path)
    (run / "results.json").unlink()
    task = next(path.name for path in sorted(run.iterdir()) if path.is_dir())
    for directory in run.glob(f"{task}/*.agent-[23]-*"):
        shutil.rmtree(directory)
    whole, events = by_trial(once(runs / "fc-nop-oracle-gpt5")[0]), by_trial(converted(run)[0])
    assert events.keys() == whole.keys()
    assert {at for at in events if events[at] != whole[at]} == {(task, 1, 2), (task, 1, 3)}
    for at in ((task, 1, 2), (task, 1, 3)):
        assert [events[at].get(field) for field in ALWAYS] == [whole[at].get(field) for field in ALWAYS]
        assert events[at]["tests"]["status"] == whole[at]["tests"]["status"]


def test_a_run_level_file_elsewhere_changes_nothing_in_the_trials(runs: Path, tmp_path: Path) -> None:
    """A copy of the run-level file, written later, says less: its results are left out."""
    run = copy_of(runs / "fc-nop-oracle-gpt5", tmp_path)
    expected = trials_of(converted(run)[0])
    shutil.copyfile(run / "results.json", tmp_path / "fc-nop-oracle-gpt5_results.json")
    assert trials_of(converted(tmp_path)[0]) == expected


@pytest.mark.parametrize(
    "spoilt",
    [
        *(
            {"agent_metrics_by_agent": metrics}
            for metrics in (
                [1],
                {"nop:nop": 5, "oracle:oracle": {}},
                {"nop:nop": {"pytest_summary": 1, "snapshot_summary": {"passed": "x"}}},
                {"nop:nop": {"pytest_summary": {"passed": 1e999, "failed": "no"}}},
            )
        ),
        {"improvements_dict": [1]},
        {"improvements_dict": {"per_benchmark_speedups_by_agent": 5, "last_agent": []}},
        {"task_speedup": "x", "improvements_dict": {"per_benchmark_speedups": {"f": {"agent/nop": 1e999}}}},
    ],
)
def test_wrong_types_in_a_merged_result_are_left_out(runs: Path, tmp_path: Path, spoilt: Event) -> None:
    run = run_level_only(runs / "fc-nop-oracle-gpt5", tmp_path, *CONFIGURATION)
    results = json.loads((run / "results.json").read_bytes())["results"]
    for result in results:
        result["parser_extra_metrics"] |= spoilt
    edit_json(run / "results.json", results=results)
    assert {e["agent"] for e in trials_of(converted(run)[0])} <= {"nop", "oracle", "terminus-2"}


def test_a_lone_agent_is_not_charged_with_the_trials_crash(runs: Path, tmp_path: Path) -> None:
    """Without a configuration, and with one sub-trial written so far."""
    run = run_level_only(runs / "fc-rough", tmp_path)
    results = json.loads((run / "results.json").read_bytes())["results"]
    crashes = [result for result in results if result["parser_extra_metrics"] is None]
    edit_json(run / "results.json", results=crashes)
    (sub_trial,) = (runs / "fc-rough" / "astropy_astropy_rou1").glob("*.agent-1-nop")
    shutil.copytree(sub_trial, run / "astropy_astropy_rou1" / sub_trial.name)
    events, report = converted(run)
    assert [(e["agent"], e["failure_mode"]) for e in trials_of(events)] == [("nop", "unset")]
    (remarks,) = report.remarks.values()
    assert "unknown_agent_error" in str(remarks)


@pytest.mark.parametrize(
    ("logged", "expected"),
    [
        (["t:a-0807"], []),
        (["t:a-0807", "t:b-0901"], [2]),
        (["agent-1-t:m-a"], [1]),
        (["agent-1-t:m-a", "agent-2-t:b-0901"], [1, 2]),
    ],
)
def test_a_key_that_two_agents_would_take_is_neithers(
    tmp_path: Path, logged: list[str], expected: list[int]
) -> None:
    """R7: two models of one framework, whose logs name models that the configuration does not have."""
    agents = [{"agent_name": "t", "model_name": model} for model in ("m/a", "m/b")]
    entry = {"pytest_summary": {"passed": 1, "status": "passed"}, "snapshot_summary": {"status": "passed"}}
    by_agent = dict.fromkeys(logged, SPEEDUPS)
    metrics = {
        "improvements_dict": {"last_agent": logged[-1], "per_benchmark_speedups_by_agent": by_agent},
        "agent_metrics_by_agent": dict.fromkeys(
            logged if "t:a-0807" in logged else ["t:m/a", "t:m/b"], entry
        ),
    }
    result = {"task_id": "t1", "trial_name": "t1.1-of-1.run1.agent-2-t", "parser_extra_metrics": metrics}
    run = tmp_path / "run1"
    write_json(run / "fc.lock", {"run_spec": {"agent_mode": "multi", "agents": agents}})
    write_json(run / "results.json", {"results": [result], "n_resolved": 0})
    stored = {event["agent_index"]: event.get("benchmarks") for event in trials_of(converted(run)[0])}
    assert {index: one for index, one in stored.items() if one} == dict.fromkeys(expected, SPEEDUPS)


# -----------------------------------------------------------------------------
# Run directories with missing, half-written or broken files: what can be read is read.


@pytest.fixture
def rough(runs: Path, tmp_path: Path) -> Path:
    """A copy of the run with four agents, to spoil."""
    return copy_of(runs / "fc-rough", tmp_path)


@pytest.mark.parametrize("configuration", [CONFIGURATION, ()], ids=["lost", "there"])
def test_a_renamed_run_keeps_its_trials_without_a_lock(rough: Path, configuration: tuple[str, ...]) -> None:
    """Agents are those that the sub-trials name where no lock does."""
    whole = by_trial(converted(rough)[0])
    renamed = rough.rename(rough.parent / "rough-copy")
    for name in configuration:
        (renamed / name).unlink()
    events, report = converted(renamed)
    assert (report.runs, report.unreadable) == (["rough-copy"], [])
    assert by_trial(events) == {at: event | {"run_id": "rough-copy"} for at, event in whole.items()}


def test_r35_trials_that_the_run_counts_are_trials_of_all_agents(rough: Path) -> None:
    assert converted(rough)[1].notes == []
    task = min(path for path in rough.iterdir() if path.is_dir())
    shutil.rmtree(task)
    results = json.loads((rough / "results.json").read_bytes())["results"]
    kept = [result for result in results if result["task_id"] != task.name]
    edit_json(rough / "results.json", results=kept)
    events, report = converted(rough)
    said = f"{len(results)} trials with a result announced, {len(kept)} found"
    assert (report.notes, events[-1]["status"]) == ([f"run fc-rough: {said}"], "interrupted")


@pytest.mark.parametrize("name", ["fc-single-nop", "fc-two-attempts"])
def test_r35_a_verdict_unlike_the_runs_is_said_and_counts(runs: Path, tmp_path: Path, name: str) -> None:
    copy = copy_of(runs / name, tmp_path)
    results = json.loads((copy / "results.json").read_bytes())["results"]
    results[0]["is_resolved"] = not results[0]["is_resolved"]
    before = {at: trial.get("resolved") for at, trial in by_trial(converted(copy)[0]).items()}
    edit_json(copy / "results.json", results=results)
    events, report = converted(copy)
    (said,) = [str(remarks) for remarks in report.remarks.values() if OTHER_VERDICT in remarks.what]
    assert f"1 trial {OTHER_VERDICT}: {results[0]['task_id']}." in said
    assert {at: trial.get("resolved") for at, trial in by_trial(events).items()} == before


def test_a_run_with_the_old_lock_is_recognised_by_the_package_that_wrote_it(rough: Path) -> None:
    whole, _ = converted(rough)
    (rough / "fc.lock").rename(rough / "tb.lock")
    assert converted(rough)[0] == whole


def test_a_sub_trial_that_is_being_written_is_reported_and_nothing_replaces_it(rough: Path) -> None:
    directory = next(path for path in sorted(trial_directories(rough)) if ".agent-3-" in path.name)
    file = directory / "results.json"
    file.write_bytes(file.read_bytes()[:700])
    events, report = converted(rough)
    assert len(trials_of(events)) == 75
    ((path, reason),) = report.unreadable
    assert path == file
    assert "still being written" in reason


def test_a_trial_that_goes_on_gives_the_sub_trials_it_has(rough: Path) -> None:
    for file in (rough / "results.json", *rough.glob("astropy_astropy_rou19/*/results.json")):
        if ".agent-1-" not in file.parent.name:
            file.unlink()
    own = [e for e in trials_of(converted(rough)[0]) if e["task_id"] == "astropy_astropy_rou19"]
    assert [(e["agent"], e["agent_index"]) for e in own] == [("nop", 1)]


def test_wrong_types_leave_out_their_field_and_nothing_else(rough: Path) -> None:
    file = sorted(trial_directories(rough))[0] / "results.json"
    result, whole = json.loads(file.read_bytes()), len(trials_of(converted(rough)[0]))
    metrics = {"improvements_dict": [1], "tests_dict": "x", "snapshot_dict": 3, "trajectory_length": "many"}
    for spoilt in (
        {"total_input_tokens": "ten", "is_resolved": "yes", "parser_extra_metrics": {**metrics, "tests": 1}},
        {"parser_extra_metrics": 5, "failure_mode": 3, "trial_started_at": []},
        {"trial_name": {}, "id": None, "total_cost": -1, "parser_extra_metrics": {"agent_model_key": 5}},
    ):
        write_json(file, result | spoilt)
        events, report = converted(rough)
        assert len(trials_of(events)) == whole
        assert {path for path, _, _ in report.left_out} <= {file}
    write_json(file, result | {"task_id": None})
    events, report = converted(rough)
    assert len(trials_of(events)) == whole - 1
    assert [path for path, _ in report.unreadable] == [file]


@pytest.mark.parametrize("content", ["", "[]", "{", '{"results": 5}', '{"results": [5, {"task_id": []}]}'])
def test_a_broken_run_level_file_is_reported_and_the_trials_stay(rough: Path, content: str) -> None:
    write_json(rough / "results.json", content)
    events, report = converted(rough)
    assert len(trials_of(events)) == 76
    assert {path for path, _ in report.unreadable} == {rough / "results.json"}


@pytest.mark.parametrize("content", ["", "[]", '{"run_spec": 5}', '{"run_spec": {"agents": [5, null]}}'])
def test_a_broken_lock_leaves_the_agents_that_the_results_name(rough: Path, content: str) -> None:
    write_json(rough / "fc.lock", content)
    measured = trials_of(converted(rough)[0])
    assert len(measured) == 76
    models = ("terminus-2:openai/gpt-5", "terminus-2:openai/gpt-5-2025-08-07")
    assert {label_of(e) for e in measured} == {"nop:nop", "oracle:oracle", *models}


def test_r34_agents_with_one_name_and_model_are_said(tmp_path: Path) -> None:
    agents = [{"agent_name": name, "model_name": "m"} for name in ("nop", "t", "t")]
    write_json(tmp_path / "run1" / "fc.lock", {"run_spec": {"agent_mode": "multi", "agents": agents}})
    said = "run run1: 2 of its agents are t:m; in each trial, one result replaces the others"
    assert converted(tmp_path / "run1")[1].notes == [said]


# -----------------------------------------------------------------------------
# R7 on run directories: logs with the configuration's keys and logs with the container's say the same.


NOT_AMONG = "with speedups in the log but none of their own agent's, so they count without any"
GPT, QWEN = ConfiguredAgent("terminus-2", "openai/gpt-5"), ConfiguredAgent("terminus-2", "fireworks/qwen3")


def measured(events: list[Event]) -> int:
    return sum("benchmarks" in event for event in trials_of(events))


@pytest.mark.parametrize(
    ("name", "with_position"),
    [
        *((name, True) for name in REAL_RUNS),
        *((name, False) for name in ("fc-no-oracle-same-framework", "fc-nop-oracle-gpt5", "fc-rough")),
    ],
)
def test_a_run_in_the_containers_spelling_says_the_same(
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
def test_a_run_level_file_in_container_spelling_says_the_same(runs: Path, tmp_path: Path, name: str) -> None:
    """Where no agent's entry was written over: the harness would not write over it with these keys."""
    copy = rekeyed(runs / name, tmp_path / "container", container_keys(runs / name))
    expected, result = (
        converted(run_level_only(run, tmp_path / folder, "fc.lock"))[0]
        for run, folder in ((runs / name, "a"), (copy, "b"))
    )
    assert measured(expected) > 0
    assert result == expected


def a_run_of_two_models(folder: Path, own: Mapping[ConfiguredAgent, Any], tasks: int = 1) -> Path:
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


@pytest.mark.parametrize(
    "key",
    [QWEN.key, container_key(2, QWEN), f"{QWEN.label}:{spelled_for_files(QWEN.model or '')}"],
    ids=["configured", "container", "no position"],
)
def test_a_crashed_model_never_gets_the_numbers_of_the_other_model(tmp_path: Path, key: str) -> None:
    """The first model left nothing; in its log the other's entry is the only one, and the last agent's."""
    by_agent = {key: SPEEDUPS}
    run = a_run_of_two_models(tmp_path, {GPT: by_agent, QWEN: by_agent})
    events, report = converted(run)
    said = [(trial["model"], trial.get("benchmarks")) for trial in trials_of(events)]
    assert said == [(GPT.model, None), (QWEN.model, SPEEDUPS)]
    (remarks,) = report.remarks.values()
    assert str(remarks) == f"run run1: 1 trial {NOT_AMONG}: {GPT.key!r} is not among {key!r}"


def test_convert_says_once_a_run_which_keys_were_there(tmp_path: Path) -> None:
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


def test_tail_says_once_a_run_which_keys_were_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
        assert model != "Oracle" or trials_of(events) == trials_of(required)


# -----------------------------------------------------------------------------
# Runs of a single agent, made by hand: index, speedups, and what a broken file leaves.


FALLEN_BACK = {"m.f": {"agent/nop": 1.0, "oracle/nop": 3.0, "fallback_to_baseline": True}}
CLAIM = {"agent_advantage": 0.0}


def a_single_run(folder: Path, speedups: Any = None, improvements: Any = None, **fields: Any) -> Path:
    """A run of one trial with what the harness keeps of its log, such as the speedups of its agent."""
    by_agent = {} if speedups is None else {"per_benchmark_speedups_by_agent": {GPT5: speedups}}
    metrics = {
        "improvements_dict": by_agent | (improvements or {}),
        "tests": "failed",
        "tests_dict": {"passed": 1, "failed": 2, "error": 0},
        "snapshot_status": "passed",
        "snapshot_dict": {"pass-to-fail": 0, "failed": 7},
    }
    run = a_run(folder / "run1", [a_result("t", is_resolved=False, parser_extra_metrics=metrics | fields)])
    agent = {"name": "terminus-2", "model_name": "openai/gpt-5"}
    write_json(run / "fc.lock", {"agent": agent, "run_spec": {"agent_mode": "single"}})
    return run


def log(run: Path, speedups: Any, **improvements: Any) -> None:
    """Write the trial's log, which has the speedups of its agent."""
    block = json.dumps({**improvements, "per_benchmark_speedups_by_agent": {GPT5: speedups}})
    pane = run / "t" / "t.1-of-1.run1" / "panes" / "post-test.txt"
    write_json(pane, f"FORMULACODE_RESULT_START\n{block}\nFORMULACODE_RESULT_END\n")


def test_a_single_agent_trial_has_no_index(tmp_path: Path) -> None:
    event = the_trial(a_single_run(tmp_path, SPEEDUPS))
    assert "agent_index" not in event
    assert event["benchmarks"] == SPEEDUPS
    assert event["tests"] == {"status": "failed", "passed": 1, "failed": 2, "error": 0}
    assert event["snapshot"] == {"status": "passed", "pass_to_fail": 0.0, "failed": 7}


def test_fallen_back_speedups_are_replaced_by_the_logs_or_flat_ones_or_left_out(tmp_path: Path) -> None:
    run = a_single_run(tmp_path / "a", FALLEN_BACK, {"last_agent": GPT5})
    assert "benchmarks" not in the_trial(run)
    assert "left out" in converted(run)[1].unreadable[0][1]
    for last_agent, expected in ((GPT5, SPEEDUPS), ("nop:nop", None)):
        flat = {"last_agent": last_agent, "per_benchmark_speedups": SPEEDUPS}
        with_flat = a_single_run(tmp_path / last_agent.partition(":")[0], FALLEN_BACK, flat)
        assert the_trial(with_flat).get("benchmarks") == expected
    log(run, {"m.f": {"agent/nop": 5.0}})
    assert the_trial(run)["benchmarks"] == {"m.f": {"agent/nop": 5.0}}


def test_benchmarks_too_large_for_a_record_keep_their_ratios(tmp_path: Path) -> None:
    ratios = {"agent/nop": 2.0, "oracle/nop": 1.0}
    many = {f"m.f{number}": ratios | {"samples": [0.123456789] * 40} for number in range(3_000)}
    benchmarks = the_trial(a_single_run(tmp_path, many))["benchmarks"]
    assert (len(benchmarks), benchmarks["m.f7"]) == (3_000, ratios)


def test_a_trial_whose_own_file_is_broken_is_taken_from_the_run_level_file(tmp_path: Path) -> None:
    run = a_single_run(tmp_path, SPEEDUPS)
    file = run / "t" / "t.1-of-1.run1" / "results.json"
    write_json(run / "results.json", {"n_resolved": 0, "results": [json.loads(file.read_bytes())]})
    write_json(file, "{")
    events, report = converted(run)
    assert [event["benchmarks"] for event in trials_of(events)] == [SPEEDUPS]
    assert [path for path, _ in report.unreadable] == [file]


@pytest.mark.parametrize("name", ["tests", "snapshot"])
def test_a_block_that_the_harness_could_not_read_fails_as_in_the_log(tmp_path: Path, name: str) -> None:
    """R5: the harness keeps a note in the place of a block that is no JSON."""
    note = {"error": "failed to parse JSON", "exception": "Expecting value: line 1 column 62 (char 61)"}
    run = a_single_run(tmp_path, improvements=CLAIM, **{f"{name}_dict": note})
    assert the_trial(run)[name] == {"status": "unparsable"}


def test_a_null_that_was_nan_when_the_harness_judged_it_passes_the_snapshot(tmp_path: Path) -> None:
    """B6, D17: NaN is not above 0, and JSON keeps it as null. The harness stumbles over a null (B4)."""
    run = a_single_run(tmp_path, improvements=CLAIM, snapshot_dict={"pass-to-fail": None, "failed": 1})
    assert the_trial(run)["snapshot"] == {"status": "passed", "pass_to_fail": 0.0, "failed": 1}


def test_null_oracle_values_are_looked_up_in_the_log(tmp_path: Path) -> None:
    """A2, D17, R22: one that was NaN is invalid. Where all are missing the agent's own values count."""
    entry, claims = {"agent/nop": 2.0, "oracle/nop": None}, {"last_agent": GPT5} | CLAIM
    run = a_single_run(tmp_path, {"m.f": entry}, claims)
    assert the_trial(run)["benchmarks"] == {"m.f": entry}
    log(run, {"m.f": entry | {"oracle/nop": float("nan")}}, **claims)
    assert the_trial(run)["benchmarks"] == {"m.f": entry | {"oracle/nop": "NaN"}}
    for of_another_try in ({}, {"m.f": {"agent/nop": 5.0, "oracle/nop": 1.5}}, {"m.g": {"agent/nop": 2.0}}):
        log(run, of_another_try, **claims)
        assert the_trial(run)["benchmarks"] == {"m.f": entry}
