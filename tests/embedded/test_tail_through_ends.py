"""`streamer tail` of results that are being written, through several ends of `up`."""

from __future__ import annotations

import re
import signal
import subprocess
from collections import Counter
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import orjson
import pytest

from streamer.operate.local.processes import free_port
from streamer.settings import Settings
from streamer.sources.base import ConvertOptions, ConvertReport
from streamer.sources.convert import convert
from streamer.storage.kafka import Names
from streamer.storage.log import read_topic
from tests.embedded.ends import kill_the_broker, kill_the_tree, orderly
from tests.embedded.stack import Stack, running
from tests.support.cli import COMMAND, streamer
from tests.support.tail_process import Tails, ended
from tests.support.worker_process import wait_for
from tests.worker.deployment import Deployment

SETTINGS = {"partitions": 4, "session_timeout_seconds": 3}
REAL_WORKER: list[str] = []
TRIALS, PACE_SECONDS = 60, 0.1
FEW = 15
"""So many events of a harness are there when `up` ends: most of its trials come later."""


class Following:
    """A directory of results, harnesses that write into it, and the `up` and the `tail` beside them."""

    def __init__(self, directory: Path) -> None:
        self._ports = {"port": free_port(), "redis_port": free_port()}
        self._harnesses: list[subprocess.Popen[bytes]] = []
        self.directory, self.root = directory, directory / "results"
        self.settings = Settings(
            bootstrap=f"127.0.0.1:{self._ports['port']}",
            redis=f"redis://127.0.0.1:{self._ports['redis_port']}/0",
        )
        (directory / "tail").mkdir()
        self.root.mkdir()
        self.tails = Tails(self.root, directory / "tail", self.settings)

    def up(self) -> AbstractContextManager[Stack]:
        """`up`, on the same data directory and ports as the last time."""
        return running(self.directory, worker=REAL_WORKER, ports=self._ports, **SETTINGS)

    def go_on(self, layout: str) -> None:
        """One more harness, of which some results are in the log and others are not written yet."""
        options = [
            "--layout",
            layout,
            "--out",
            self.root / layout,
            "--trials",
            TRIALS,
            "--pace",
            PACE_SECONDS,
        ]
        command = [*COMMAND, "simulate", *map(str, options)]
        self._harnesses.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        wait_for(lambda: self._results_of(layout) >= FEW, f"results of {layout}: {self.tails.printed}", 120)
        assert self._harnesses[-1].poll() is None, "it writes on"

    def end_of_harnesses(self) -> None:
        """Wait until all have written everything."""
        assert [harness.wait(120) for harness in self._harnesses] == [0] * len(self._harnesses)

    def values(self) -> set[bytes]:
        """What is in the log, each value once."""
        topic = Names(self.settings.namespace).trial_events
        return {record.value for record in read_topic(self.settings, topic)}

    def wait_until_converted(self) -> None:
        """Wait until topics and Redis say what the directory says, each result once."""
        events = list(convert([self.root], ConvertOptions(), ConvertReport()))
        deployment = Deployment(
            self.directory,
            self.settings.bootstrap,
            self.settings.redis,
            self.settings.namespace,
            embedded=True,
        )
        deployment.published += [orjson.dumps(event) for event in events]
        deployment.wait_until_equal(seconds=120)
        summaries = map(orjson.loads, deployment.latest("run-summaries").values())
        done = {summary["run_id"]: summary["progress"]["done"] for summary in summaries}
        assert done == Counter(event["run_id"] for event in events if event["type"] == "trial_result")
        assert len(done) == len(self._harnesses)

    def _results_of(self, run: str) -> int:
        return sum(e["type"] == "trial_result" and e["run_id"] == run for e in self.tails.events)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_all_that_tail_published_survives_and_in_the_end_each_result_counts_once(tmp_path: Path) -> None:
    following = Following(tmp_path)
    with ExitStack() as tails:
        first = tails.enter_context(following.tails.running())
        for layout, end in (("terminal-bench", orderly(signal.SIGINT)), ("fc-eval", kill_the_tree)):
            with following.up() as stack:
                following.go_on(layout)
                end(stack)
        with following.up() as stack:
            following.go_on("scylla")
            assert ended(first, signal.SIGINT) == 0
            kill_the_tree(stack)
        [told] = re.findall(r"([\d,]+) events published, all acknowledged", following.tails.printed)
        with following.up() as stack:
            assert len(following.values()) == int(told.replace(",", ""))
            second = tails.enter_context(following.tails.running())
            following.go_on("harbor")
            kill_the_broker(stack)
        with following.up() as stack:
            following.end_of_harnesses()
            following.wait_until_converted()
            assert ended(second, signal.SIGTERM) == 0
            environment = {"STREAMER_DISCOVERY": str(stack.discovery)}
            verified = streamer("verify", "--all", "--topics", environment=environment)
            assert verified.returncode == 0, verified.stderr
            orderly(signal.SIGTERM)(stack)
