"""A benchmark through SASL_SSL Kafka and TLS Redis with ACLs; and its logs, searched for every secret."""

from __future__ import annotations

import asyncio
import logging
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from streamer.client.readers import StateReader
from streamer.operate.health import read_rejections
from streamer.settings import Settings
from streamer.worker.process import ensure_topics
from tests.security.secured import SECRETS, Secured, environment
from tests.support.cli import streamer
from tests.support.events import a_trial
from tests.support.worker_process import WorkerProcess, wait_for

pytestmark = pytest.mark.kafka

TRIALS = 6


@contextmanager
def a_worker(directory: Path, given: dict[str, Any], **more: Any) -> Iterator[WorkerProcess]:
    """A worker that logs all that it can, ready; stopped in good order at the end."""
    settings = {name: value for name, value in given.items() if value is not None}
    process = WorkerProcess(directory, settings | {"log_level": "DEBUG"}, **more)
    with process:
        process.start()
        yield process
        assert process.stop() == 0, process.output[-4000:]


def lines(run: str) -> bytes:
    events = [orjson.dumps(a_trial(run_id=run, task_id=f"t{n}", tier="T0")) for n in range(TRIALS)]
    return b"".join(event + b"\n" for event in [*events, orjson.dumps(a_trial(run_id=run, attempt=0))])


def said_by(secured: Secured, user: str, *arguments: object, stdin: bytes = b"", code: int = 0) -> str:
    """Both outputs of a command of a user, who debugs."""
    given = environment(secured.given(user)) | {"STREAMER_DEBUG": "1", "STREAMER_LOG_LEVEL": "DEBUG"}
    done = streamer(*arguments, stdin=stdin, environment=given)
    assert done.returncode == code, (arguments, done.stderr)
    return (done.stdout + done.stderr).decode()


def secrets_in(text: str) -> list[str]:
    """The secrets that a text names, plain or as SASL/PLAIN and URLs write them."""
    return [secret for secret in SECRETS if secret in text or b64encode(secret.encode()).decode() in text]


def test_a_benchmark_runs_with_accounts_everywhere_and_no_secret_is_said(
    secured: Secured, tmp_path: Path
) -> None:
    run = "end to end"
    said = []
    with a_worker(tmp_path, secured.given("worker")) as worker:
        said.append(said_by(secured, "publisher", "publish", "--raw", "-", stdin=lines(run), code=1))
        with StateReader(secured.settings("reader")) as reader:
            worker.wait_until(lambda: run in [found.run_id for found in reader.runs()], "the run is there")
            worker.wait_until(lambda: reader.run(run).trials == TRIALS, "every trial counts")
        operator = secured.settings("operator")
        [rejected] = [found for found in read_rejections(operator) if found.run_id == run]
        said += [
            said_by(secured, "reader", "query", "run", run),
            said_by(secured, "reader", "query", "leaderboard", "--run", run),
            said_by(secured, "reader", "subscribe", "run", "--from-beginning", "--limit", 1),
            said_by(secured, "operator", "verify", run, "--wait", 30),
            said_by(secured, "operator", "status"),
            said_by(secured, "operator", "rejections", "show", rejected.place),
            said_by(secured, "operator", "rejections", "requeue", rejected.place, "--force"),
        ]
        wait_for(lambda: sum(r.run_id == run for r in read_rejections(operator)) == 2, "one more rejection")
        said.append(said_by(secured, "operator", "delete", run, "--yes"))
    assert "Request to" in worker.output  # the worker did log all that it can
    assert [secrets_in(text) for text in [*said, worker.output]] == [[]] * (len(said) + 1)


def test_a_worker_comes_in_with_plain_and_logs_no_password(secured: Secured, tmp_path: Path) -> None:
    """SASL/PLAIN is what aiokafka would write down at DEBUG."""
    with a_worker(tmp_path, secured.plain("worker")) as worker:
        pass
    assert "Sending username and password in the clear" in worker.output
    assert secrets_in(worker.output) == []


def test_a_worker_comes_in_with_a_client_certificate(secured: Secured, tmp_path: Path) -> None:
    certificate = secured.certificates.worker
    given = secured.given(
        "worker",
        bootstrap=secured.kafka.at("MUTUAL"),
        security_protocol="SSL",
        sasl_username=None,
        sasl_password_file=None,
        ssl_certfile=certificate,
        ssl_keyfile=certificate.with_suffix(".key"),
    )
    with a_worker(tmp_path, given):
        pass


@pytest.mark.parametrize("wrong", ["password", "certificate", "no name"])
def test_a_worker_that_is_not_let_in_ends_with_one_line(secured: Secured, tmp_path: Path, wrong: str) -> None:
    more: dict[str, Any] = {
        "password": {"sasl_password_file": None, "sasl_password": "not-the-password"},
        "certificate": {"ssl_cafile": secured.certificates.stranger},
        "no name": {"sasl_username": None},
    }[wrong]
    given = secured.given("worker", **more)
    worker = WorkerProcess(tmp_path, given)
    with worker:
        worker.start(ready=False)
        assert worker.wait() == (2 if wrong == "no name" else 1)
    lines_of_ours = [line for line in worker.output.splitlines() if " ERROR aiokafka" not in line]
    assert len(lines_of_ours) == 1, worker.output
    assert "not-the-password" not in worker.output
    assert secrets_in(worker.output) == []


def test_a_worker_with_a_wrong_redis_password_goes_on_and_says_so(secured: Secured, tmp_path: Path) -> None:
    given = secured.given("worker", redis_password_file=None, redis_password="not-the-password")
    with a_worker(tmp_path, given) as worker:
        worker.wait_until(lambda: "Redis does not take writes" in worker.output, "it says so")
        assert "invalid username-password pair" in worker.output
    assert "not-the-password" not in worker.output


def test_no_client_writes_a_password_into_a_log_of_all_that_there_is(
    secured: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever embeds the client may log everything at DEBUG."""
    caplog.set_level(logging.DEBUG)
    for given in (secured.plain("worker"), secured.given("worker")):
        asyncio.run(ensure_topics(Settings(**given)))
    assert "SaslHandShakeRequest" in caplog.text
    assert secrets_in(caplog.text) == []
