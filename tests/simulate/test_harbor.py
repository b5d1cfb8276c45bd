"""harbor's job directories: a retry takes the place of the trial that crashed."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from streamer.sources.simulate import HarborAgent, simulate_run, write_harbor
from streamer.sources.simulate.layouts import Disk
from tests.sources.builders import converted, plan_of, trials_of

START = datetime(2026, 1, 2, tzinfo=UTC)


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
