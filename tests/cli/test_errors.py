"""What goes wrong is one clear line on stderr and an exit code."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from streamer.operate.local.processes import free_port
from streamer.terminal import explain, without_password
from tests.cli.calling import a_run, call, ndjson
from tests.support.cli import COMMAND, streamer
from tests.support.online import Online

EVENT = b'{"type":"trial_result","run_id":"r","task_id":"t%d","resolved":true}\n'


def one_line(stderr: bytes) -> str:
    """The only line of diagnostics."""
    lines = stderr.decode().splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("streamer: ")
    return lines[0]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["fold", "no-such-file"], "no-such-file"),
        (["fold", "."], "is a directory"),
        (["convert", "no-such-directory"], "no-such-directory"),
        (["convert"], "PATHS"),
        (["fold", "--no-such-option"], "--no-such-option"),
        (["no-such-command"], "no-such-command"),
        (["--no-such-option", "fold"], "--no-such-option"),
        (["fold", "--by", "moon"], "subtest"),
        (["fold", "--namespace", "a b"], "namespace"),
        (["query", "leaderboard", "--metric", "beauty"], "accuracy"),
        (["query", "leaderboard", "--label", "x"], "KEY=VALUE"),
        (["query", "runs", "--redis", "http://x"], "redis"),
        (["query", "trials", "r", "--bootstrap", "somewhere"], "HOST:PORT"),
        (["query", "trials", "r", "--bootstrap", "a:1,b:x"], "'b:x'"),
        pytest.param(["up", "--ephemeral", "--data", "x"], "--ephemeral", marks=pytest.mark.quick),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_use_is_one_line_and_exit_code_2(arguments: list[str], says: str, tmp_path: Path) -> None:
    done = streamer(*arguments, cwd=tmp_path)
    assert says in one_line(done.stderr)
    assert (done.returncode, done.stdout) == (2, b"")


@pytest.mark.parametrize(
    "arguments", [["query", "runs"], ["query", "run", "r"], ["query", "tiers", "r", "--by", "subtest"]]
)
def test_an_absent_redis_is_one_line_without_its_password(arguments: list[str]) -> None:
    port = free_port()
    done = streamer(*arguments, "--redis", f"redis://user:secret@127.0.0.1:{port}/0")
    line = one_line(done.stderr)
    assert f"127.0.0.1:{port}" in line
    assert "secret" not in line
    assert done.returncode == 1


def test_an_absent_broker_is_one_line() -> None:
    port = free_port()
    done = streamer("query", "trials", "r", "--bootstrap", f"127.0.0.1:{port}")
    assert f"no Kafka broker answers at 127.0.0.1:{port}" in one_line(done.stderr)
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("file", "says"),
    [("partitions = 0", "partitions"), ("no toml at all [", "not TOML"), ("bootstrop = 'x'", "bootstrop")],
)
def test_a_wrong_configuration_file_is_one_line(tmp_path: Path, file: str, says: str) -> None:
    (tmp_path / "streamer.toml").write_text(file)
    done = streamer("fold", cwd=tmp_path)
    assert says in one_line(done.stderr)
    assert done.returncode == 2


def test_a_reader_that_goes_away_ends_the_command_with_one_line(tmp_path: Path) -> None:
    file = tmp_path / "events.ndjson"
    file.write_bytes(b"".join(EVENT.replace(b'"r"', b'"r%d"' % n) % n for n in range(500)))
    with subprocess.Popen(
        [*COMMAND, "fold", "--json", str(file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as fold:
        assert fold.stdout is not None
        assert fold.stderr is not None
        fold.stdout.read(1)
        fold.stdout.close()
        assert one_line(fold.stderr.read()) == "streamer: stopped: whoever read the output has closed it"
    assert fold.returncode == 141


def test_ctrl_c_ends_the_command_with_one_line() -> None:
    with subprocess.Popen(
        [*COMMAND, "fold"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as fold:
        assert fold.stdin is not None
        assert fold.stderr is not None
        fold.stdin.write(b"not an event\n" * 5000)  # reported line by line: it reads
        fold.stdin.flush()
        fold.stderr.readline()
        os.kill(fold.pid, signal.SIGINT)
        assert fold.stderr.read().decode().splitlines()[-1] == "streamer: interrupted"
    assert fold.returncode == 130


def test_only_debugging_shows_a_traceback() -> None:
    port = free_port()
    command = ("query", "runs", "--redis", f"redis://127.0.0.1:{port}")
    quiet, loud = streamer(*command), streamer(*command, environment={"STREAMER_DEBUG": "1"})
    assert b"Traceback" not in quiet.stderr
    assert b"Traceback" in loud.stderr
    assert loud.stderr.splitlines()[-1] == quiet.stderr.splitlines()[-1]


def test_a_mistake_of_ours_says_so() -> None:
    text = explain(KeyError("x"))
    assert text.startswith("internal error, KeyError")
    assert "STREAMER_DEBUG=1" in text


def test_an_error_of_the_system_names_the_file() -> None:
    assert explain(PermissionError(13, "Permission denied", "/a/b")) == "/a/b: Permission denied"


@pytest.mark.parametrize("url", ["redis://h:1/0", "rediss://:p@h:1/0?password=p", "redis://u:p@@h:1/0"])
def test_a_printed_url_has_no_password(url: str) -> None:
    assert without_password(url).removeprefix("rediss").removeprefix("redis") == "://h:1/0"


@pytest.mark.parametrize(
    "arguments", [("publish",), ("subscribe", "run"), ("runs", "set", "r", "--name", "n")]
)
def test_a_broker_that_is_away_is_one_clear_line(stack: Online, arguments: tuple[str, ...]) -> None:
    away = f"127.0.0.1:{free_port()}"
    done = call(stack, *arguments, "--bootstrap", away, stdin=ndjson(a_run("nowhere")))
    assert done.returncode == 1
    assert done.stderr.startswith(f"streamer: no Kafka broker answers at {away}. Start one".encode())
    assert done.stderr.count(b"\n") == 1
