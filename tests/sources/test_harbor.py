"""Job directories that harbor 0.25.0 itself wrote (see harbor/record.py)."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from streamer.sources.base import ConvertOptions, ConvertReport, slot_of
from streamer.sources.convert import convert_part, discover
from streamer.sources.files import is_file, listing_once
from streamer.sources.harbor import Harbor, is_job, is_trial, verdict
from streamer.sources.tail.session import ServerCopy, ServerError
from tests.sources.builders import Event, converted, plan_of, trials_of, write_json
from tests.sources.harbor import a_job, a_trial_result, summaries, unpack_jobs
from tests.support.data import shared_data

# -----------------------------------------------------------------------------
# How trials of harbor ended, in jobs that harbor 0.25.0 itself wrote (see harbor/record.py).


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_jobs(tmp_path_factory.mktemp("jobs"))


def trial_of(events: Iterable[Event], task: str, agent: str = "scripted") -> Event:
    (trial,) = [e for e in trials_of(events) if e["task_id"] == task and e["agent"] == agent]
    return trial


@pytest.fixture(scope="module")
def kinds(recorded: Path) -> list[Event]:
    return converted(recorded / "kinds")[0]


@pytest.fixture(scope="module")
def coins(recorded: Path) -> list[Event]:
    return converted(recorded / "coins")[0]


@pytest.mark.parametrize(
    ("task", "resolved", "failure_mode", "more"),
    [
        ("easy", True, "unset", {"metrics": {"reward": 1.0}}),
        ("hard", False, "unset", {"message": None}),
        ("half", False, "unset", {"metrics": {"reward": 0.5}}),
        ("both", True, "unset", {"metrics": {"reward": 1.0, "reward/style": 0.5}}),
        ("named", True, "unset", {"metrics": {"reward": 1.0}}),
        ("many", None, "unset", {"metrics": {"reward/correctness": 1.0, "reward/style": 0.25}}),
        ("acme/renamed", False, "unset", {}),
        ("steps", True, "unset", {}),
        ("flaky", False, "unset", {}),
        ("slow", False, "AgentTimeoutError", {}),
        ("exits", False, "NonZeroAgentExitCodeError", {"message": "NonZeroAgentExitCodeError: exit code 3"}),
        ("crash", None, "RuntimeError", {"metrics": None, "message": "RuntimeError: boom"}),
        ("unbuilt", None, "RuntimeError", {"message": "RuntimeError: no such image"}),
        ("unrewarded", None, "RewardFileNotFoundError", {"metrics": None}),
    ],
)
def test_the_verdict_is_harbors_every_reward_is_a_metric_and_exceptions_are_failure_modes(
    kinds: list[Event], task: str, resolved: bool | None, failure_mode: str, more: Event
) -> None:
    """The rewards are those of `REWARDS` in record.py, which harbor read from the verifier's files."""
    trial = trial_of(kinds, task)
    assert (trial.get("resolved"), trial["failure_mode"]) == (resolved, failure_mode)
    assert "score" not in trial
    assert {name: trial.get(name) for name in more} == more
    assert plan_of(kinds)["metrics"] == {"reward": {"direction": "higher"}}


@pytest.mark.parametrize(
    ("rewards", "resolved", "reason"),
    [
        *(({"": 1}, True, None), ({"accuracy": 1}, True, None)),
        *(({"reward": 1.0, "other": 0}, True, None), ({"reward": 0, "style": 1}, False, None)),
        *(({"reward": number}, False, None) for number in (0.999, 3.5, -1)),
        ({"reward": None}, None, "the reward 'reward' is None, not a number"),
        ({"reward": "1"}, None, "the reward 'reward' is '1', not a number"),
        ({"a": 1, "b": 1}, None, "no reward is named 'reward', only 'a', 'b'"),
        *(({}, None, None), ([1], None, None), (None, None, None)),
    ],
)
def test_a_trial_passed_if_its_main_or_only_reward_is_one(
    rewards: Any, resolved: bool | None, reason: str | None
) -> None:
    said = None if reason is None else f"no verdict: {reason}"
    result: Event = {"verifier_result": {"rewards": rewards}}
    assert verdict(result) == verdict(result | {"reward_valid": bool(rewards)}) == (resolved, said)


# -----------------------------------------------------------------------------
# Job directories that harbor 0.25.0 itself wrote (see harbor/record.py).


CLAUDE = "anthropic/claude-sonnet-4-20250514"


def test_every_trial_is_one_slot_named_by_the_trial(recorded: Path) -> None:
    events, report = converted(recorded / "kinds")
    trials = trials_of(events)
    directories = {path.name for path in (recorded / "kinds").iterdir() if path.is_dir()}
    assert {trial["shard"] for trial in trials} == directories
    assert {trial["attempt"] for trial in trials} == {1}
    assert len(trials) == len(directories) == 28
    assert not report.unreadable + report.left_out


def test_a_trial_tells_agent_model_times_tokens_cost_and_length(recorded: Path, kinds: list[Event]) -> None:
    trial = trial_of(kinds, "easy")
    file = recorded / "kinds" / trial["shard"] / "result.json"
    result = json.loads(file.read_text())
    assert trial == {
        "type": "trial_result",
        "harness": "harbor",
        "run_id": "kinds",
        "shard": result["trial_name"],
        "task_id": "easy",
        "attempt": 1,
        "agent": "scripted",
        "model": CLAUDE,
        "revision": file.stat().st_mtime_ns,
        "trial_id": result["id"],
        "trial_name": result["trial_name"],
        "resolved": True,
        "failure_mode": "unset",
        "metrics": {"reward": 1.0},
        "labels": {"dataset": "tasks"},
        "artifacts": [
            artifact(file.parent, "trial.log", "text/plain"),
            artifact(file.parent, "agent/trajectory.json", "application/json"),
            artifact(file.parent, "verifier/reward.txt", "text/plain"),
        ],
        "input_tokens": 600,
        "cache_read_tokens": 400,
        "output_tokens": 50,
        "cost_usd": 0.125,
        "trajectory_length": 2,
        "started_at": result["started_at"],
        "finished_at": result["finished_at"],
        "provenance": {
            "task_digest": result["task_checksum"],
            "agent_version": "1.2",
            "timeout": "agent=0.5",
        },
    }


