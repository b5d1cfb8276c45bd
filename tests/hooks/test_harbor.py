"""What the plug-in for harbor publishes of a job is what `convert` says of its directory."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from streamer.hooks import harbor
from streamer.hooks.harbor import HarborPlugin, JobFollower
from streamer.sources.base import slot_of
from streamer.sources.tail import LedgerFile
from tests.sources.builders import Event, converted, trials_of, write_json
from tests.sources.harbor import a_job, a_trial_result, unpack_jobs


def newest(events: list[Event]) -> dict[tuple[Any, ...], Event]:
    """The last event about each slot, and of each kind about the run."""
    return {(event["type"], *slot_of(event)): event for event in events if event["type"] != "trial_started"}


def results_in(job: Path) -> list[Event]:
    return [json.loads(file.read_text()) for file in sorted(job.glob("*/result.json"))]


@pytest.mark.parametrize("job", ["kinds", "coins"])
def test_starts_and_ends_of_a_job_are_the_events_of_convert(tmp_path: Path, job: str) -> None:
    """Job and trials are harbor's own; its hooks are called as it calls them."""
    path = unpack_jobs(tmp_path) / job
    published: list[Event] = []
    follower = JobFollower(path)
    for result in results_in(path):
        begun = result | {"verifier_result": None, "exception_info": None, "finished_at": None}
        follower.started(begun, published.append)
        follower.ended(result, published.append)
    before = len(published)
    follower.finished(published.append)
    assert newest(published) == newest(converted(path)[0])
    assert published[0]["type"] == "run_started"
    assert len(published) == before  # nothing was missing, and nothing is sent twice
    starts = [slot_of(event) for event in published if event["type"] == "trial_started"]
    assert starts == [slot_of(event) for event in published if event["type"] == "trial_result"]


def test_a_job_below_a_symbolic_link_is_published_while_it_runs(tmp_path: Path) -> None:
    result = a_trial_result(name="t0")
    a_job(tmp_path / "disk" / "job", result)
    (tmp_path / "jobs").symlink_to(tmp_path / "disk")
    published: list[Event] = []
    JobFollower(tmp_path / "jobs" / "job").ended(result, published.append)
    assert len(trials_of(published)) == 1


def test_a_resumed_job_is_complete_at_its_end(tmp_path: Path) -> None:
    path = unpack_jobs(tmp_path) / "kinds"
    published: list[Event] = []
    follower = JobFollower(path)
    follower.ended(results_in(path)[0], published.append)
    assert len(trials_of(published)) == 1
    follower.finished(published.append)
    assert newest(published) == newest(converted(path)[0])


def test_a_result_that_is_being_written_again_is_read_with_the_next(tmp_path: Path) -> None:
    job = a_job(tmp_path / "job", a_trial_result(), a_trial_result(name="t__xyz9876"))
    (job / "t0").rename(job / "t__abc1234")
    (job / "t1").rename(job / "t__xyz9876")
    write_json(job / "t__abc1234" / "result.json", '{"task_name": ')
    published: list[Event] = []
    follower = JobFollower(job)
    follower.ended(a_trial_result(), published.append)
    assert not trials_of(published)
    write_json(job / "t__abc1234" / "result.json", a_trial_result())
    follower.ended(a_trial_result(name="t__xyz9876"), published.append)
    assert len(trials_of(published)) == 2


def test_a_failed_attempt_whose_directory_is_gone_gives_nothing(tmp_path: Path) -> None:
    job = a_job(tmp_path / "job", a_trial_result())
    published: list[Event] = []
    follower = JobFollower(job)
    follower.ended(a_trial_result(name="t__gone000"), published.append)
    assert not trials_of(published)


def test_a_plan_that_could_not_be_read_is_read_again_with_the_next_event(tmp_path: Path) -> None:
    """harbor rewrites result.json at each start; that says nothing of the plan. A lock half written does."""
    path = unpack_jobs(tmp_path) / "running"
    lock = (path / "lock.json").read_text()
    write_json(path / "result.json", '{"id": ')
    write_json(path / "lock.json", lock[:100])
    published: list[Event] = []
    follower = JobFollower(path)
    first, second, third = results_in(path)[:3]
    follower.ended(first, published.append)
    write_json(path / "lock.json", lock)
    follower.ended(second, published.append)
    follower.ended(third, published.append)
    plans = [event["plan_complete"] for event in published if event["type"] == "run_started"]
    assert plans == [False, True]
    assert len(trials_of(published)) == 3


def test_a_resumed_job_withdraws_the_trials_that_are_gone(tmp_path: Path) -> None:
    """`harbor job resume` deletes trials, before it calls a plug-in, and runs them under other names."""
    path = unpack_jobs(tmp_path) / "cancelled"
    published: list[Event] = []
    file = tmp_path / "ledger.ndjson"
    with LedgerFile(file, path) as ledger_file:
        JobFollower(path, ledger_file).finished(published.append)
    before = len(trials_of(published))
    gone = [t for t in path.iterdir() if t.is_dir() and "CancelledError" in (t / "result.json").read_text()]
    for trial in gone:
        again = trial.rename(path / f"{trial.name.rpartition('__')[0]}__again00") / "result.json"
        named = json.loads(again.read_text()) | {"trial_name": again.parent.name, "exception_info": None}
        write_json(again, named)
    with LedgerFile(file, path) as ledger_file:
        JobFollower(path, ledger_file).finished(published.append)
    assert (before, len(gone)) == (8, 2)
    assert {e["shard"] for e in published if e["type"] == "trial_retracted"} == {trial.name for trial in gone}


class Job:
    """A job of harbor with what the plug-in uses of it."""

    def __init__(self, path: Path) -> None:
        self.job_dir = path
        self.hooks: list[Any] = []

    def on_trial_started(self, hook: Any) -> None:
        self.hooks.append(hook)

    on_trial_ended = on_trial_started


def test_without_a_stack_it_asks_for_nothing_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("STREAMER_DISCOVERY", str(tmp_path / "none.json"))
    monkeypatch.delenv("STREAMER_HARBOR", raising=False)
    job, plugin = Job(tmp_path), HarborPlugin()
    asyncio.run(plugin.on_job_start(job))
    asyncio.run(plugin.on_job_end(None))
    assert job.hooks == []
    assert "no stack runs on this machine" in caplog.text


def test_no_error_reaches_harbor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("STREAMER_HARBOR", "1")
    published: list[Event] = []
    publisher = SimpleNamespace(publish=published.append, close=lambda: None)
    monkeypatch.setattr(harbor, "Background", lambda name: harbor_background(name, publisher))
    job, plugin = Job(a_job(tmp_path / "job", a_trial_result())), HarborPlugin(any_option=1)

    async def run() -> None:
        await plugin.on_job_start(job)
        for hook in job.hooks:
            await hook(SimpleNamespace(result=None))
            await hook(SimpleNamespace(result=SimpleNamespace(model_dump=lambda mode: {})))
        await plugin.on_job_end(None)

    asyncio.run(run())
    assert len(job.hooks) == 2
    assert "the job goes on" in caplog.text
    assert [event["type"] for event in published] == ["run_started", "trial_result"]
    asyncio.run(HarborPlugin().on_job_start(SimpleNamespace()))
    assert "runs without it" in caplog.text


harbor_background = harbor.Background
