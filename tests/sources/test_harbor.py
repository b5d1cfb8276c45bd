"""Job directories that harbor 0.25.0 itself wrote (see harbor/record.py)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from streamer.sources.base import ConvertOptions, ConvertReport
from streamer.sources.convert import convert_part, discover
from streamer.sources.harbor import Harbor, is_job, is_trial, verdict
from tests.sources.builders import Event, converted, plan_of, trials_of, write_json
from tests.sources.harbor import summaries, unpack_jobs

# -----------------------------------------------------------------------------
# How trials of harbor ended, in jobs that harbor 0.25.0 itself wrote (see harbor/record.py).


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_jobs(tmp_path_factory.mktemp("jobs"))


def trial_of(events: Iterable[Event], task: str, agent: str = "scripted") -> Event:
    (trial,) = [e for e in trials_of(events) if e["task_id"] == task and e["agent"] == agent]
    return trial


@pytest.mark.parametrize(
    ("task", "resolved", "failure_mode"),
    [
        ("easy", True, "unset"),
        ("hard", False, "unset"),
        ("half", False, "unset"),
        ("both", True, "unset"),
        ("named", True, "unset"),
        ("many", None, "unset"),
        ("acme/renamed", False, "unset"),
        ("steps", True, "unset"),
        ("flaky", False, "unset"),
        ("slow", False, "AgentTimeoutError"),
        ("exits", False, "NonZeroAgentExitCodeError"),
        ("crash", None, "RuntimeError"),
        ("unbuilt", None, "RuntimeError"),
        ("unrewarded", None, "RewardFileNotFoundError"),
    ],
)
def test_the_verdict_is_harbors_and_exceptions_are_failure_modes(
    recorded: Path, task: str, resolved: bool | None, failure_mode: str
) -> None:
    trial = trial_of(converted(recorded / "kinds")[0], task)
    assert (trial.get("resolved"), trial["failure_mode"]) == (resolved, failure_mode)
    assert "score" not in trial


@pytest.mark.parametrize(
    ("task", "metrics"),
    [
        ("easy", {"reward": 1.0}),
        ("half", {"reward": 0.5}),
        ("named", {"reward": 1.0}),
        ("both", {"reward": 1.0, "reward/style": 0.5}),
        ("many", {"reward/correctness": 1.0, "reward/style": 0.25}),
        ("crash", None),
        ("unrewarded", None),
    ],
)
def test_every_reward_is_a_metric(recorded: Path, task: str, metrics: Event | None) -> None:
    """The numbers are those of `REWARDS` in record.py, which harbor read from the verifier's files."""
    events, _ = converted(recorded / "kinds")
    assert trial_of(events, task).get("metrics") == metrics
    assert plan_of(events)["metrics"] == {"reward": {"direction": "higher"}}


def test_the_rewards_are_those_that_harbor_counted(recorded: Path) -> None:
    for job in ("kinds", "coins"):
        evals = json.loads((recorded / job / "result.json").read_text())["stats"]["evals"]
        counted = [
            (trial, float(value), name)
            for stats in evals.values()
            for name, values in stats["reward_stats"].items()
            for value, trials in values.items()
            for trial in trials
        ]
        result = [
            (event["shard"], value, name)
            for event in trials_of(converted(recorded / job)[0])
            for name, value in event.get("metrics", {}).items()
        ]
        assert len(counted) == len(result) > 0
        assert sorted(c[:2] for c in counted) == sorted(f[:2] for f in result)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("exits", "NonZeroAgentExitCodeError: exit code 3"),
        ("crash", "RuntimeError: boom"),
        ("unbuilt", "RuntimeError: no such image"),
        ("hard", None),
    ],
)
def test_the_message_is_the_exceptions(recorded: Path, task: str, message: str | None) -> None:
    assert trial_of(converted(recorded / "kinds")[0], task).get("message") == message


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        ({"": 1}, (True, None)),
        ({"reward": 0, "style": 1}, (False, None)),
        ({"reward": None}, (None, "no verdict: the reward 'reward' is None, a number is needed")),
        ({"a": 1, "b": 1}, (None, "no verdict: of the rewards 'a', 'b' none is called 'reward'")),
        ({}, (None, None)),
    ],
)
def test_the_verdict_is_of_the_only_reward_whatever_its_name(
    rewards: Event, expected: tuple[bool | None, str | None]
) -> None:
    assert verdict({"verifier_result": {"rewards": rewards}}) == expected


