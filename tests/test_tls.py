"""One side speaks TLS and the other does not: one clear line within seconds, from every command."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from streamer.operate.local.processes import free_port
from streamer.settings import mismatch
from streamer.storage.kafka import KAFKA_HELLO
from streamer.storage.redis import REDIS_HELLO
from streamer.web import listening
from tests.support.certificates import Certificates
from tests.support.cli import streamer
from tests.support.servers import RedisServer
from tests.support.tls_front import TlsFront

MOST_SECONDS = 20.0
"""Seconds that a command may take here, its start on a busy machine included."""

OF_KAFKA = [
    ["status"],
    ["verify", "--all"],
    ["query", "trials", "r"],
    ["publish", "events.ndjson"],
    ["subscribe", "run"],
    ["events", "r"],
    ["rejections", "list"],
    ["runs", "set", "r", "--name", "x"],
    ["tail", "run-directory"],
    ["worker"],
]
OF_REDIS = [
    ["status"],
    ["query", "runs"],
    ["query", "leaderboard"],
    ["report", "r"],
    ["serve", "--port", "18721"],
    ["notify", "--all", "--notify", "json://127.0.0.1:1/"],
    ["worker"],
]
CANNOT_VERIFY = 3


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "events.ndjson").write_text('{"type":"run_finished","run_id":"r"}\n')
    (tmp_path / "run-directory").mkdir()
    return tmp_path


@pytest.fixture
def kafka_with_tls(certificates: Certificates, embedded_broker: str) -> Iterator[str]:
    with TlsFront(certificates, int(embedded_broker.rpartition(":")[2])) as front:
        yield f"127.0.0.1:{front.port}"


@pytest.fixture
def redis_with_tls(certificates: Certificates, redis_server: RedisServer) -> Iterator[int]:
    with TlsFront(certificates, redis_server.port) as front:
        yield front.port


def told(arguments: list[str], here: Path, environment: Mapping[str, str]) -> str:
    """The one line about TLS that a command ends with, in time."""
    start = time.monotonic()
    done = streamer(*arguments, cwd=here, environment=environment)
    assert time.monotonic() - start < MOST_SECONDS
    assert done.returncode in (1, 2, CANNOT_VERIFY)
    [line] = [line for line in done.stderr.decode().splitlines() if "speak" in line]
    assert "Traceback" not in done.stderr.decode()
    return line


def names(arguments: list[str]) -> str:
    return " ".join(arguments[:2])


@pytest.mark.slow
@pytest.mark.parametrize("arguments", OF_KAFKA, ids=names)
def test_plaintext_to_a_kafka_with_tls(
    arguments: list[str], here: Path, kafka_with_tls: str, redis_server: RedisServer
) -> None:
    environment = {"STREAMER_BOOTSTRAP": kafka_with_tls, "STREAMER_REDIS": redis_server.url}
    line = told(arguments, here, environment)
    assert f"Kafka at {kafka_with_tls} speaks TLS at this port" in line
    assert "STREAMER_SECURITY_PROTOCOL is PLAINTEXT. Set it to SSL" in line


@pytest.mark.slow
@pytest.mark.parametrize("arguments", OF_KAFKA, ids=names)
def test_tls_to_a_kafka_without(
    arguments: list[str],
    here: Path,
    embedded_broker: str,
    redis_server: RedisServer,
    certificates: Certificates,
) -> None:
    environment = {
        "STREAMER_BOOTSTRAP": embedded_broker,
        "STREAMER_REDIS": redis_server.url,
        "STREAMER_SECURITY_PROTOCOL": "SSL",
        "STREAMER_SSL_CAFILE": str(certificates.ca),
    }
    line = told(arguments, here, environment)
    assert f"Kafka at {embedded_broker} does not speak TLS at this port" in line
    assert "Set it to PLAINTEXT" in line


@pytest.mark.slow
@pytest.mark.parametrize("arguments", OF_REDIS, ids=names)
def test_plaintext_to_a_redis_with_tls(
    arguments: list[str], here: Path, embedded_broker: str, redis_with_tls: int
) -> None:
    url = f"redis://user:secret@127.0.0.1:{redis_with_tls}/0"
    environment = {"STREAMER_BOOTSTRAP": embedded_broker, "STREAMER_REDIS": url}
    line = told(arguments, here, environment)
    assert f"Redis at 127.0.0.1:{redis_with_tls} speaks TLS at this port" in line
    assert "Write rediss://" in line
    assert "secret" not in line


@pytest.mark.slow
@pytest.mark.parametrize("arguments", OF_REDIS, ids=names)
def test_tls_to_a_redis_without(
    arguments: list[str], here: Path, embedded_broker: str, redis_server: RedisServer
) -> None:
    url = f"rediss://127.0.0.1:{redis_server.port}/0"
    line = told(arguments, here, {"STREAMER_BOOTSTRAP": embedded_broker, "STREAMER_REDIS": url})
    assert f"Redis at 127.0.0.1:{redis_server.port} does not speak TLS at this port" in line
    assert "Write redis://" in line


def test_servers_that_agree_or_are_away_are_no_mismatch(
    certificates: Certificates, redis_server: RedisServer, redis_with_tls: int, embedded_broker: str
) -> None:
    kafka = int(embedded_broker.rpartition(":")[2])
    assert mismatch("127.0.0.1", redis_server.port, REDIS_HELLO, tls=False) is None
    assert mismatch("127.0.0.1", redis_with_tls, REDIS_HELLO, tls=True) is None
    assert mismatch("127.0.0.1", kafka, KAFKA_HELLO, tls=False) is None
    away = free_port()
    for tls in (True, False):
        assert mismatch("127.0.0.1", away, KAFKA_HELLO, tls=tls) is None


@pytest.mark.kafka
def test_apache_kafka_is_known_by_its_answer(kafka_bootstrap: str) -> None:
    host, _, port = kafka_bootstrap.rpartition(":")
    assert mismatch(host, int(port), KAFKA_HELLO, tls=False) is None
    assert mismatch(host, int(port), KAFKA_HELLO, tls=True) == "does not speak TLS at this port"


def test_a_taken_port_of_serve_is_one_line(redis_server: RedisServer) -> None:
    with listening("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        done = streamer("serve", "--port", port, "--redis", redis_server.url)
    [line] = done.stderr.decode().splitlines()
    assert f"Cannot listen on 127.0.0.1 port {port}" in line
    assert "--port" in line
    assert done.returncode == 1
