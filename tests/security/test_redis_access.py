"""Who gets in to Redis, and who may do what there."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import redis

from streamer.client.queries import ReaderError
from streamer.client.readers import AsyncStateReader, StateReader
from streamer.settings import Settings
from streamer.storage.entries import Keys
from streamer.storage.redis import RedisSink
from tests.security.secured import REDIS_PASSWORDS, SECRETS, SecretFiles, environment
from tests.support.builders import a_run_change, an_agent_model_change, an_update
from tests.support.certificates import Certificates
from tests.support.cli import streamer
from tests.support.secure_servers import SecureRedis


@pytest.fixture
def given(secure_redis: SecureRedis, certificates: Certificates, secret_files: SecretFiles) -> dict[str, Any]:
    """Settings of the user `reader`."""
    return {
        "redis": secure_redis.url("reader"),
        "redis_password_file": secret_files("redis-reader", REDIS_PASSWORDS["reader"]),
        "redis_cafile": certificates.ca,
    }


@pytest.fixture
def worker(given: dict[str, Any], secure_redis: SecureRedis, secret_files: SecretFiles) -> Settings:
    """Settings of the user `worker`."""
    file = secret_files("redis-worker", REDIS_PASSWORDS["worker"])
    return Settings(**given | {"redis": secure_redis.url("worker"), "redis_password_file": file})


async def written(settings: Settings, *runs: str) -> RedisSink:
    """A sink that has written something of each run, and was closed."""
    sink = RedisSink.from_settings(settings)
    await sink.heartbeat("w", {"partitions": []}, at=datetime.now(UTC))
    for run in runs:
        await sink.write([an_update(a_run_change(run, benchmark="b"), an_agent_model_change(run))])
    await sink.close()
    return sink


async def test_worker_and_reader_may_do_what_they_have_to(worker: Settings, given: dict[str, Any]) -> None:
    sink = await written(worker, "allowed")
    assert (sink.unsent, sink.away) == (0, False)
    with StateReader(Settings(**given)) as reader:
        assert reader.run("allowed").run_id == "allowed"
        assert reader.agents("allowed")
        assert [row.run for row in reader.leaderboard("accuracy", run="allowed")] == ["allowed"]
        assert reader.workers() == []  # its heartbeat went with it
    async with AsyncStateReader(Settings(**given)) as reading:
        assert [run.run_id for run in await reading.runs()] == ["allowed"]


async def test_redis_that_is_gone_from_a_worker_for_its_permissions_is_said_without_the_secret(
    given: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """A worker with the reader's account: nothing is lost, and the log says why nothing arrives."""
    sink = await written(Settings(**given), "r")
    assert sink.unsent > 0
    assert "no permissions" in caplog.text
    assert not [secret for secret in SECRETS if secret in caplog.text]


COMMANDS_OF_WRITERS = [
    ("SET", "streamer:{r}:run", "x"),
    ("DEL", "streamer:{r}:run"),
    ("EVAL", "return 1", 0),
    ("FLUSHALL",),
    ("CONFIG", "GET", "*"),
    ("KEYS", "*"),
    ("PUBLISH", "streamer:updates", "{}"),
    ("GET", "of another application"),
    ("SUBSCRIBE", "of another application"),
    ("ACL", "LIST"),
]


@pytest.mark.parametrize("command", COMMANDS_OF_WRITERS, ids=lambda command: command[0])
def test_a_reader_may_only_read_and_only_ours(given: dict[str, Any], command: tuple[str | int, ...]) -> None:
    settings = Settings(**given)
    client = redis.Redis.from_url(settings.redis, **settings.redis_options())
    with client, pytest.raises(redis.exceptions.NoPermissionError):
        client.execute_command(*command)


@pytest.mark.parametrize(
    "command", [("SET", "foreign", "x"), ("FLUSHALL",), ("CONFIG", "GET", "*"), ("KEYS", "*")]
)
def test_a_worker_may_only_touch_our_keys(worker: Settings, command: tuple[str, ...]) -> None:
    client = redis.Redis.from_url(worker.redis, **worker.redis_options())
    with client, pytest.raises(redis.exceptions.NoPermissionError):
        client.execute_command(*command)


def refused(given: dict[str, Any], debug: str = "") -> str:
    """What a query says that ends with one line (behind the traceback, for who debugs), without secrets."""
    done = streamer("query", "runs", environment=environment(given) | {"STREAMER_DEBUG": debug})
    said = done.stderr.decode()
    assert (done.returncode, done.stdout) == (1, b""), said
    assert "Traceback" in said if debug else len(said.splitlines()) == 1
    assert not [secret for secret in (*SECRETS, "not-the-password") if secret in said]
    return said


def test_a_wrong_password_is_one_line(given: dict[str, Any]) -> None:
    said = refused(given | {"redis_password_file": None, "redis_password": "not-the-password"})
    assert "refuses (invalid username-password pair" in said


def test_a_wrong_password_in_the_url_is_not_printed(given: dict[str, Any], secure_redis: SecureRedis) -> None:
    url = secure_redis.url("reader").replace("reader@", "reader:not-the-password@")
    for debug in ("", "1"):
        assert "refuses" in refused(given | {"redis_password_file": None, "redis": url}, debug)


def test_somebody_without_a_name_is_refused(given: dict[str, Any], secure_redis: SecureRedis) -> None:
    assert "refuses" in refused(given | {"redis_password_file": None, "redis": secure_redis.url()})


@pytest.mark.parametrize("ca", ["stranger", None])
def test_a_certificate_that_is_not_trusted_is_one_line(
    given: dict[str, Any], certificates: Certificates, ca: str | None
) -> None:
    cafile: Path | None = getattr(certificates, ca) if ca else None
    said = refused(given | {"redis_cafile": cafile})
    assert "certificate that is not trusted" in said
    assert "STREAMER_REDIS_CAFILE" in said


def test_the_certificate_of_another_host_is_not_trusted(given: dict[str, Any]) -> None:
    """127.0.0.2 is this host too, and not in the certificate."""
    settings = Settings(**given | {"redis": given["redis"].replace("127.0.0.1", "127.0.0.2")})
    options = settings.redis_options()
    assert options["ssl_check_hostname"] is True
    with pytest.raises(ReaderError, match="IP address mismatch"), StateReader(settings) as reader:
        reader.runs()


def test_names_of_a_namespace_lie_under_its_prefix() -> None:
    """What the pattern of an ACL relies on."""
    keys = Keys("team-a")
    assert keys.run("r").startswith("team-a:streamer:")
    assert keys.updates == "team-a:streamer:updates"