def artifact(trial: Path, name: str, media_type: str) -> dict[str, str]:
    return {"name": name, "path": f"{trial.name}/{name}", "media_type": media_type}


def test_steps_of_a_task_are_summed(kinds: list[Event]) -> None:
    trial = trial_of(kinds, "steps")
    numbers = [trial[name] for name in ("input_tokens", "cache_read_tokens", "output_tokens", "cost_usd")]
    assert numbers == [1200, 800, 100, 0.25]
    assert trial["trajectory_length"] == 4


def test_an_agent_that_tells_nothing_has_no_numbers(kinds: list[Event]) -> None:
    trial = trial_of(kinds, "easy", "silent")
    numbers = {"input_tokens", "cache_read_tokens", "output_tokens", "cost_usd", "trajectory_length"}
    assert not numbers & trial.keys()
    assert trial["model"] == "unknown"


def test_several_rewards_without_a_main_one_are_explained(recorded: Path) -> None:
    _, report = converted(recorded / "kinds")
    hints = {result.path.parent.name[:4]: result.hints for result in report.explanations}
    assert hints["many"] == ("no verdict: no reward is named 'reward', only 'correctness', 'style'",)
    assert hints["easy"] == ()


def test_the_plan_is_the_lock_its_queue_and_how_many_run_at_once(recorded: Path, coins: list[Event]) -> None:
    """Two agents each take five attempts at five tasks, in rounds; harbor does not shuffle."""
    plan = plan_of(coins)
    lock = json.loads((recorded / "coins" / "lock.json").read_text())
    assert plan["tasks"] == [f"coin-{number}" for number in range(1, 6)]
    assert plan["order"] == plan["tasks"] * 5
    assert (plan["attempts"], plan["benchmark"], plan["started_at"]) == (5, "coins", lock["created_at"])
    assert plan["planned_at"] == lock["created_at"]  # inference 3
    assert plan["concurrency"] == lock["n_concurrent_trials"]
    assert (plan["plan_complete"], plan.get("order_kind")) == (True, None)


@pytest.mark.parametrize("known_by", ["results", "task.toml"])
def test_the_plan_has_the_names_of_tasks_that_results_have(tmp_path: Path, known_by: str) -> None:
    """The lock names tasks by their directories, and results by their task.toml."""
    tasks = [{"name": name, "type": "local", "path": f"tasks/{name}"} for name in ("hello", "bye")]
    result = a_trial_result("org/hello", "hello__1", config={"task": {"path": "tasks/hello"}})
    job = a_job(tmp_path / "jobs" / "job", *[result] * (known_by == "results"))
    trials = [{"task": task, "agent": {"name": "codex", "model_name": "m"}} for task in tasks]
    write_json(job / "lock.json", {"trials": trials, "n_concurrent_trials": 1})
    write_json(job / "config.json", {"job_name": "job", "jobs_dir": "jobs"})
    before = plan_of(converted(job)[0]) if known_by == "task.toml" else None
    for task in tasks if known_by == "task.toml" else ():
        (tmp_path / task["path"]).mkdir(parents=True)
        (tmp_path / task["path"] / "task.toml").write_text(f'[task]\nname = "org/{task["name"]}"\n')
    plan = plan_of(converted(job)[0])
    assert plan["tasks"] == plan["order"] == ["org/hello", "bye" if before is None else "org/bye"]
    assert before is None or plan["revision"] > before["revision"]


def test_agents_that_are_code_have_no_label_before_they_run(
    recorded: Path, tmp_path: Path, coins: list[Event]
) -> None:
    assert "agent_models" not in plan_of(coins)
    lock = json.loads((recorded / "coins" / "lock.json").read_text())
    for trial in lock["trials"]:
        if "import_path" in trial["agent"]:
            trial["agent"] = {"name": "terminus-2", "model_name": "openai/gpt-5"}
    write_json(tmp_path / "coins" / "lock.json", lock)
    plan = plan_of(converted(tmp_path)[0])
    assert plan["agent_models"] == ["terminus-2:openai/gpt-5", "nop:unknown"]
    assert plan["attempts"] == 5


def test_a_job_that_redoes_some_trials_plans_no_attempts_and_its_agents_have_no_order_in_common(
    recorded: Path, tmp_path: Path
) -> None:
    lock = json.loads((recorded / "coins" / "lock.json").read_text())
    write_json(tmp_path / "coins" / "lock.json", {**lock, "trials": lock["trials"][:-1]})
    plan = plan_of(converted(tmp_path)[0])
    assert not {"attempts", "order"} & plan.keys()
    assert len(plan["tasks"]) == 5


def test_a_finished_job_says_so_with_the_zone_its_times_lack(
    recorded: Path, tmp_path: Path, coins: list[Event]
) -> None:
    finished = coins[-1]
    assert (finished["type"], finished["status"]) == ("run_finished", "completed")
    job = shutil.copytree(recorded / "coins", tmp_path / "coins")
    times = {"started_at": "2026-03-04T23:30:00", "finished_at": "2026-03-05T00:30:00"}
    write_json(job / "result.json", {**json.loads((job / "result.json").read_text()), **times})
    lock = {**json.loads((job / "lock.json").read_text()), "created_at": "2026-03-04T18:00:02.5Z"}
    write_json(job / "lock.json", lock)
    assert converted(job)[0][-1]["finished_at"] == "2026-03-05T00:30:00+05:30"
    (job / "lock.json").unlink()
    assert "finished_at" not in converted(job)[0][-1]
    zoned = {"started_at": "2026-03-04T18:00:00Z", "finished_at": "2026-03-04T19:00:00Z"}  # jobs download
    write_json(job / "result.json", {**json.loads((job / "result.json").read_text()), **zoned})
    assert converted(job)[0][-1]["finished_at"] == zoned["finished_at"]


