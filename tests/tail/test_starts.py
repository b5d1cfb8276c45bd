"""A trial that begins is published at once, before its result; and once."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from streamer.sources.simulate import LAYOUTS, simulate_run
from streamer.sources.tail import Ledger
from tests.sources.builders import a_result, a_run, a_trial_file, write_json
from tests.sources.harbor import a_trial_result
from tests.support.tailing import Event, Followed, followed
from tests.support.worker_process import wait_for
from tests.tail.followed_runs import LOCK, START


def starts_of(following: Followed) -> list[Event]:
    return [event for event in following.events if event["type"] == "trial_started"]


def kinds_of(following: Followed) -> list[str]:
    return [event["type"] for event in following.events if event["type"] != "run_started"]


def begin(run: Path, task: str = "oom") -> Path:
    """The directory of a trial as Terminal-Bench makes it first."""
    trial = run / task / f"{task}.1-of-1.{run.name}"
    for part in ("sessions", "panes", "agent-logs"):
        (trial / part).mkdir(parents=True)
    return trial


def begin_in_harbor(job: Path, name: str = "t__abc1234") -> Path:
    """The same of harbor; its agent is named in both files."""
    config = {"trial_name": name, "agent": {"name": "codex", "model_name": "openai/gpt-5"}}
    write_json(job / name / "config.json", config | {"task": {"path": "tasks/t"}})
    write_json(job / name / "lock.json", {"task": {"name": "t"}, "agent": config["agent"]})
    return job / name


def a_harbor_job(job: Path) -> Path:
    write_json(job / "config.json", {"job_name": job.name, "agents": [{"name": "codex"}]})
    return job


def restarted(before: Followed) -> Ledger:
    """The ledger as the journal has it after a kill."""
    ledger = Ledger()
    for line in before.lines:
        ledger.restore(json.loads(json.dumps(line)))
    return ledger


def test_a_trial_is_in_flight_until_its_result_comes(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result("b")], lock=LOCK)
    with followed(run) as following:
        wait_for(lambda: following.trials, "what is there")
        begin(run)
        wait_for(lambda: starts_of(following), "the start")
        following.wait_until_converted()
        a_trial_file(run, a_result())
        wait_for(lambda: len(following.trials) == 2, "the result")
        following.wait_until_converted()
    assert kinds_of(following) == ["trial_result", "trial_started", "trial_result"]
    start, result = starts_of(following)[0], following.trials[-1]
    same = ("run_id", "task_id", "attempt", "agent", "model")
    assert [start[name] for name in same] == [result[name] for name in same]
    assert start["revision"] < result["revision"]


def test_a_trial_of_harbor_is_in_flight_until_its_result_comes(tmp_path: Path) -> None:
    job = a_harbor_job(tmp_path / "job")
    with followed(job) as following:
        trial = begin_in_harbor(job)
        wait_for(lambda: starts_of(following), "the start")
        write_json(trial / "result.json", a_trial_result())
        wait_for(lambda: following.trials, "the result")
        following.wait_until_converted()
    assert kinds_of(following) == ["trial_started", "trial_result"]
    start, result = following.events[-2:]
    same = ("run_id", "shard", "task_id", "attempt", "agent", "model")
    assert [start[name] for name in same] == [result[name] for name in same]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_harness_that_runs_has_each_start_published_at_most_once_and_in_the_slot_of_a_result(
    tmp_path: Path, layout: str
) -> None:
    with followed(tmp_path / "run", still_seconds=60.0, gone_seconds=60.0) as following:
        simulate_run(layout, tmp_path / "run", 10, seed=4, start=START, pace_seconds=0.3)
        following.wait_until_converted()
    fields = ("shard", "task_id", "attempt", "agent", "tier", "subtest")
    started = [tuple(event.get(name) for name in fields) for event in starts_of(following)]
    assert started
    assert len(started) == len(set(started))
    assert set(started) <= {tuple(event.get(name) for name in fields) for event in following.trials}


def test_a_result_that_is_there_already_needs_no_start(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", lock=LOCK)
    begin(run)
    a_trial_file(run, a_result())
    with followed(run) as following:
        wait_for(lambda: following.trials, "the result")
        following.wait_until_converted()
    assert starts_of(following) == []


def test_a_restart_does_not_publish_a_start_twice(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", lock=LOCK)
    begin(run)
    with followed(run) as before:
        wait_for(lambda: starts_of(before), "the start")
    with followed(run, restarted(before)) as after:
        begin(run, "b")
        wait_for(lambda: starts_of(after), "another start")
        wait_for(lambda: after.follower.status.readings > 2, "the whole is read again")
    assert [event["task_id"] for event in starts_of(after)] == ["b"]


def test_a_start_from_before_the_lock_moves_to_the_agent_that_it_names(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result("b")])
    begin(run)
    with followed(run) as following:
        wait_for(lambda: starts_of(following), "a start of nobody")
        write_json(run / "tb.lock", LOCK)
        wait_for(lambda: len(starts_of(following)) == 2, "the start of the agent")
        following.wait_until_converted()
    assert [event["agent"] for event in starts_of(following)] == ["unknown", "terminus"]
    withdrawn = [event["task_id"] for event in following.events if event["type"] == "trial_retracted"]
    assert sorted(withdrawn) == ["b", "oom"]


def test_a_start_is_withdrawn_when_the_directory_of_its_trial_goes(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result("b")], lock=LOCK)
    trial = begin(run)
    with followed(run) as following:
        wait_for(lambda: starts_of(following), "the start")
        shutil.rmtree(trial.parent)
        wait_for(lambda: following.follower.status.withdrawn == 1, "the withdrawal")
        following.wait_until_converted()
    assert following.events[-1]["revision"] == starts_of(following)[0]["revision"]


def test_a_retry_of_harbor_begins_once_more(tmp_path: Path) -> None:
    """Its directory is deleted with the result of the first try, and made again."""
    job = a_harbor_job(tmp_path / "job")
    begin_in_harbor(job, "other__1234567")
    with followed(job) as following:
        trial = begin_in_harbor(job)
        wait_for(lambda: len(starts_of(following)) == 2, "both starts")
        write_json(trial / "result.json", a_trial_result(exception_info={"exception_type": "RuntimeError"}))
        wait_for(lambda: following.trials, "the result of the first try")
        shutil.rmtree(trial)
        begin_in_harbor(job)
        wait_for(lambda: len(starts_of(following)) == 3, "the start of the second try")
        following.wait_until_converted()
        write_json(trial / "result.json", a_trial_result())
        following.wait_until_converted()
    again = kinds_of(following)[2:]
    assert again == ["trial_result", "trial_retracted", "trial_started", "trial_result"]
    first, retracted, second, last = (event["revision"] for event in following.events[-4:])
    assert first <= retracted < second < last


def test_a_lock_that_is_mended_completes_the_plan(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result()], metadata={"n_attempts": 1})
    write_json(run / "tb.lock", json.dumps(LOCK)[:20])
    with followed(run) as following:
        wait_for(lambda: any(e.get("plan_complete") is False for e in following.events), "what is there")
        write_json(run / "tb.lock", LOCK)
        wait_for(lambda: any(e.get("plan_complete") is True for e in following.events), "the whole plan")
        following.wait_until_converted()
