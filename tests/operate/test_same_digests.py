"""The whole stack keeps its promise: the same events give the same digests, whatever was killed."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import orjson
import pytest

from streamer.client import TrialPublisher
from streamer.settings import Settings
from streamer.terminal.local import PROGRAM
from tests.operate.ends import End, kill_the_tree, orderly
from tests.operate.stack import REAL_WORKER, Stack, running, runs
from tests.support.worker_process import wait_for
from tests.worker.deployment import Deployment, trial_events

pytestmark = pytest.mark.stack


def deployment_on(stack: Stack, published: list[bytes]) -> Deployment:
    """What runs now, and all that was ever published to it."""
    result = stack.addresses
    return Deployment(
        stack.discovery.parent,
        result["bootstrap"],
        result["redis"],
        result["namespace"],
        embedded=True,
        partitions=result["partitions"],
        published=published,
    )


def interrupt_up(stack: Stack) -> None:
    assert stack.end(signal.SIGINT) == 0


@pytest.mark.parametrize("end", [orderly(signal.SIGKILL), interrupt_up, kill_the_tree])
@pytest.mark.in_turn(3)
def test_the_events_of_the_night_give_the_same_digests_in_the_morning(tmp_path: Path, end: End) -> None:
    with running(tmp_path, **REAL_WORKER) as stack:
        deployment = deployment_on(stack, [])
        deployment.publish(trial_events(4_000))
        end(stack)
    with running(tmp_path, **REAL_WORKER) as stack:
        deployment = deployment_on(stack, deployment.published)
        deployment.wait_until_equal()
        deployment.publish(trial_events(500, seed=2))
        deployment.wait_until_equal()
        interrupt_up(stack)


class Publishing:
    """A harness that publishes through every end of the stack, as TrialPublisher lets it."""

    def __init__(self, settings: Settings, spill: Path) -> None:
        self.published: list[bytes] = []
        self._publisher = TrialPublisher(settings, spill_dir=spill)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._publish)
        self._thread.start()

    def _publish(self) -> None:
        for event in itertools.cycle(trial_events(50_000, runs=20)):
            if self._ending.is_set():
                return
            self._publisher.publish(orjson.loads(event))
            self.published.append(event)
            time.sleep(0.001)

    def go_on_for(self, events: int) -> None:
        """Wait until so many more events are acknowledged."""
        expected = self._publisher.counts.sent + events
        wait_for(lambda: self._publisher.counts.sent >= expected, "further acknowledgements")

    def end(self) -> None:
        """Stop publishing, and wait until all is acknowledged."""
        self._ending.set()
        self._thread.join()
        assert self._publisher.flush(60)
        self._publisher.close()


@pytest.mark.in_turn(2)
def test_a_harness_that_publishes_through_every_end_finds_all_of_it_and_verify_equal(tmp_path: Path) -> None:
    harness: Publishing | None = None
    for end in (interrupt_up, kill_the_tree):
        with running(tmp_path, **REAL_WORKER) as stack:
            if harness is None:
                harness = Publishing(deployment_on(stack, []).settings, tmp_path / "spill")
            harness.go_on_for(300)
            end(stack)
    assert harness is not None
    with running(tmp_path, **REAL_WORKER) as stack:
        harness.end()
        deployment_on(stack, harness.published).wait_until_equal()
        verify = [sys.executable, "-c", PROGRAM, "verify", "--all"]
        environment = os.environ | {"STREAMER_DISCOVERY": str(stack.discovery)}
        done = subprocess.run(verify, env=environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done
        interrupt_up(stack)


def test_a_worker_killed_inside_up_comes_back_to_the_same_digests(tmp_path: Path) -> None:
    with running(tmp_path, **REAL_WORKER) as stack:
        deployment = deployment_on(stack, [])
        for seed in (1, 2):
            deployment.publish(trial_events(3_000, seed=seed))
            wait_for(lambda: deployment.latest("trials-changelog"), "the worker is at it")
            worker = stack.pid_of("streamer.worker")
            os.kill(worker, signal.SIGKILL)
            deployment.publish(trial_events(300, seed=seed + 10))
            wait_for(lambda worker=worker: not runs(worker), "the end of the worker")  # type: ignore[misc]
            wait_for(lambda: stack.other("streamer.worker"), "another worker")
        deployment.wait_until_equal()
        interrupt_up(stack)