@pytest.mark.parametrize(("job", "trials"), [("running", 6), ("cancelled", 8)])
def test_a_job_that_runs_or_was_cancelled_is_not_finished(recorded: Path, job: str, trials: int) -> None:
    events, report = converted(recorded / job)
    assert "run_finished" not in {event["type"] for event in events}
    assert len(trials_of(events)) == trials
    assert not report.unreadable
    modes = [trial["failure_mode"] for trial in trials_of(events)]
    assert modes.count("CancelledError") == (2 if job == "cancelled" else 0)


def test_a_copy_of_a_job_under_another_name_adds_nothing(recorded: Path, tmp_path: Path) -> None:
    shutil.copytree(recorded / "coins", tmp_path / "a" / "coins")
    shutil.copytree(recorded / "coins", tmp_path / "a" / "backup")
    events, report = converted(tmp_path)
    assert report.runs == ["coins"]
    assert len(trials_of(events)) == report.duplicates == 50


def test_r35_rewards_that_have_one_name_as_metrics_are_said(tmp_path: Path) -> None:
    """R30: a space is not allowed in the name of a metric."""
    rewards = {"reward": 1, "code style": 0.2, "code_style": 0.9}
    events, report = converted(a_job(tmp_path / "job", a_trial_result(verifier_result={"rewards": rewards})))
    assert trials_of(events)[0]["metrics"] == {"reward": 1, "reward/code_style": 0.9}
    expected = "1 trial with several rewards of one name, of which the last counts: reward/code_style"
    assert remarks_of(report) == [expected]


def test_earlier_tries_in_a_downloaded_job_are_no_runs(tmp_path: Path) -> None:
    """R17: `harbor jobs download --include-retries` saves the tries that a retry replaced, too."""
    trial, earlier = a_trial_result(), a_trial_result(verifier_result={"rewards": {"reward": 0.0}})
    job = a_job(tmp_path / "job", trial)
    (job / "job.log").write_text("This job directory was reconstructed by `harbor jobs download`.")
    write_json(job / "_retries" / trial["trial_name"] / "retry-0" / "result.json", earlier)
    for path in (tmp_path, job):
        events, report = converted(path)
        assert (report.runs, [one["resolved"] for one in trials_of(events)]) == (["job"], [True])


def test_pooled_jobs_keep_their_trials_apart(recorded: Path) -> None:
    events, _ = converted(recorded / "coins", recorded / "kinds", run_id="all")
    shards = {trial["shard"] for trial in trials_of(events)}
    assert len(shards) == 78
    assert {shard.partition("/")[0] for shard in shards} == {"coins", "kinds"}


@pytest.mark.parametrize("name", ["config.json", "lock.json", "result.json"])
@pytest.mark.parametrize("content", ["{", "[]", '{"trials": 5, "agents": {}, "datasets": [1, 2], "id": []}'])
def test_a_broken_file_of_the_job_loses_no_trial(
    recorded: Path, tmp_path: Path, name: str, content: str
) -> None:
    job = shutil.copytree(recorded / "running", tmp_path / "running")
    write_json(job / name, content)
    events, report = converted(job)
    assert len(trials_of(events)) == 6
    assert [path.name for path, _ in report.unreadable] == ([] if content.endswith("}") else [name])
    assert name != "result.json" or plan_of(events)["plan_complete"] is True


def test_a_job_is_told_from_its_trials_and_from_the_folder_of_jobs(recorded: Path, tmp_path: Path) -> None:
    assert not is_job(recorded)
    assert is_job(recorded / "coins")
    trials = [path for path in (recorded / "coins").iterdir() if path.is_dir()]
    assert all(is_trial(trial) and not is_job(trial) for trial in trials)
    assert not is_job(trials[0] / "agent")
    assert not is_job(tmp_path)
    assert not is_job(tmp_path / "missing")


@pytest.mark.parametrize("left", ["config.json", "lock.json", "result.json", ""])
def test_a_job_is_known_by_any_of_its_files_and_by_its_trials(
    recorded: Path, tmp_path: Path, left: str
) -> None:
    job = shutil.copytree(recorded / "running", tmp_path / "running")
    for path in job.iterdir():
        if path.is_file() and path.name != left:
            path.unlink()
        elif path.is_dir() and left:
            shutil.rmtree(path)
    assert is_job(job)


def test_one_trial_of_a_job_can_be_converted_alone(recorded: Path) -> None:
    trial = next(path for path in sorted((recorded / "coins").iterdir()) if path.is_dir())
    events, _ = converted(trial)
    assert [(e["run_id"], e["shard"]) for e in trials_of(events)] == [("coins", trial.name)]


def test_the_parts_of_a_job_have_the_events_of_the_whole(recorded: Path) -> None:
    job, options = recorded / "kinds", ConvertOptions()
    ((run,), _, _) = discover([job], [Harbor()], options)
    trials = [path for path in sorted(job.iterdir()) if path.is_dir()]
    parts = [event for trial in trials for event in convert_part(run, trial, options, ConvertReport())]
    assert parts == trials_of(converted(job)[0])


def test_a_change_in_a_trial_concerns_that_trial_only(recorded: Path) -> None:
    job = recorded / "coins"
    trial = next(path for path in job.iterdir() if path.is_dir())
    source = Harbor()
    assert source.part(job, trial / "agent" / "trajectory.json") == trial
    assert source.part(job, trial) == trial
    assert source.part(job, job / "result.json") is None
    assert source.part(job, job / "gone__1234567" / "result.json") is None
    assert source.part(job, job) is None


@pytest.mark.parametrize("early", [False, True])
def test_without_its_lock_a_job_has_no_complete_plan(tmp_path: Path, early: bool) -> None:
    """Harbor 0.1 writes no lock, and how many run at once under `orchestrator`."""
    config: Event = {"n_concurrent_trials": 3}
    config = {"job_name": "job", "n_attempts": 2} | ({"orchestrator": config} if early else config)
    plan = plan_of(converted(write_json(tmp_path / "job" / "config.json", config).parent)[0])
    assert (plan["attempts"], plan["concurrency"], plan["plan_complete"]) == (2, 3, False)


