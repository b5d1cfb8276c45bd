"""Simulated run directories of harbor; and what a run-level file of fc-eval says alone (R28)."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from streamer.statistics.final import hash_shuffled
from streamer.terminal.simulate import Disk, HarborAgent, write_harbor
from tests.sources.builders import START, Event, converted, plan_of, trials_of, write_json
from tests.sources.fc_eval_runs import (
    ALWAYS,
    CONFIGURATION,
    ONE_AGENT,
    SEVERAL_AGENTS,
    agents_of,
    both,
    by_trial,
    run_level_only,
)
from tests.support.events import summarised
from tests.support.layouts import LAYOUTS, simulate_run

# -----------------------------------------------------------------------------
# harbor's job directories: a retry takes the place of the trial that crashed.


def test_a_crashed_trial_is_retried_in_its_own_directory(tmp_path: Path) -> None:
    simulate_run("harbor", tmp_path / "job", 60, seed=3, start=START)
    job = json.loads((tmp_path / "job" / "result.json").read_text())
    assert job["stats"]["n_retries"] > 0
    assert (job["stats"]["n_completed_trials"], job["stats"]["n_pending_trials"]) == (60, 0)
    results = [json.loads(path.read_text()) for path in (tmp_path / "job").glob("*/result.json")]
    assert len({result["trial_name"] for result in results}) == len(results) == 60
    failures = {result["exception_info"] and result["exception_info"]["exception_type"] for result in results}
    assert "NonZeroAgentExitCodeError" not in failures


def test_the_job_says_that_it_has_finished_only_at_its_end(tmp_path: Path) -> None:
    finished: list[bool] = []

    def look(_: float) -> None:
        try:
            job = json.loads((tmp_path / "job" / "result.json").read_text())
        except (FileNotFoundError, ValueError):
            return  # not there yet, or half written
        finished.append(job["finished_at"] is not None)

    simulate_run("harbor", tmp_path / "job", 6, seed=1, start=START, pace_seconds=1.0, sleep=look)
    assert not any(finished[:-1])
    assert json.loads((tmp_path / "job" / "result.json").read_text())["finished_at"]


def test_agents_take_the_tasks_in_turn_and_pass_by_their_skill(tmp_path: Path) -> None:
    able, unable = (
        HarborAgent(name, "simulated", "model", skill) for name, skill in (("a", 1.0), ("b", 0.0))
    )
    disk = Disk(tmp_path / "job", 1, 0.0, lambda _: None, lambda _: None)
    write_harbor(disk, 40, 1, START, 4, agents=(able, unable), attempts=1, speed=10.0)
    events, report = converted(tmp_path / "job")
    assert report.unreadable + report.left_out + report.notes == []
    plan, trials = plan_of(events), trials_of(events)
    assert (len(plan["tasks"]), plan["attempts"], plan["order"]) == (40, 1, plan["tasks"])
    assert plan["agent_models"] == ["a:simulated/model", "b:simulated/model"]
    verdicts = {(event["agent"], event.get("resolved")) for event in trials}
    assert verdicts == {("a", True), ("b", False)} | {(agent, None) for agent in "ab"}
    seconds = [times[1] - times[0] for times in map(times_of, trials)]
    assert len(trials) == 80
    assert 2.0 < sum(one.total_seconds() for one in seconds) / 80 < 10.0


def times_of(event: dict[str, str]) -> tuple[datetime, datetime]:
    return datetime.fromisoformat(event["started_at"]), datetime.fromisoformat(event["finished_at"])


# -----------------------------------------------------------------------------
# A simulated run directory is one that the connectors read without complaint.


TRIALS = 60


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_trial_is_converted_and_nothing_is_left_out(layout: str, tmp_path: Path) -> None:
    simulate_run(layout, tmp_path / "run", TRIALS, seed=3, start=START)
    events, report = converted(tmp_path / "run")
    assert report.unreadable + report.left_out + report.notes == []
    agents = len(plan_of(events)["agent_models"])
    trials = trials_of(events)
    assert {event["harness"] for event in trials} == {layout}
    slots = {
        (e.get("shard"), e["task_id"], e["attempt"], e["agent"], e.get("tier"), e.get("subtest"))
        for e in trials
    }
    assert len(trials) == len(slots) == TRIALS * agents
    assert [event["run_id"] for event in events if event["type"] == "run_finished"] == ["run"]
    assert {event.get("resolved") for event in trials} >= {True, False}
    assert len({event["failure_mode"] for event in trials}) > 1


@pytest.mark.parametrize("at_once", [1, 3])
def test_the_seed_decides_the_files_and_the_pace_does_not(at_once: int, tmp_path: Path) -> None:
    waited: list[float] = []
    for number, (seed, pace) in enumerate(((5, 0.0), (5, 2.0), (6, 0.0))):
        run, paced = tmp_path / str(number) / "run", {"pace_seconds": pace, "sleep": waited.append}
        simulate_run("harbor", run, 21, seed=seed, start=START, concurrency=at_once, **paced)
    fast, slow, other = (contents(tmp_path / str(number) / "run") for number in range(3))
    assert fast == slow != other
    assert sum(waited) > 21 * 1.5 / at_once  # writing is part of it


def test_trials_that_do_not_pass_take_longer(tmp_path: Path) -> None:
    simulate_run("harbor", tmp_path / "run", 300, seed=5, start=START)
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for event in trials_of(converted(tmp_path / "run")[0]):
        start, end = times_of(event)
        seconds[event.get("resolved") is True].append((end - start).total_seconds())
    means = {passed: sum(values) / len(values) for passed, values in seconds.items()}
    assert 1.7 < means[False] / means[True] < 2.3


def test_harbor_shuffles_when_it_is_told_to_and_starts_trials_in_the_order_of_its_lock(
    tmp_path: Path,
) -> None:
    orders: dict[str, list[str]] = {}
    for name, shuffle in (("listed", False), ("shuffled", True)):
        files: list[Path] = []
        more: dict[str, Any] = {"shuffle": shuffle, "written": files.append}
        simulate_run("harbor", tmp_path / name, 40, seed=5, start=START, concurrency=2, **more)
        orders[name] = plan_of(converted(tmp_path / name)[0])["order"]
        begun = dict.fromkeys(file.parent for file in files if file.name == "trial.log")
        assert [trial.name.partition("__")[0] for trial in begun] == orders[name]
    tasks = [f"task-{number}" for number in range(1, 9)]
    assert orders["listed"] == tasks * 5
    assert orders["shuffled"] == hash_shuffled(tasks, "5") * 5 != orders["listed"]


# -----------------------------------------------------------------------------
# Terminal-Bench's directories: crashed trials are run again when the run is resumed.


# -----------------------------------------------------------------------------
# R28: a run with only its run-level file gives the numbers that this file has, and no others.


BASELINES = ("nop", "oracle")
WRITTEN_OVER = {"fc-no-oracle-same-framework": 1, "fc-rough": 5}
"""Agents whose entry another agent of the same label wrote over, since it had no speedups of its own (D5).
Nothing in the file is left of their tests and costs, so they are left out."""


LAST_AGENT_ALONE = ("trial_id", "trial_name", "failure_mode", "started_at", "finished_at")
"""The merged trial has the last agent's in place of the others' (D2)."""

LOST = {
    *("failure_modes", "infrastructure_failures", "accuracy_excluding_infrastructure", "mean_duration"),
    *("first_event_at", "last_event_at", "tokens", "state_version", "digest"),
}
LOST_STATISTICS = {"duration_seconds", "input_tokens", "output_tokens"}
"""Numbers of a summary that a run-level file of several agents has not: the failure modes and times of all
agents but the last are gone (D2), and tokens are summed over the agents (D3).
"""


def kept(summary: Event) -> Event:
    """A summary without these numbers."""
    left = {name: value for name, value in summary.items() if name not in LOST}
    for name in ("statistics", "coverage"):
        left[name] = {key: value for key, value in summary[name].items() if key not in LOST_STATISTICS}
    return left


def agents_summaries(events: list[Event]) -> dict[str, Event]:
    return {key: value for key, value in summarised(events).items() if key.startswith("agent_model ")}


@pytest.mark.parametrize("name", ONE_AGENT)
def test_a_run_of_one_agent_is_the_same_to_the_bit(runs: Path, tmp_path: Path, name: str) -> None:
    """But for panes, which have what a log names besides: single-agent trials are kept as they were."""
    expected, result = both(runs, name, tmp_path, *CONFIGURATION)
    assert by_trial(expected).keys() == by_trial(result).keys()
    summaries = agents_summaries(expected)
    assert summaries
    assert agents_summaries(result) == summaries


@pytest.mark.parametrize("name", SEVERAL_AGENTS)
@pytest.mark.parametrize("others", [CONFIGURATION, ()], ids=["beside its configuration", "alone"])
def test_every_agent_of_every_trial_is_there_but_for_those_written_over(
    runs: Path, tmp_path: Path, name: str, others: tuple[str, ...]
) -> None:
    expected, result = (by_trial(events) for events in both(runs, name, tmp_path, *others))
    assert result.keys() <= expected.keys()
    assert len(expected.keys() - result.keys()) == WRITTEN_OVER.get(name, 0)


@pytest.mark.parametrize("name", SEVERAL_AGENTS)
def test_the_fields_of_each_event_are_those_of_the_agents_own_file_or_absent(
    runs: Path, tmp_path: Path, name: str
) -> None:
    expected, result = (by_trial(events) for events in both(runs, name, tmp_path, *CONFIGURATION))
    agents = agents_of(runs / name)
    revision = (tmp_path / name / "results.json").stat().st_mtime_ns
    for place, event in result.items():
        own = expected[place]
        assert [event.get(field) for field in ALWAYS] == [own.get(field) for field in ALWAYS]
        is_last = place[2] == len(agents)
        assert [event.get(field) for field in LAST_AGENT_ALONE] == (
            [own.get(field) for field in LAST_AGENT_ALONE] if is_last else [None] * len(LAST_AGENT_ALONE)
        )
        assert event["revision"] == revision
        alone = sum(agent.label not in BASELINES for agent in agents) == 1
        if alone and event["agent"] not in BASELINES:
            assert event.get("input_tokens") == (own.get("input_tokens") or None)
            assert event.get("output_tokens") == (own.get("output_tokens") or None)
        else:
            assert not event.keys() & {"input_tokens", "output_tokens"}


@pytest.mark.parametrize("name", SEVERAL_AGENTS)
def test_tests_and_snapshots_are_those_of_the_agents_own_log_as_far_as_the_file_has_them(
    runs: Path, tmp_path: Path, name: str
) -> None:
    expected, result = (by_trial(events) for events in both(runs, name, tmp_path, *CONFIGURATION))
    for place, event in result.items():
        own = expected[place]
        tests, snapshot = event.get("tests"), event.get("snapshot")
        if tests is None or snapshot is None:
            assert tests is snapshot is event.get("benchmarks") is None
            assert own["failure_mode"] in ("test_timeout", "parse_error")
            continue
        if tests != own["tests"]:
            assert tests == {"status": "failed"}
            assert own["tests"].get("error") == 1 or own["tests"]["status"] in ("missing", "unparsable")
        known = {field: value for field, value in own["snapshot"].items() if field != "failed"}
        if snapshot != known:
            assert snapshot == {"status": "failed"}
            assert own["snapshot"]["status"] != "passed"


@pytest.mark.parametrize("name", SEVERAL_AGENTS)
def test_no_speedup_is_another_than_the_agents_own_log_has(runs: Path, tmp_path: Path, name: str) -> None:
    """And few are missing of agents whose speedups count."""
    expected, result = (by_trial(events) for events in both(runs, name, tmp_path, *CONFIGURATION))
    complete, incomplete = 0, 0
    for place, event in result.items():
        own = expected[place].get("benchmarks")
        if own is None:
            continue
        stored = event.get("benchmarks", {})
        assert "fallback_to_baseline" not in json.dumps(stored)
        for benchmark, entry in stored.items():
            if isinstance(entry, dict):
                ratios = {key: entry[key] for key in ("agent/nop", "oracle/nop") if is_number(entry, key)}
                assert ratios == {key: own[benchmark].get(key) for key in ratios}
        has_all = all(ratio_of(stored.get(benchmark)) == ratio_of(entry) for benchmark, entry in own.items())
        is_counted = event.get("resolved") is True
        complete += is_counted and has_all
        incomplete += is_counted and not has_all
    assert complete > 10 * incomplete


def is_number(entry: Event, key: str) -> bool:
    return isinstance(entry.get(key), int | float)


def ratio_of(entry: Any) -> Any:
    return entry.get("agent/nop") if isinstance(entry, dict) and is_number(entry, "agent/nop") else None


def test_a_simulated_run_has_the_same_numbers_by_its_run_level_file(tmp_path: Path) -> None:
    """No crash, no 0 %: nothing is lost in it but what no run-level file of several agents has."""
    run = tmp_path / "run"
    simulate_run("fc-eval", run, 12, seed=11, start=START)
    expected = agents_summaries(converted(run)[0])
    events, report = converted(run_level_only(run, tmp_path / "copy", *CONFIGURATION))
    result = agents_summaries(events)
    assert not report.unreadable + report.left_out
    assert not report.remarks
    assert 0 < result["agent_model run|terminus-2:openai%2Fgpt-5"]["accuracy"] < 1
    for key, summary in expected.items():
        assert kept(result[key]) == kept(summary)


def merged_events(tmp_path: Path, entry: Event, **metrics: Any) -> list[Event]:
    """The events of a run-level file with one trial of nop and t:m, each with this entry."""
    agents = [{"agent_name": "nop", "model_name": "nop"}, {"agent_name": "t", "model_name": "m"}]
    result = {
        "task_id": "t1",
        "trial_name": "t1.1-of-1.run1.agent-2-t",
        "is_resolved": True,
        "parser_extra_metrics": {"agent_metrics_by_agent": {"nop:nop": entry, "t:m": entry}, **metrics},
    }
    write_json(tmp_path / "run1" / "fc.lock", {"run_spec": {"agent_mode": "multi", "agents": agents}})
    write_json(tmp_path / "run1" / "results.json", {"results": [result], "n_resolved": 1})
    return trials_of(converted(tmp_path / "run1")[0])


def test_a_null_in_place_of_the_snapshots_count_was_nan_and_passes_as_in_a_trials_own_file(
    tmp_path: Path,
) -> None:
    """D17, B6: the harness itself writes a whole number there (0 for NaN), never a null."""
    snapshot = {"pass_to_fail": None, "passed": 3, "status": "passed"}
    entry = {"pytest_summary": {"passed": 1, "status": "passed"}, "snapshot_summary": snapshot}
    events = merged_events(tmp_path, entry)
    stored = {event["agent"]: (event["resolved"], event["snapshot"]) for event in events}
    assert stored == dict.fromkeys(
        ("nop", "t"), (True, {"status": "passed", "pass_to_fail": 0.0, "passed": 3})
    )


def test_advantages_that_the_harnesss_fallback_wrote_over_a_claim_are_not_claimed(tmp_path: Path) -> None:
    """C1: t failed by itself, and no worse than the oracle; its log has no benchmarks by agent (B11)."""
    entry = {"pytest_summary": {"passed": 1, "status": "passed"}, "snapshot_summary": {"status": "passed"}}
    claims = {"nop:nop": {"agent_advantage": -0.5}, "t:m": {"agent_advantage": -0.5}}
    claims["t:m"]["fallback_to_baseline"] = True
    improvements = {
        "last_agent": "t:m",
        "agent_advantage": 0.25,
        "agent_advantages_by_agent": claims,
        "per_benchmark_speedups_by_agent": {},
    }
    events = merged_events(tmp_path, entry, improvements_dict=improvements)
    assert [event.get("claimed") for event in events] == [{"agent_advantage": -0.5}, None]
