"""A harness publishes: what it may say, what it is told, and that everything arrives."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from streamer.client import AsyncTrialPublisher, TrialPublisher
from streamer.schemas.events import EVENT
from streamer.settings import Settings
from streamer.worker.process import ensure_topics
from tests.publish.publishing import DEADLINE_SECONDS, arrived, events, settings_of, tasks
from tests.support.events import a_trial


def test_each_helper_publishes_its_event(publisher: TrialPublisher, settings: Settings) -> None:
    start = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    publisher.run_started(run_id="r", tasks=["t1"], attempts=2, started_at=start, labels={"team": "x"})
    publisher.trial(run_id="r", task_id="t1", agent="a", model="m", resolved=True, cost_usd=0.5, tier=None)
    publisher.retract(run_id="r", task_id="t1", agent="a", model="m", revision=3)
    publisher.run_finished(run_id="r", status="done")
    publisher.publish(EVENT.validate_python({"type": "run_finished", "run_id": "r2"}))
    assert publisher.flush(DEADLINE_SECONDS)
    found = {(event["type"], event["run_id"]): event for event in events(settings)}
    assert len(found) == 5
    assert found["run_started", "r"]["started_at"].startswith("2026-01-02T03:04:05")
    assert found["trial_result", "r"]["cost_usd"] == 0.5
    assert found["trial_retracted", "r"]["revision"] == 3
    assert found["run_finished", "r"]["status"] == "done"


def test_a_start_arrives_with_its_slot_time_and_position(
    publisher: TrialPublisher, settings: Settings
) -> None:
    start = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    publisher.started(run_id="r", task_id="t1", attempt=2, agent="a", model="m", started_at=start, position=7)
    assert publisher.flush(DEADLINE_SECONDS)
    (found,) = events(settings)
    assert found == {
        "type": "trial_started",
        "run_id": "r",
        "task_id": "t1",
        "attempt": 2,
        "agent": "a",
        "model": "m",
        "started_at": "2026-01-02T03:04:05Z",
        "position": 7,
    }


async def test_a_start_is_published_from_asyncio_too(settings: Settings, tmp_path: Path) -> None:
    async with AsyncTrialPublisher(settings, spill_dir=tmp_path) as publisher:
        publisher.started(run_id="r", task_id="t1", agent="a", model="m", position=0)
        assert await publisher.flush(DEADLINE_SECONDS)
    (found,) = await asyncio.to_thread(events, settings)
    assert (found["type"], found["task_id"], found["position"]) == ("trial_started", "t1", 0)


def test_many_threads_may_publish_at_once(publisher: TrialPublisher, settings: Settings) -> None:
    def work(first: int) -> None:
        for number in range(first, 400, 4):
            publisher.trial(run_id=f"run {number % 7}", task_id=f"task-{number}")

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert publisher.flush(DEADLINE_SECONDS)
    assert arrived(settings) == dict.fromkeys(tasks(400), 1)
    counts = publisher.counts
    assert (counts.sent, counts.rejected, counts.pending, counts.files) == (400, 0, 0, ())


def test_an_event_is_taken_as_it_is_at_the_call(publisher: TrialPublisher, settings: Settings) -> None:
    event = a_trial(
        task_id="before", tests={"status": "ok", "passed": 1}, benchmarks={"b": {"agent/nop": 0.5}}
    )
    publisher.publish(event)
    event["task_id"] = "after"
    event["tests"]["passed"] = 2
    event["benchmarks"]["b"]["agent/nop"] = 0.75
    assert publisher.flush(DEADLINE_SECONDS)
    [found] = events(settings)
    assert (found["task_id"], found["tests"]["passed"]) == ("before", 1)
    assert found["benchmarks"] == {"b": {"agent/nop": 0.5}}


def test_after_close_nothing_is_taken_and_closing_again_does_no_harm(
    settings: Settings, tmp_path: Path
) -> None:
    publisher = TrialPublisher(settings, spill_dir=tmp_path)
    publisher.publish(a_trial())
    assert publisher.close() == publisher.close()
    assert (publisher.counts.sent, publisher.counts.pending) == (1, 0)
    with pytest.raises(RuntimeError, match="closed"):
        publisher.publish(a_trial())
    assert list(tmp_path.iterdir()) == []


async def test_an_async_publisher_never_holds_up_its_loop(
    embedded_broker: str, namespace: str, tmp_path: Path
) -> None:
    settings = settings_of(embedded_broker, namespace)
    async with AsyncTrialPublisher(settings, spill_dir=tmp_path) as publisher:
        for number in range(50):  # there are no topics yet
            publisher.trial(run_id="r", task_id=f"task-{number}")
        await ensure_topics(settings)
        assert await publisher.flush(DEADLINE_SECONDS)
    assert (await publisher.close()).sent == 50


AT_EXIT = """
import sys
from streamer.client import Settings, TrialPublisher
bootstrap, namespace, directory = sys.argv[1:]
settings = Settings(bootstrap=bootstrap, namespace=namespace, embedded=True)
publisher = TrialPublisher(settings, spill_dir=directory)
for number in range(20):
    publisher.trial(run_id="r", task_id=f"task-{number}")
"""


def test_a_process_that_ends_without_close_delivers_at_exit(settings: Settings, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", AT_EXIT, settings.bootstrap, settings.namespace]
    done = subprocess.run([*command, str(tmp_path)], capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
    assert set(arrived(settings)) == tasks(20)


def test_in_a_forked_child_the_parents_publisher_refuses_and_a_new_one_works(
    publisher: TrialPublisher, settings: Settings, tmp_path: Path
) -> None:
    publisher.trial(run_id="r", task_id="task-0")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with pytest.raises(RuntimeError, match="Make a new one in the child"):
                publisher.trial(run_id="r", task_id="never")
            with TrialPublisher(settings, spill_dir=tmp_path / "child") as fresh:
                fresh.trial(run_id="r", task_id="task-1")
            code = 0 if fresh.counts.sent == 1 else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    publisher.trial(run_id="r", task_id="task-2")
    assert publisher.flush(DEADLINE_SECONDS)
    assert set(arrived(settings)) == tasks(3)