# -----------------------------------------------------------------------------
# Cases of the field: jobs of many versions of harbor, reduced to what matters (see tests/data/README.md).


FIELD = {
    # harbor 0.26 itself: 1 trial with a reward, mean 1.0 (R33)
    "026-reward-valid-false": {
        "trials": 3,
        "resolved": 1,
        "accuracy_excluding_infrastructure": 1.0,
        "infrastructure_failures": 2,
        "reward": (1, 1.0),
    },
    # harbor's server itself: score 0.500, 2 of 3 scored (R33, R34)
    "026-server-job": {
        "trials": 3,
        "resolved": 1,
        "accuracy_excluding_infrastructure": 0.5,
        "infrastructure_failures": 1,
        "reward": (2, 0.5),
    },
    "broken-trials": {"trials": 2, "resolved": 2, "reward": (2, 1.0)},
    "copied-trial": {"trials": 1, "resolved": 1, "reward": (1, 1.0)},
    "naive-times-lose-duration": {"trials": 2, "duration": (2, (192.916302 + 60) / 2)},
    # no verdict of NaN and infinity, True is 1 (R31): rewards 1, 0.9999999999999999, 1, 2 and -1
    "rewards-odd": {"trials": 9, "resolved": 2, "no_verdict": 4, "reward": (5, 0.8)},
    # harbor itself: pass@2 of alpha 1.0, of beta 0.0 (R34)
    "two-datasets-one-task-name": {"trials": 4, "resolved": 2, "pass_at_k": {"1": 0.5, "2": 0.5}},
}


@pytest.mark.parametrize("case", FIELD)
def test_a_case_of_the_field_has_its_right_values(case: str) -> None:
    events, _ = converted(shared_data() / "harbor" / case)
    ((_, summary),) = summaries(events).items()
    reward, duration = summary["metrics"].get("reward"), summary["statistics"]["duration_seconds"]
    values = summary | {
        "reward": (reward["count"], pytest.approx(reward["mean"])) if reward else None,
        "duration": (duration["count"], pytest.approx(duration["mean"])),
        "pass_at_k": {k: one["value"] for k, one in summary["pass_at_k"].items()},
    }
    assert {name: values[name] for name in FIELD[case]} == FIELD[case]
    assert len({event["run_id"] for event in events}) == 1


def test_r31_a_job_without_verification_has_no_pass_rate(tmp_path: Path) -> None:
    job = a_job(tmp_path / "job", a_trial_result(verifier_result=None))
    config = json.loads((job / "config.json").read_text())
    for disabled, accuracy in ((False, 0.0), (True, None)):
        write_json(job / "config.json", config | {"verifier": {"disable": disabled}})
        [summary] = summaries(converted(job)[0]).values()
        assert summary["accuracy"] == accuracy


@pytest.mark.parametrize("known_by", ["config", "lock", "trials"])
def test_r31_a_job_that_only_installs_its_agents_has_no_pass_rate(tmp_path: Path, known_by: str) -> None:
    for only, accuracy in ((False, 0.0), (True, None)):
        asked = {"install_only": only, "verifier": {"disable": False}}
        trial = a_trial_result(agent_result=None, verifier_result=None)
        job = a_job(tmp_path / "job", trial | {"config": trial["config"] | asked})
        (job / "config.json").unlink()
        if known_by == "config":
            write_json(job / "config.json", {"job_name": "job", "agents": [{"name": "codex"}]} | asked)
        if known_by == "lock":
            write_json(job / "lock.json", {"n_concurrent_trials": 1, "trials": [{"task": {}} | asked]})
        [summary] = summaries(converted(job)[0]).values()
        assert summary["accuracy"] == accuracy


@pytest.mark.parametrize("known_by", ["lock", "trials"])
def test_r31_a_job_without_config_and_verification_has_no_pass_rate(tmp_path: Path, known_by: str) -> None:
    """As a job of `harbor serve`: only its lock and its trials say it."""
    for disabled, accuracy in ((False, 0.0), (True, None)):
        unverified = {"verifier": {"disable": disabled}}
        trial = a_trial_result(verifier_result=None)
        job = a_job(tmp_path / "job", trial | {"config": trial["config"] | unverified})
        (job / "config.json").unlink()
        if known_by == "lock":
            write_json(job / "lock.json", {"n_concurrent_trials": 1, "trials": [{"task": {}} | unverified]})
        [summary] = summaries(converted(job)[0]).values()
        assert summary["accuracy"] == accuracy


def remarks_of(report: ConvertReport) -> list[str]:
    return [str(remarks).partition(": ")[2] for remarks in report.remarks.values()]


def test_a_trial_that_is_graded_again_has_no_duration(tmp_path: Path) -> None:
    """Harbor copies the agent's usage from the earlier trial; the times are those of the verifier."""
    again = a_trial_result()
    source = {"action": "regrade", "type": "local", "trial_id": "t0", "path": "/bench/jobs/job/t0"}
    again["config"] |= {"source_trial": source}
    again |= {"started_at": "2026-01-02T00:00:00Z", "finished_at": "2026-01-02T00:00:05Z"}
    events, report = converted(a_job(tmp_path / "regraded", again))
    [trial] = trials_of(events)
    assert (trial["cost_usd"], trial["finished_at"], trial["resolved"]) == (0.5, again["finished_at"], True)
    assert "started_at" not in trial
    assert remarks_of(report) == [
        "1 trial graded again, without a duration: their tokens and cost are those of the earlier trials"
    ]


def test_some_trial_files_that_are_gone_are_counted_once_the_job_has_finished(tmp_path: Path) -> None:
    """R35."""
    job = a_job(tmp_path / "job", a_trial_result(name="t0"), a_trial_result(name="t1"))
    whole = {"id": "j", "finished_at": "2026-01-01T00:00:00", "n_total_trials": 5}
    write_json(job / "result.json", whole)
    events, report = converted(job)
    assert len(trials_of(events)) == 2
    assert report.notes == ["run job: 5 trials with a result announced, 2 found"]
    write_json(job / "result.json", {**whole, "finished_at": None})
    assert not converted(job)[1].notes


