"""`streamer tail` as a process: against a broker, ended and killed."""

from __future__ import annotations

import asyncio
import random
import signal
import threading
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest

from streamer.settings import Settings
from streamer.sources.simulate import simulate_run
from streamer.storage.kafka import Names, partition_of, producer
from streamer.worker.process import ensure_topics
from tests.sources.builders import a_result, a_run, a_trial_file, write_json
from tests.support.cli import streamer
from tests.support.tail_process import DEADLINE_SECONDS, Tails, ended
from tests.support.tailing import Event, converted_digests, digests_of
from tests.support.worker_process import wait_for

START = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
def tails(tmp_path: Path, embedded_broker: str, namespace: str) -> Tails:
    """Tails of a directory that does not exist yet; nobody consumes, and there is no Redis."""
    settings = Settings(
        bootstrap=embedded_broker, redis="redis://127.0.0.1:1/0", namespace=namespace, partitions=2
    )
    asyncio.run(ensure_topics(settings))
    data = tmp_path / "data"
    data.mkdir()
    return Tails(tmp_path / "run1", data, settings)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_publishes_what_is_complete_and_ends_with_0(tails: Tails, number: signal.Signals) -> None:
    with tails.running() as process:
        wait_for(lambda: "following" in tails.printed, "the start")
        a_run(tails.run, [a_result()], metadata={"agent_name": "terminus"})
        wait_for(lambda: len(tails.events) == 2, "the plan and the first result")
        a_trial_file(tails.run, a_result("b"))
        assert ended(process, number) == 0
    assert digests_of(tails.events) == converted_digests(tails.run)
    assert "1 run, 2 trials; 3 events published, all acknowledged" in tails.printed


def test_once_publishes_what_is_there_and_says_what_is_unreadable(tails: Tails) -> None:
    run = a_run(tails.run, [a_result()])
    with tails.running("--once") as process:
        assert process.wait(DEADLINE_SECONDS) == 0
    broken = write_json(run / "b" / "b.1-of-1.run1" / "results.json", "{")
    with tails.running("--once") as process:
        assert process.wait(DEADLINE_SECONDS) == 1
    assert f"{broken}: not valid JSON" in tails.printed
    assert digests_of(tails.events) == converted_digests(run)


def test_once_on_a_directory_without_a_run_ends_with_1(tails: Tails) -> None:
    with tails.running("--once") as process:
        assert process.wait(DEADLINE_SECONDS) == 1
    assert f"{tails.run}: there is no such directory" in tails.printed
    tails.run.mkdir()
    with tails.running("--once") as process:
        assert process.wait(DEADLINE_SECONDS) == 1
    assert f"{tails.run}: no run of a known harness found; give the directory of a run" in tails.printed
    assert "0 runs" in tails.printed


def test_two_tails_of_one_directory_are_refused(tails: Tails) -> None:
    a_run(tails.run, [a_result()])
    with tails.running():
        wait_for(lambda: tails.events, "the first one")
        with tails.running() as second:
            assert second.wait(DEADLINE_SECONDS) == 1
    assert f"another `streamer tail` follows {tails.run}" in tails.printed


def test_tail_says_so_when_no_worker_consumes(tails: Tails) -> None:
    a_run(tails.run, [a_result()])
    with tails.running():
        wait_for(lambda: "no worker is running: 2 events wait" in tails.printed, "the remark")


def kill_and_restart(tails: Tails, layout: str, trials: int, seconds: float) -> int:
    """Simulate a run while its tail is killed again and again; how often it was killed."""
    rng = random.Random(f"{layout} {trials}")
    pace = {"pace_seconds": seconds / trials}
    harness = threading.Thread(
        target=simulate_run, args=(layout, tails.run, trials), kwargs={"seed": 9, "start": START} | pace
    )
    harness.start()
    kills = 0
    while harness.is_alive():
        with tails.running() as process:
            harness.join(0.5 + rng.random() * 3.0)
            assert process.poll() is None, tails.printed
        kills += 1
    with tails.running("--once") as process:
        assert process.wait(DEADLINE_SECONDS) == 0
    assert digests_of(tails.events) == converted_digests(tails.run)
    return kills


@pytest.mark.parametrize("layout", ["fc-eval", "terminal-bench", "scylla"])
def test_a_tail_that_is_killed_again_and_again_ends_as_convert_has_it(tails: Tails, layout: str) -> None:
    assert kill_and_restart(tails, layout, 30, 4.0) > 1