# -----------------------------------------------------------------------------
# Job directories that harbor 0.25.0 itself wrote (see harbor/record.py).


CLAUDE = "anthropic/claude-sonnet-4-20250514"


def test_pass_at_k_and_the_mean_reward_are_the_ones_harbor_computed(recorded: Path) -> None:
    evals = json.loads((recorded / "coins" / "result.json").read_text())["stats"]["evals"]
    result = summaries(converted(recorded / "coins")[0])
    for label, key in {"scripted:gpt-5": "scripted__gpt-5__coins", "nop:unknown": "nop__coins"}.items():
        expected = evals[key]["pass_at_k"]
        assert set(expected) == {"2", "4", "5"}
        assert {k: result[label]["pass_at_k"][k]["value"] for k in expected} == pytest.approx(expected)
        assert result[label]["accuracy"] == pytest.approx(evals[key]["metrics"][0]["mean"])


def test_tokens_and_cost_add_up_to_harbors_own_sums(recorded: Path) -> None:
    stats = json.loads((recorded / "kinds" / "result.json").read_text())["stats"]
    trials = trials_of(converted(recorded / "kinds")[0])
    cached = sum(trial.get("cache_read_tokens", 0) for trial in trials)
    assert cached == stats["n_cache_tokens"] == 14 * 400
    assert sum(trial.get("input_tokens", 0) for trial in trials) + cached == stats["n_input_tokens"]
    assert sum(trial.get("output_tokens", 0) for trial in trials) == stats["n_output_tokens"]
    assert sum(trial.get("cost_usd", 0) for trial in trials) == stats["cost_usd"]


def test_every_trial_is_one_slot_named_by_the_trial(recorded: Path) -> None:
    events, report = converted(recorded / "kinds")
    trials = trials_of(events)
    directories = {path.name for path in (recorded / "kinds").iterdir() if path.is_dir()}
    assert {trial["shard"] for trial in trials} == directories
    assert {trial["attempt"] for trial in trials} == {1}
    assert len(trials) == len(directories) == 28
    assert not report.unreadable + report.left_out


def test_a_trial_tells_agent_model_times_tokens_cost_and_length(recorded: Path) -> None:
    trial = trial_of(converted(recorded / "kinds")[0], "easy")
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
    }


def artifact(trial: Path, name: str, media_type: str) -> dict[str, str]:
    return {"name": name, "path": f"{trial.name}/{name}", "media_type": media_type}


def test_steps_of_a_task_are_summed(recorded: Path) -> None:
    trial = trial_of(converted(recorded / "kinds")[0], "steps")
    numbers = [trial[name] for name in ("input_tokens", "cache_read_tokens", "output_tokens", "cost_usd")]
    assert numbers == [1200, 800, 100, 0.25]
    assert trial["trajectory_length"] == 4


def test_an_agent_that_tells_nothing_has_no_numbers(recorded: Path) -> None:
    trial = trial_of(converted(recorded / "kinds")[0], "easy", "silent")
    numbers = {"input_tokens", "cache_read_tokens", "output_tokens", "cost_usd", "trajectory_length"}
    assert not numbers & trial.keys()
    assert trial["model"] == "unknown"


def test_several_rewards_without_a_main_one_are_explained(recorded: Path) -> None:
    _, report = converted(recorded / "kinds")
    hints = {result.path.parent.name[:4]: result.hints for result in report.explanations}
    assert hints["many"] == ("no verdict: of the rewards 'correctness', 'style' none is called 'reward'",)
    assert hints["easy"] == ()