def test_a_result_that_was_read_while_it_was_written_is_read_again(tmp_path: Path) -> None:
    """Within one step of the kernel's clock, both states of the file have the same time."""
    job = a_job(tmp_path / "job", a_trial_result())
    write_json(job / "result.json", {"id": "j", "finished_at": "2026-01-01T00:00:00", "n_total_trials": 1})
    [file] = job.glob("*/result.json")
    whole, time = file.read_bytes(), file.stat().st_mtime_ns
    for content, notes in ((whole[:9], ["run job: 1 trial with a result announced, 0 found"]), (whole, [])):
        file.write_bytes(content)
        os.utime(file, ns=(time, time))
        assert converted(job)[1].notes == notes


def test_a_result_that_came_after_its_directory_was_listed_is_read_later(tmp_path: Path) -> None:
    job = a_job(tmp_path / "job", a_trial_result())
    write_json(job / "result.json", {"id": "j", "finished_at": "2026-01-01T00:00:00", "n_total_trials": 1})
    [file] = job.glob("*/result.json")
    whole = file.read_bytes()
    file.unlink()
    with listing_once():
        assert not is_file(file)
        file.write_bytes(whole)
        assert Harbor().plan(job, ConvertOptions()).is_short
    assert converted(job)[1].notes == []


def test_r35_broken_and_copied_files_of_a_finished_job_are_not_counted_as_found(tmp_path: Path) -> None:
    job = a_job(tmp_path / "job", a_trial_result(name="t0"), a_trial_result(name="t1"))
    write_json(job / "result.json", {"id": "j", "finished_at": "2026-01-01T00:00:00", "n_total_trials": 3})
    first, second = (path.parent for path in sorted(job.glob("*/result.json")))
    write_json(second / "result.json", "{")
    shutil.copytree(first, job / "copy")
    events, report = converted(job)
    assert report.notes == ["run job: 3 trials with a result announced, 1 found"]
    assert events[-1]["status"] == "interrupted"


def test_a_trial_that_lies_among_jobs_makes_none_of_them_unreadable(tmp_path: Path) -> None:
    for job in (tmp_path / "jobs" / "one", tmp_path / "jobs"):
        a_job(job, a_trial_result(name="t0"))
    whole = {"id": "j", "finished_at": None, "n_total_trials": 1, "stats": {}}
    write_json(tmp_path / "jobs" / "one" / "result.json", whole)
    (tmp_path / "jobs" / "config.json").unlink()
    _, report = converted(tmp_path / "jobs")
    assert (report.unreadable, "one" in report.runs) == ([], True)


def test_a_job_that_stopped_without_an_end_says_the_trials_that_it_counts(tmp_path: Path) -> None:
    """R35. Beside files it may run: a retry deletes the files of its trial for a while."""
    name = "job-without-trial-files"
    announced = "3 trials with a result announced, 0 found"
    assert converted(shared_data() / "harbor" / name)[1].notes == [f"run {name}: {announced}"]
    for place, counts in (
        *(("stats", {"n_trials": 3}), ("status", {"n_completed_trials": 3})),  # early versions
        ("stats", {"n_completed_trials": "3"}),
    ):
        write_json(tmp_path / "job" / "result.json", {"n_total_trials": 5, "stats": {}, place: counts})
        assert converted(tmp_path)[1].notes == [f"run job: {announced}"]
    a_job(tmp_path / "job", a_trial_result(name="t0"))
    assert converted(tmp_path)[1].notes == []


@pytest.mark.parametrize("reward", [10**400, -(10**400), float("nan"), float("inf"), "NaN", [1]])
def test_r31_a_reward_that_no_float_holds_is_no_verdict_and_stops_nothing(
    tmp_path: Path, reward: object
) -> None:
    odd = a_trial_result("odd", "t0", verifier_result={"rewards": {"reward": reward}})
    events, report = converted(a_job(tmp_path / "job", odd, a_trial_result("good", "t1")))
    assert [trial.get("resolved") for trial in trials_of(events)] == [None, True]
    assert [(path.parent.name, field) for path, field, _ in report.left_out] == [("t0", "metrics")]


@pytest.mark.parametrize("cost", ["unknown", 10**400])
def test_a_step_whose_cost_is_no_number_is_reported_and_no_part_is_taken_for_the_sum(
    tmp_path: Path, cost: object
) -> None:
    steps = [{"step_name": name, "agent_result": {"cost_usd": c}} for name, c in (("a", 0.5), ("b", cost))]
    trial = a_trial_result(agent_result=None, step_results=steps)
    events, report = converted(a_job(tmp_path / "job", trial))
    assert "cost_usd" not in trials_of(events)[0]
    assert [field for _, field, _ in report.left_out] == ["cost_usd"]


def test_a_reward_that_differs_from_the_jobs_is_said_and_counts(tmp_path: Path) -> None:
    """R35."""
    odd = a_trial_result("odd", "t1", verifier_result={"rewards": {"reward": float("nan")}})
    job = a_job(tmp_path / "job", a_trial_result(name="t0"), odd)
    stats = {"evals": {"codex": {"reward_stats": {"reward": {"0.0": ["t0"], "NaN": ["t1"]}}}}}
    write_json(job / "result.json", {"n_total_trials": 1, "stats": stats})
    events, report = converted(job)
    assert trials_of(events)[0]["metrics"] == {"reward": 1.0}
    assert remarks_of(report) == [
        "1 trial with another reward in the job's result.json; its own file counts: t0: reward 1.0, not 0.0"
    ]


