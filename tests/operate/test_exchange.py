"""Runs in the formats of others: read back by our own connector, and by the packages that own the formats."""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from streamer.folding.fold import fold_records
from streamer.operate.exchange import junit, write_files
from streamer.operate.rows import NotOurs, RunRows, file_name, rows_folded
from streamer.schemas.wire import records_of_lines
from tests.operate.test_dataset import lines
from tests.sources.builders import converted
from tests.sources.every_eval_ever.test_every_eval_ever_peer import EVERY_EVAL_EVER
from tests.sources.inspect.running import INSPECT
from tests.support.cli import streamer
from tests.support.events import Event, a_plan, a_trial
from tests.support.peers import newer_python, peer_environment, run_in_peer


def every(events: Iterable[Event]) -> list[RunRows]:
    folding = fold_records(records_of_lines(lines(events)))
    return list(rows_folded(folding, lambda failure: pytest.fail(failure.reason)))


def rows(events: Iterable[Event]) -> RunRows:
    [one] = every(events)
    return one


METRICS = {"steps": {"direction": "lower", "unit": "steps", "label": "steps taken"}}
BOTH = [
    a_plan(benchmark="tb", benchmark_version="2", tasks=4, attempts=2, harness="own", metrics=METRICS),
    *(
        a_trial(
            task_id=f"t{task}",
            attempt=attempt,
            agent=agent,
            model="openai/gpt-5",
            resolved=(task + attempt) % 3 > 0 if agent == "a" else task == 3,
            input_tokens=100 * task,
            output_tokens=10,
            metrics={"steps": float(task + attempt)},
            failure_mode="agent_timeout" if agent == "b" and task == 0 else "unset",
        )
        for agent in "ab"
        for task in range(4)
        for attempt in (1, 2)
    ),
    {"type": "run_finished", "run_id": "run-1"},
]


def test_every_eval_ever_keeps_verdicts_attempts_tokens_and_metrics_of_each_agent(tmp_path: Path) -> None:
    run = rows(BOTH)
    assert write_files(tmp_path, [run], "every-eval-ever") == 4
    events, said = converted(tmp_path)
    assert not said.unreadable + said.left_out
    back = {one.run.run_id: one for one in every(events)}
    assert len(back) == 2
    for agent in run.rows["agents"]:
        [other] = back[f"run-1/{agent['agent_model']}"].rows["agents"]
        assert (other["trials"], other["tasks"]) == (8, 4)
        assert (other["resolved"], other["accuracy"]) == (agent["resolved"], agent["accuracy"])
        assert other["tokens"]["input"] == agent["tokens"]["input"]
        assert other["pass_at_k"]["2"]["value"] == agent["pass_at_k"]["2"]["value"]
        steps, original = other["metrics"]["score/steps"], agent["metrics"]["steps"]
        for name in ("mean", "median", "std_dev", "standard_error", "low", "high", "unit", "direction"):
            assert steps[name] == original[name], name


def test_every_eval_ever_names_the_product_s_version_and_has_the_interval_of_the_summary(
    tmp_path: Path,
) -> None:
    run = rows(BOTH)
    write_files(tmp_path, [run], "every-eval-ever")
    files = [json.loads(file.read_text()) for file in tmp_path.rglob("*.json")]
    said = {file["eval_library"]["additional_details"]["streamer"] for file in files}
    assert said == {version("trialstream")}
    [agent] = [one for one in run.rows["agents"] if one["agent"] == "a"]
    [whole] = [file for file in files if file["model_info"]["additional_details"]["agent"] == "a"]
    [of_rate] = [one for one in whole["evaluation_results"] if one["evaluation_result_id"] == "pass_rate"]
    details = of_rate["score_details"]
    ends = details["uncertainty"]["confidence_interval"]
    rate = agent["statistics"]["pass_rate"]
    assert (details["score"], ends["lower"], ends["upper"]) == (rate["mean"], rate["low"], rate["high"])


