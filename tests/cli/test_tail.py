"""`streamer tail` as a process: against a broker, ended and killed."""

from __future__ import annotations

import asyncio
import random
import signal
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from streamer.settings import Settings
from streamer.simulate import simulate_run
from streamer.worker.process.topics import ensure_topics
from tests.sources.builders import a_result, a_run, a_trial_file, write_json
from tests.support.tail_process import DEADLINE_SECONDS, Tails, ended
from tests.support.tailing import converted_digests, digests_of
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