@pytest.mark.parametrize("rewards", [None, {}, {"reward": None}])
def test_r35_a_reward_that_only_the_job_has_is_said_whatever_the_directorys_name(
    tmp_path: Path, rewards: Event | None
) -> None:
    lost = a_trial_result("lost", "lost__1", verifier_result=rewards and {"rewards": rewards})
    job = a_job(tmp_path / "job", a_trial_result(name="kept__1"), lost)
    stats = {"evals": {"codex": {"reward_stats": {"reward": {"1.0": ["kept__1", "lost__1"]}}}}}
    write_json(job / "result.json", {"n_total_trials": 2, "stats": stats})
    events, report = converted(job)
    assert [trial.get("resolved") for trial in trials_of(events)] == [True, None]
    [remark] = remarks_of(report)
    assert remark.endswith("its own file counts: lost__1: reward none, not 1.0")


def an_exception(kind: str, **policy: bool) -> Event:
    return {"exception_type": kind, "exception_message": "x", **({"policy": policy} if policy else {})}


OVERLOADED, TIMEOUT = an_exception("ApiOverloadedError"), an_exception("AgentTimeoutError")
VOID_OVERLOADED = an_exception("ApiOverloadedError", has_valid_reward=False)
STEPS = [
    an_exception("AgentTimeoutError", has_valid_reward=True),
    an_exception("HealthcheckError", has_valid_reward=False),
]


@pytest.mark.parametrize(
    ("exceptions", "valid", "resolved", "mode", "infrastructure"),
    [
        ([OVERLOADED], None, True, "ApiOverloadedError", 0),
        ([VOID_OVERLOADED], None, None, "ApiOverloadedError", 1),
        ([TIMEOUT], True, True, "AgentTimeoutError", 0),
        # the policy was overridden: the class of the type decides whether it is the infrastructure's
        ([TIMEOUT], False, None, "AgentTimeoutError", 0),
        ([an_exception("MyError")], False, None, "MyError", 0),
        # the step whose exception voids the reward says why there is none
        (STEPS, False, None, "HealthcheckError", 1),
    ],
)
def test_reward_valid_decides_and_the_type_says_whose_failure_it_is(
    tmp_path: Path,
    exceptions: list[Event],
    valid: bool | None,
    resolved: bool | None,
    mode: str,
    infrastructure: int,
) -> None:
    """R33."""
    steps = [{"exception_info": exception} for exception in exceptions]
    fields: Event = steps[0] if len(steps) == 1 else {"step_results": steps}
    fields |= {} if valid is None else {"reward_valid": valid}
    events, report = converted(a_job(tmp_path / "job", a_trial_result(**fields)))
    (event,) = trials_of(events)
    assert (event.get("resolved"), event["failure_mode"]) == (resolved, mode)
    assert event.get("metrics") == (None if resolved is None else {"reward": 1.0})
    (summary,) = summaries(events).values()
    assert summary["infrastructure_failures"] == infrastructure
    unknown = [line for line in remarks_of(report) if "not in harbor's tables" in line]
    assert len(unknown) == (mode == "MyError")


# -----------------------------------------------------------------------------
# Names of tasks where a job has several datasets (R34).


def from_dataset(source: str | None, name: str, number: int, **task: Any) -> Event:
    asked = {"path": f"/srv/{source}/{name}", "source": source, **task}
    agent = {"name": "codex", "model_name": "openai/gpt-5"}
    config = {"task": asked, "agent": agent}
    return a_trial_result(name, f"{name}__{number:07}", source=source, config=config)


def names_in(job: Path) -> set[str]:
    return {trial["task_id"] for trial in trials_of(converted(job)[0])}


@pytest.mark.parametrize("known_by", ["lock", "config", "results"])
def test_tasks_of_several_datasets_are_named_by_them_however_that_is_known(
    tmp_path: Path, known_by: str
) -> None:
    job = a_job(tmp_path / "job", from_dataset("a/x", "hello", 1), from_dataset("b", "hello", 2))
    if known_by == "lock":
        trials = [{"task": {"name": "hello", "source": source}} for source in ("a/x", "b")]
        write_json(job / "lock.json", {"trials": trials, "n_concurrent_trials": 1})
        assert plan_of(converted(job)[0])["tasks"] == ["a/x/hello", "b/hello"]
    if known_by == "config":
        datasets = [{"name": "a/x"}, {"path": "sets/b/"}]
        write_json(job / "config.json", {"job_name": "job", "datasets": datasets})
    assert names_in(job) == {"a/x/hello", "b/hello"}
    alone = a_job(tmp_path / "alone", from_dataset("b", "hello", 2))
    assert names_in(alone) == {"hello"}


def test_tasks_beside_a_dataset_keep_their_name(tmp_path: Path) -> None:
    job = a_job(tmp_path / "job", from_dataset("a", "hello", 1), from_dataset(None, "hello", 2))
    assert names_in(job) == {"a/hello", "hello"}


@pytest.mark.parametrize("known_by", ["lock", "config", "results"])
@pytest.mark.parametrize(("other", "names"), [("hello", {"x/hello", "y/hello"}), ("bye", {"hello", "bye"})])
def test_tasks_of_no_dataset_are_told_apart_by_directory_where_they_share_a_name(
    tmp_path: Path, known_by: str, other: str, names: set[str]
) -> None:
    tasks = {"/srv/x/hello": "hello", f"/srv/y/{other}": other}
    results = [from_dataset(None, name, n, path=path) for n, (path, name) in enumerate(tasks.items())]
    job = a_job(tmp_path / "job", *results)
    if known_by == "lock":
        locked = [{"task": {"name": name, "path": path}} for path, name in tasks.items()]
        write_json(job / "lock.json", {"trials": locked, "n_concurrent_trials": 1})
    if known_by == "config":
        write_json(job / "config.json", {"job_name": "job", "tasks": [{"path": path} for path in tasks]})
    assert names_in(job) == names