def test_the_plan_is_the_lock(recorded: Path) -> None:
    plan = plan_of(converted(recorded / "coins")[0])
    lock = json.loads((recorded / "coins" / "lock.json").read_text())
    assert plan["tasks"] == [f"coin-{number}" for number in range(1, 6)]
    assert (plan["attempts"], plan["benchmark"], plan["started_at"]) == (5, "coins", lock["created_at"])


def test_agents_that_are_code_have_no_label_before_they_run(recorded: Path, tmp_path: Path) -> None:
    assert "agent_models" not in plan_of(converted(recorded / "coins")[0])
    lock = json.loads((recorded / "coins" / "lock.json").read_text())
    for trial in lock["trials"]:
        if "import_path" in trial["agent"]:
            trial["agent"] = {"name": "terminus-2", "model_name": "openai/gpt-5"}
    write_json(tmp_path / "coins" / "lock.json", lock)
    plan = plan_of(converted(tmp_path)[0])
    assert plan["agent_models"] == ["terminus-2:openai/gpt-5", "nop:unknown"]
    assert plan["attempts"] == 5


def test_a_job_that_redoes_some_trials_plans_no_attempts(recorded: Path, tmp_path: Path) -> None:
    lock = json.loads((recorded / "coins" / "lock.json").read_text())
    write_json(tmp_path / "coins" / "lock.json", {**lock, "trials": lock["trials"][:-1]})
    plan = plan_of(converted(tmp_path)[0])
    assert "attempts" not in plan
    assert len(plan["tasks"]) == 5


def test_a_finished_job_says_so_with_the_zone_its_times_lack(recorded: Path, tmp_path: Path) -> None:
    finished = converted(recorded / "coins")[0][-1]
    assert (finished["type"], finished["status"]) == ("run_finished", "completed")
    job = shutil.copytree(recorded / "coins", tmp_path / "coins")
    times = {"started_at": "2026-03-04T23:30:00", "finished_at": "2026-03-05T00:30:00"}
    write_json(job / "result.json", {**json.loads((job / "result.json").read_text()), **times})
    lock = {**json.loads((job / "lock.json").read_text()), "created_at": "2026-03-04T18:00:02.5Z"}
    write_json(job / "lock.json", lock)
    assert converted(job)[0][-1]["finished_at"] == "2026-03-05T00:30:00+05:30"
    (job / "lock.json").unlink()
    assert "finished_at" not in converted(job)[0][-1]


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


def test_the_plan_has_the_queue_of_the_lock_and_how_many_run_at_once(recorded: Path) -> None:
    """Two agents each take five attempts at five tasks, in rounds; harbor does not shuffle."""
    plan = plan_of(converted(recorded / "coins")[0])
    lock = json.loads((recorded / "coins" / "lock.json").read_text())
    assert plan["order"] == [f"coin-{number}" for number in range(1, 6)] * 5
    assert plan["concurrency"] == lock["n_concurrent_trials"]
    assert (plan["plan_complete"], plan.get("order_kind")) == (True, None)


def test_agents_with_different_queues_have_no_order_in_common(recorded: Path, tmp_path: Path) -> None:
    lock = json.loads((recorded / "coins" / "lock.json").read_text())
    write_json(tmp_path / "coins" / "lock.json", {**lock, "trials": lock["trials"][:-1]})
    assert "order" not in plan_of(converted(tmp_path)[0])


def test_without_its_lock_a_job_has_no_complete_plan(tmp_path: Path) -> None:
    write_json(
        tmp_path / "job" / "config.json", {"job_name": "job", "n_attempts": 2, "n_concurrent_trials": 3}
    )
    plan = plan_of(converted(tmp_path / "job")[0])
    assert (plan["attempts"], plan["concurrency"], plan["plan_complete"]) == (2, 3, False)
