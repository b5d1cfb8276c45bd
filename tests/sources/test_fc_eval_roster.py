"""R28: which agents a run-level file names, and what it says of each."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.sources.builders import Event, converted, plan_of, trials_of, write_json
from tests.sources.fc_eval_run_level import ALWAYS, CONFIGURATION, ONE_AGENT, SEVERAL_AGENTS, both, by_agent
from tests.sources.fc_eval_runs import agents_of, run_level_only


@pytest.mark.parametrize("name", SEVERAL_AGENTS)
def test_agents_and_plan_are_those_of_the_configuration(runs: Path, tmp_path: Path, name: str) -> None:
    """The core counts the planned agents of which no file says anything (R21)."""
    wanted, found = (plan_of(events) for events in both(runs, name, tmp_path, *CONFIGURATION))
    for field in ("agent_models", "tasks", "attempts", "baselines", "started_at", "benchmark"):
        assert found[field] == wanted[field]
    assert len(found["agent_models"]) == len(agents_of(runs / name))


@pytest.mark.parametrize("name", ONE_AGENT)
def test_without_a_configuration_the_results_name_the_agent_of_those_that_name_none(
    runs: Path, tmp_path: Path, name: str
) -> None:
    beside, alone = (
        trials_of(converted(run_level_only(runs / name, tmp_path / place, *others))[0])
        for place, others in (("beside", CONFIGURATION), ("alone", ()))
    )
    assert alone == beside


def test_agents_without_a_directory_are_read_from_the_merged_result_beside(
    runs: Path, tmp_path: Path
) -> None:
    """Also where the run-level file is missing; the others stay what their own files say."""
    run = Path(shutil.copytree(runs / "fc-nop-oracle-gpt5", tmp_path / "fc-nop-oracle-gpt5"))
    (run / "results.json").unlink()
    task = next(path.name for path in sorted(run.iterdir()) if path.is_dir())
    for directory in run.glob(f"{task}/*.agent-[23]-*"):
        shutil.rmtree(directory)
    whole, events = by_agent(converted(runs / "fc-nop-oracle-gpt5")[0]), by_agent(converted(run)[0])
    assert events.keys() == whole.keys()
    changed = {place for place in events if events[place] != whole[place]}
    assert changed == {(task, 1, 2), (task, 1, 3)}
    for place in changed:
        assert [events[place].get(field) for field in ALWAYS] == [whole[place].get(field) for field in ALWAYS]
        assert events[place]["tests"]["status"] == whole[place]["tests"]["status"]


def test_a_run_level_file_elsewhere_changes_nothing_of_what_the_trial_files_say(
    runs: Path, tmp_path: Path
) -> None:
    """A copy of the run-level file, written later, says less: its results are left out."""
    run = Path(shutil.copytree(runs / "fc-nop-oracle-gpt5", tmp_path / "fc-nop-oracle-gpt5"))
    wanted = trials_of(converted(run)[0])
    shutil.copyfile(run / "results.json", tmp_path / "fc-nop-oracle-gpt5_results.json")
    assert trials_of(converted(tmp_path)[0]) == wanted


@pytest.mark.parametrize(
    "spoilt",
    [
        {"agent_metrics_by_agent": [1]},
        {"agent_metrics_by_agent": {"nop:nop": 5, "oracle:oracle": {}}},
        {"agent_metrics_by_agent": {"nop:nop": {"pytest_summary": 1, "snapshot_summary": {"passed": "x"}}}},
        {"agent_metrics_by_agent": {"nop:nop": {"pytest_summary": {"passed": 1e999, "failed": "no"}}}},
        {"improvements_dict": [1]},
        {"improvements_dict": {"per_benchmark_speedups_by_agent": 5, "last_agent": []}},
        {"task_speedup": "x", "improvements_dict": {"per_benchmark_speedups": {"f": {"agent/nop": 1e999}}}},
    ],
)
def test_wrong_types_in_a_merged_result_leave_out_what_they_are_about(
    runs: Path, tmp_path: Path, spoilt: Event
) -> None:
    run = run_level_only(runs / "fc-nop-oracle-gpt5", tmp_path, *CONFIGURATION)
    content = json.loads((run / "results.json").read_bytes())
    for result in content["results"]:
        result["parser_extra_metrics"] |= spoilt
    (run / "results.json").write_text(json.dumps(content))
    events, _ = converted(run)
    assert {e["agent"] for e in trials_of(events)} <= {"nop", "oracle", "terminus-2"}


def test_a_lone_agent_whose_fellows_are_not_known_yet_is_not_charged_with_the_trials_crash(
    runs: Path, tmp_path: Path
) -> None:
    """Without a configuration, and with one sub-trial written so far."""
    run = run_level_only(runs / "fc-rough", tmp_path)
    content = json.loads((run / "results.json").read_bytes())
    crashes = [result for result in content["results"] if result["parser_extra_metrics"] is None]
    (run / "results.json").write_text(json.dumps(content | {"results": crashes}))
    (sub_trial,) = (runs / "fc-rough" / "astropy_astropy_rou1").glob("*.agent-1-nop")
    shutil.copytree(sub_trial, run / "astropy_astropy_rou1" / sub_trial.name)
    events, report = converted(run)
    assert [(e["agent"], e["failure_mode"]) for e in trials_of(events)] == [("nop", "unset")]
    (remarks,) = report.remarks.values()
    assert "unknown_agent_error" in str(remarks)


DATED = {"m.f": {"agent/nop": 2.0, "oracle/nop": 3.0}}


@pytest.mark.parametrize(
    ("logged", "last_agent", "expected"),
    [
        ({"t:a-0807": DATED}, "t:a-0807", {}),
        ({"t:a-0807": DATED, "t:b-0901": DATED}, "t:b-0901", {2: DATED}),
        ({"agent-1-t:m-a": DATED}, "agent-1-t:m-a", {1: DATED}),
        ({"agent-1-t:m-a": DATED, "agent-2-t:b-0901": DATED}, "agent-2-t:b-0901", {1: DATED, 2: DATED}),
    ],
)
def test_in_merged_logs_a_key_that_two_agents_would_take_is_neithers(
    tmp_path: Path, logged: Event, last_agent: str, expected: Mapping[int, Event]
) -> None:
    """R7: two models of one framework, whose logs name models that the configuration does not have."""
    agents = [{"agent_name": "t", "model_name": model} for model in ("m/a", "m/b")]
    entry = {"pytest_summary": {"passed": 1, "status": "passed"}, "snapshot_summary": {"status": "passed"}}
    keys = ["t:m/a", "t:m/b"] if "t:a-0807" not in logged else list(logged)
    metrics = {
        "improvements_dict": {"last_agent": last_agent, "per_benchmark_speedups_by_agent": logged},
        "agent_metrics_by_agent": dict.fromkeys(keys, entry),
    }
    result = {"task_id": "t1", "trial_name": "t1.1-of-1.run1.agent-2-t", "parser_extra_metrics": metrics}
    run = tmp_path / "run1"
    write_json(run / "fc.lock", {"run_spec": {"agent_mode": "multi", "agents": agents}})
    write_json(run / "results.json", {"results": [result], "n_resolved": 0})
    events = trials_of(converted(run)[0])
    held = {event["agent_index"]: event["benchmarks"] for event in events if "benchmarks" in event}
    assert held == expected