def test_a_trial_without_a_verdict_is_a_failure_in_both(tmp_path: Path) -> None:  # R19
    run = rows([a_trial(task_id="a"), a_trial(task_id="b", resolved=None, failure_mode="error")])
    write_files(tmp_path, [run], "every-eval-ever")
    [summary] = rows(converted(tmp_path)[0]).rows["agents"]
    assert summary["accuracy"] == run.rows["agents"][0]["accuracy"] == 0.5


def test_a_metric_without_a_unit_gets_none(tmp_path: Path) -> None:
    metrics = {"seconds": {"unit": "s"}, "score": {"direction": "higher"}}
    run = rows([a_plan(metrics=metrics), a_trial(metrics={"seconds": 2.0, "score": 0.5, "other": 1.0})])
    write_files(tmp_path, [run], "every-eval-ever")
    [whole] = [json.loads(file.read_text()) for file in tmp_path.rglob("*.json")]
    configs = {one["evaluation_result_id"]: one["metric_config"] for one in whole["evaluation_results"]}
    units = {name: config.get("metric_unit") for name, config in configs.items()}
    assert units == {"pass_rate": "proportion", "seconds": "s", "score": None, "other": None}


HOSTILE = "<script>alert(1)</script> ]]> \x00\x1b[31m\ud800 &amp;"


def test_a_case_is_a_task_and_a_flaky_one_is_no_failure() -> None:
    tasks = ["flaky", "fails", "breaks", "lost", "unknown", "missing", "passes"]
    broken = {"harness": "harbor", "failure_mode": "EnvironmentStartTimeoutError"}
    events = [
        a_plan(tasks=tasks, agent_models=["terminus:gpt-5"]),
        a_trial(task_id="passes", duration_seconds=2.5),
        a_trial(task_id="flaky", attempt=1, resolved=False),
        a_trial(task_id="flaky", attempt=2),
        a_trial(task_id="fails", resolved=False, message=HOSTILE.replace("\ud800", "")),
        a_trial(task_id="breaks", resolved=False, **broken),
        a_trial(task_id="lost", resolved=None, **broken),
        a_trial(task_id="unknown", resolved=None),
    ]
    suite = Xml.fromstring(junit(rows(events)))[0]
    said = {case.get("name"): [child.tag for child in case] for case in suite}
    assert said == {
        "breaks": ["error"],
        "fails": ["failure"],
        "flaky": ["system-out"],
        "lost": ["error"],
        "missing": ["skipped"],
        "passes": [],
        "unknown": ["skipped"],
    }
    counts = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "7", "failures": "1", "errors": "2", "skipped": "2"}
    [failure] = suite.iter("failure")
    assert failure.text == "<script>alert(1)</script> ]]> \\x00\\x1b[31m &amp;"
    times = {case.get("name"): case.get("time") for case in suite}
    assert times == dict.fromkeys(tasks) | {"passes": "2.500"}  # unknown is not 0 (R1)


def test_the_command_writes_a_file_for_each_run_that_fits(tmp_path: Path) -> None:
    file, out = tmp_path / "events.ndjson", tmp_path / "out"
    file.write_bytes(b"\n".join(lines([a_trial(run_id="../a"), a_trial(run_id="b")])))
    done = streamer("export", out, "--from", file, "--format", "junit", "--runs", "*a")
    assert (done.returncode, done.stdout) == (0, f"1 file written: {out}\n".encode())
    assert [one.name for one in out.glob("*.xml")] == [f"{file_name('../a')}.xml"]


@pytest.mark.parametrize(("results", "tags"), [("++++++", []), ("------", ["failure"]), ("---", ["skipped"])])
def test_the_verdict_of_a_gate_is_a_case(tmp_path: Path, results: str, tags: list[str]) -> None:
    old = [a_trial(run_id="old", task_id=f"t{n}") for n in range(6)]
    new = [a_trial(run_id="new", task_id=f"t{n}", resolved=one == "+") for n, one in enumerate(results)]
    plan = a_plan(run_id="new", tasks=[f"t{n}" for n in range(6)], attempts=1)
    for name, events in (("old", [*old, {"type": "run_finished", "run_id": "old"}]), ("new", [plan, *new])):
        (tmp_path / f"{name}.ndjson").write_bytes(b"\n".join(lines(events)))
    sides = tmp_path / "new.ndjson", "--against", tmp_path / "old.ndjson"
    streamer("gate", *sides, "--max-drop", "0.6", "--junit", tmp_path / "gate.xml")
    [case] = Xml.parse(tmp_path / "gate.xml").iter("testcase")
    assert (case.get("name"), [child.tag for child in case]) == ("new against old", tags)
    assert all("pairs" in (child.text or "") for child in case), "the reasons"