@pytest.mark.parametrize(
    ("tasks", "names"),
    [
        ([{"path": f"/srv/{team}/tasks/hello"} for team in "xy"], {"x/tasks/hello", "y/tasks/hello"}),
        ([{"path": f"{team}/hello"} for team in "xy"], {"tasks@x/hello", "tasks@y/hello"}),
        (
            [{"path": "hello", "git_commit_id": digit * 40} for digit in "12"],
            {f"tasks@{digit * 12}/hello" for digit in "12"},
        ),
        (
            [{"path": f"{version}/hello", "git_commit_id": "1" * 40} for version in ("2.0", "2.1")],
            {f"tasks@{'1' * 12}/{version}/hello" for version in ("2.0", "2.1")},
        ),
        (
            [{"path": None, "type": "package", "digest": f"sha256:{digit * 64}"} for digit in "12"],
            {f"tasks@{digit * 12}/hello" for digit in "12"},
        ),
    ],
    ids=["directories", "relative", "commits", "one commit", "packages"],
)
def test_two_datasets_of_one_label_are_told_apart_by_directory_or_commit(
    tmp_path: Path, tasks: list[Event], names: set[str]
) -> None:
    """A lock has the digest of a package, and a result has it as the package's `ref`."""
    refs = [task | {"ref": task["digest"]} if "digest" in task else task for task in tasks]
    results = [from_dataset("tasks", "hello", n, **task) for n, task in enumerate(refs)]
    job = a_job(tmp_path / "job", *results)
    locked = [{"task": {"name": "hello", "source": "tasks", **task}} for task in tasks]
    write_json(job / "lock.json", {"trials": locked, "n_concurrent_trials": 1})
    assert names_in(job) == names == set(plan_of(converted(job)[0])["tasks"])


@pytest.mark.parametrize(
    "versions",
    [
        [{"path": "hello", "git_commit_id": digit * 40} for digit in "12"],
        [{"path": None, "ref": f"sha256:{digit * 64}"} for digit in "12"],
    ],
)
def test_two_versions_of_a_dataset_are_told_apart_where_no_lock_names_their_tasks(
    tmp_path: Path, versions: list[Event]
) -> None:
    """R34: Terminal-Bench 2.0 beside 2.1."""
    results = [from_dataset("tb", "hello", number, **task) for number, task in enumerate(versions)]
    job = a_job(tmp_path / "job", *results)
    datasets = [{"name": "tb", "version": version} for version in ("2.0", "2.1")]
    write_json(job / "config.json", {"job_name": "job", "datasets": datasets})
    assert names_in(job) == {f"tb@{digit * 12}/hello" for digit in "12"}


def test_a_start_has_the_name_that_its_result_will_have(tmp_path: Path) -> None:
    job = a_job(tmp_path / "job", from_dataset("a", "hello", 1))
    locked = [{"task": {"name": "hello", "source": source}} for source in "ab"]
    write_json(job / "lock.json", {"trials": locked, "n_concurrent_trials": 1})
    result = from_dataset("b", "hello", 2)
    write_json(job / "hello__0000002" / "config.json", {**result["config"], "trial_name": "hello__0000002"})
    write_json(
        job / "hello__0000002" / "lock.json", {"task": locked[1]["task"], "agent": result["config"]["agent"]}
    )
    (start,) = [event for event in converted(job)[0] if event["type"] == "trial_started"]
    write_json(job / "hello__0000002" / "result.json", result)
    assert start["task_id"] == "b/hello"
    assert slot_of(start) in map(slot_of, trials_of(converted(job)[0]))


# -----------------------------------------------------------------------------
# The data directory of `harbor serve` (R34).


JOB = "fb4bae54-679e-42e1-a61f-a038c824a5c6"


@pytest.fixture
def served(tmp_path: Path) -> Path:
    """The data directory of a server with one job of three trials."""
    return shutil.copytree(shared_data() / "harbor" / "026-server-job", tmp_path / "data")


def test_a_job_of_a_server_is_one_run_named_by_its_id(served: Path) -> None:
    events, report = converted(served)
    assert report.runs == [JOB]
    assert plan_of(events)["tasks"] == ["easy", "hard", "api-overload"]
    assert {(event["run_id"], event["shard"]) for event in trials_of(events)} == {
        (JOB, "api-overload__YCTUAGs"),
        (JOB, "easy__7Pd9STq"),
        (JOB, "hard__Fwdgwfj"),
    }
    pooled, _ = converted(served, run_id="all")
    assert plan_of(pooled)["tasks"] == plan_of(events)["tasks"]
    assert {event["shard"].partition("/")[0] for event in trials_of(pooled)} == {JOB}


def test_trials_of_a_server_are_of_their_job_wherever_they_lie(served: Path, tmp_path: Path) -> None:
    shutil.copytree(served / "files" / "rollouts", tmp_path / "saved")
    events, report = converted(tmp_path / "saved")
    assert report.runs == [JOB]
    assert len(trials_of(events)) == 3


def test_saved_trials_of_a_server_have_the_names_of_their_datasets_without_the_lock(tmp_path: Path) -> None:
    """R34. Another job beside them has one dataset."""
    for number, (job, source) in enumerate([(JOB, "a"), (JOB, "b"), (JOB.replace("fb4b", "0000"), "a")]):
        result = from_dataset(source, "hello", number)
        rollout = tmp_path / JOB.replace("fb4bae54", f"0000000{number}")
        result["config"]["job_id"] = job
        write_json(rollout / f"hello__{number}" / "result.json", result)
    assert sorted(trial["task_id"] for trial in trials_of(converted(tmp_path)[0])) == [
        "a/hello",
        "b/hello",
        "hello",
    ]


def test_a_retry_on_a_server_replaces_its_first_try_whichever_file_is_newer(served: Path) -> None:
    (rollout,) = (served / "files" / "rollouts").glob("b95ebcbd*")
    again = rollout.with_name("00000000-1111-2222-3333-444444444444")
    shutil.copytree(rollout, again)
    (file,) = again.glob("*/result.json")
    result = json.loads(file.read_text())
    later = {"id": again.name, "exception_info": None, "reward_valid": True}
    write_json(file, result | later | {"finished_at": "2026-11-26T16:20:00Z"}, mtime_ns=1)
    events, _ = converted(served)
    (summary,) = summaries(events).values()
    assert (len(trials_of(events)), summary["trials"], summary["infrastructure_failures"]) == (4, 3, 0)