@pytest.mark.slow
def test_2000_trials_under_a_tail_that_is_killed_again_and_again_end_as_convert_has_them(
    tails: Tails,
) -> None:
    assert kill_and_restart(tails, "terminal-bench", 2_000, 12.0) > 3


def plans(tails: Tails) -> list[Event]:
    return [event for event in tails.events if event["type"] == "run_started"]


def test_the_order_is_declared_as_content_of_the_plan(tails: Tails, tmp_path: Path) -> None:
    a_run(tails.run, [a_result()], lock={"dataset": {"task_ids": ["oom", "b"]}})
    plan = write_json(
        tmp_path / "plan.json", {"order": ["b", "oom"], "order_kind": "shuffled", "attempts": 2}
    )
    for options in ([], ["--order-kind", "chosen"], ["--plan", str(plan)]):
        with tails.running("--once", *options) as process:
            assert process.wait(DEADLINE_SECONDS) == 0
    fields = ("order", "order_kind", "attempts", "tasks")
    assert [[plan.get(name) for name in fields] for plan in plans(tails)] == [
        [None, None, None, ["oom", "b"]],
        [None, "chosen", None, ["oom", "b"]],
        [["b", "oom"], "shuffled", 2, ["oom", "b"]],
    ]
    first, second, third = (plan["revision"] for plan in plans(tails))
    assert first < second < third


def test_a_declaration_that_the_lock_contradicts_is_remarked_on(tails: Tails) -> None:
    lock = {"harness": {"package": "terminal-bench", "version": "0.2.18"}, "dataset": {"task_ids": ["oom"]}}
    a_run(tails.run, [a_result()], lock=lock)
    for options in ([], ["--order-kind", "shuffled"]):
        with tails.running("--once", *options) as process:
            assert process.wait(DEADLINE_SECONDS) == 0
    assert [plan["order_kind"] for plan in plans(tails)] == ["chosen", "shuffled"]
    assert "its harness orders tasks by itself" in tails.printed


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        ('{"taskz": 1}', "'taskz' is no field of a plan"),
        ('{"run_id": "x"}', "'run_id' is no field of a plan"),
        ('{"attempts": 0}', "attempts 0: Input should be greater than or equal to 1"),
        ("[]", "holds a JSON list where an object belongs"),
    ],
)
def test_a_plan_that_is_none_is_refused(tmp_path: Path, plan: str, why: str) -> None:
    path = write_json(tmp_path / "plan.json", plan)
    done = streamer("tail", tmp_path / "run1", "--once", "--plan", path)
    assert done.returncode == 2
    assert f"--plan {path}: " in done.stderr.decode()
    assert why in done.stderr.decode()


def test_difficulty_comes_from_the_trials_of_another_run(tails: Tails) -> None:
    """The share of failures of each task, as the topic of scored trials has them; baselines do not count."""
    trials = [("oom", "x", True), ("oom", "y", False), ("b", "x", False), ("b", "oracle", True)]
    asyncio.run(publish_scored(tails.settings, "past", trials))
    a_run(tails.run, [a_result()])
    with tails.running("--once", "--difficulty-from", "past") as process:
        assert process.wait(DEADLINE_SECONDS) == 0
    assert [plan["task_difficulty"] for plan in plans(tails)] == [{"b": 1.0, "oom": 0.5}]
    with tails.running("--once", "--difficulty-from", "elsewhere") as process:
        assert process.wait(DEADLINE_SECONDS) == 1
    assert "holds nothing of run 'elsewhere'" in tails.printed


async def publish_scored(settings: Settings, run_id: str, trials: list[tuple[str, str, bool]]) -> None:
    """Scored trials as a worker publishes them, as far as the difficulty of tasks needs them."""
    async with producer(settings) as kafka:
        for version, (task, agent, success) in enumerate(trials, 1):
            value = {
                "task_id": task,
                "agent": agent,
                "success": success,
                "epoch": 1,
                "state_version": version,
            }
            key = f"{run_id}||{task}|1|{agent}|m||".encode()
            partition = partition_of(run_id, settings.partitions)
            topic = Names(settings.namespace).scored_trials
            await kafka.send_and_wait(topic, orjson.dumps(value), key, partition)