def test_runs_and_agents_with_similar_names_have_files_of_their_own(tmp_path: Path) -> None:
    ids = ["x" * 100 + "1", "x" * 100 + "2", "data", "data_", "a", "a/b"]
    agents = {"a": "b/c", "a/b": "c"}
    runs = every(a_trial(run_id=run, agent=agents.get(run, "z")) for run in ids)
    assert write_files(tmp_path / "junit", runs, "junit") == len(list((tmp_path / "junit").glob("*.xml")))
    assert write_files(tmp_path / "records", runs, "every-eval-ever") == 2 * len(ids)
    assert len(list((tmp_path / "records").rglob("*.json"))) == len(ids)


def test_files_of_others_are_not_touched(tmp_path: Path) -> None:
    (tmp_path / "pom.xml").write_text("mine")
    with pytest.raises(NotOurs):
        write_files(tmp_path, every([a_trial(run_id="pom")]), "junit")
    assert (tmp_path / "pom.xml").read_text() == "mine"


def test_cases_of_a_tier_and_of_a_task_with_its_name_are_two() -> None:
    events = [a_trial(task_id="T1 / y", resolved=False), a_trial(task_id="y", tier="T1")]
    suite = Xml.fromstring(junit(rows(events)))[0]
    assert sorted((case.get("name"), [child.tag for child in case]) for case in suite) == [
        ("T1 / y", []),
        ("T1 / y", ["failure"]),
    ]


def test_a_planned_agent_is_there_before_its_first_result() -> None:
    plan = a_plan(tasks=["t"], agent_models=["terminus:gpt-5", "later:m"])
    suites = {
        suite.get("name"): suite.get("skipped")
        for suite in Xml.fromstring(junit(rows([plan, a_trial(task_id="t")])))
    }
    assert suites == {"later:m": "1", "terminus:gpt-5": "0"}


def test_a_metric_named_as_the_verdicts_is_a_result_of_its_own(tmp_path: Path) -> None:
    write_files(tmp_path, every([a_trial(metrics={"pass_rate": 0.3})]), "every-eval-ever")
    [samples] = tmp_path.rglob("*.jsonl")
    said = {
        row["evaluation_result_id"]: row["evaluation"]
        for row in map(json.loads, samples.read_text().splitlines())
    }
    assert said["pass_rate"] == {"score": 1.0, "is_correct": True}
    assert said["metric:pass_rate"] == {"score": 0.3, "is_correct": False}


READING = """
import sys
from junitparser import JUnitXml
suites = JUnitXml.fromfile(sys.argv[1])
print(suites.tests, suites.failures, suites.errors, suites.skipped)
"""


@pytest.mark.peer
def test_the_owners_of_the_formats_accept_the_files(tmp_path: Path) -> None:
    write_files(tmp_path, [rows(BOTH)], "every-eval-ever")
    write_files(tmp_path, [rows(BOTH)], "junit")
    peer = peer_environment(INSPECT, with_base=False, python=newer_python(12), alone=(EVERY_EVAL_EVER,))
    files = [file.relative_to(tmp_path) for file in tmp_path.glob("data/*/*/*/*")]
    done = run_in_peer(peer, "every_eval_ever", "validate", *files, cwd=tmp_path)
    assert "4 passed, 0 warning-only, 0 failed" in done.stdout
    reader = peer_environment("junitparser==5.0.3", with_base=False)
    done = run_in_peer(reader, "python", "-c", READING, "run-1.xml", cwd=tmp_path)
    assert done.stdout == "8 3 0 0\n"