def test_planned_trials_of_a_finished_job_without_a_saved_result_are_announced(served: Path) -> None:
    """R35. While the job runs, and when it was cancelled, some are missing as a matter of course."""
    (lost,) = (served / "files" / "rollouts").glob("b95ebcbd*")
    for state, kept, notes in (
        ("finished", True, []),
        ("running", False, []),
        ("cancelled", False, []),
        ("finished", False, [f"run {JOB}: 3 trials with a result announced, 2 found"]),
    ):
        if not kept:
            shutil.rmtree(lost, ignore_errors=True)
        write_json(served / "files" / "jobs" / JOB / "job.json", {"job": {"state": state}})
        events, report = converted(served)
        assert report.notes == notes
        assert plan_of(events)["plan_complete"] is not bool(notes)


def test_the_database_of_a_server_names_its_jobs_and_ends_them(served: Path) -> None:
    assert "run_finished" not in {event["type"] for event in converted(served)[0]}
    with closing(sqlite3.connect(served / "harbor.sqlite3")) as database:
        database.execute("CREATE TABLE internal_job (id, name, state, finished_at)")
        row = (JOB, "nightly", "running", None)
        database.execute("INSERT INTO internal_job VALUES (?, ?, ?, ?)", row)
        database.commit()
        events, _ = converted(served)
        assert plan_of(events)["display_name"] == "nightly"
        assert "run_finished" not in {event["type"] for event in events}
        for state, status in (("finished", "completed"), ("cancelled", "cancelled")):
            database.execute(
                "UPDATE internal_job SET state = ?, finished_at = '2026-11-26T16:14:30Z'", [state]
            )
            database.commit()
            (finished,) = [e for e in converted(served)[0] if e["type"] == "run_finished"]
            assert (finished["status"], finished["finished_at"]) == (status, "2026-11-26T16:14:30Z")
    write_json(served / "harbor.sqlite3", "no database")
    assert "run_finished" not in {event["type"] for event in converted(served)[0]}


# -----------------------------------------------------------------------------
# The HTTP interface of `harbor serve`; a real one is in tests/hooks/test_harbor_peer.py.


class Answers(BaseHTTPRequestHandler):
    """Gives the answers of `answers`: path to status, headers and body."""

    answers: dict[str, tuple[int, dict[str, str], bytes]]
    asked: list[str | None]

    def do_GET(self) -> None:
        self.asked.append(self.headers.get("Authorization"))
        status, headers, body = self.answers.get(self.path.partition("?")[0], (404, {}, b""))
        self.send_response(status)
        for name, value in (headers | {"Content-Length": str(len(body))}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def address() -> Iterator[str]:
    Answers.answers, Answers.asked = {}, []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def listed(*items: Event) -> tuple[int, dict[str, str], bytes]:
    return 200, {}, json.dumps({"items": items, "next_page_token": ""}).encode()


def test_a_servers_job_is_copied_as_it_runs_and_no_name_leaves_the_copy(address: str, tmp_path: Path) -> None:
    lock = {"trials": [{"task": {"name": "t"}, "agent": {"name": "codex"}}], "n_concurrent_trials": 1}
    rollout = "0" * 8 + "-1111-2222-3333-444444444444"
    job = {"id": JOB, "name": "nightly", "state": "running", "finished_at": None}
    begun: Event = {"id": rollout, "job_id": JOB, "name": "t__abc1234", "state": "running"}
    begun["lock"] = lock["trials"][0]
    evil = begun | {"id": rollout.replace("1111", "5555"), "name": "../../../evil"}
    odd = begun | {"id": "../../../odd"}
    Answers.answers |= {
        "/jobs": listed(job, job | {"id": "../odd"}),
        f"/jobs/{JOB}": (200, {}, json.dumps({"job": job | {"lock_uri": "file:///lock"}}).encode()),
        "/download": (200, {}, json.dumps(lock).encode()),
        "/rollouts": listed(begun, evil, odd, begun | {"id": JOB, "state": "queued"}),
        **{
            f"/rollouts/{one['id']}": (200, {}, json.dumps({"rollout": one}).encode())
            for one in (begun, evil)
        },
    }
    copy = ServerCopy(address, tmp_path / "copy")
    copy.update()
    events, _ = converted(tmp_path / "copy")
    assert [event["type"] for event in events] == ["run_started", "trial_started"]
    assert {event["run_id"] for event in events} == {JOB}
    assert not list(tmp_path.rglob("*evil*")) + list(tmp_path.rglob("*odd*"))
    result = a_trial_result(reward_valid=True) | {"config": {"job_id": JOB, "agent": {"name": "codex"}}}
    ended = begun | {"state": "finished", "result": result}
    Answers.answers |= {
        "/jobs": listed(job | {"state": "finished", "finished_at": "2026-01-01T01:00:00Z"}),
        "/rollouts": listed(ended),
        f"/rollouts/{rollout}": (200, {}, json.dumps({"rollout": ended}).encode()),
    }
    copy.update()
    events, _ = converted(tmp_path / "copy")
    assert sorted(event["type"] for event in events) == ["run_finished", "run_started", "trial_result"]
    asked = len(Answers.asked)
    copy.update()
    assert len(Answers.asked) == asked + 1  # nothing changed, so nothing but the list of jobs is read


def test_a_servers_key_goes_to_no_other_place(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARBOR_API_KEY", "secret")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    Answers.answers["/jobs"] = (302, {"Location": f"{address}/elsewhere"}, b"")
    with pytest.raises(ServerError, match="HTTP status 302"):
        ServerCopy(address, tmp_path).update()
    assert Answers.asked == ["Bearer secret"]
    with pytest.raises(ServerError, match="not sent without encryption"):
        ServerCopy("http://harbor.example", tmp_path)


def test_what_is_no_harbor_server_is_said(address: str, tmp_path: Path) -> None:
    Answers.answers["/jobs"] = (200, {}, b"<html>")
    with pytest.raises(ServerError, match="Is this a Harbor server"):
        ServerCopy(address, tmp_path).update()
    with pytest.raises(ServerError, match="no Harbor server answers"):
        ServerCopy("http://127.0.0.1:9", tmp_path).update()
