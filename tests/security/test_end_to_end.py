"""A benchmark through SASL_SSL Kafka and TLS Redis with ACLs; and its logs, searched for every secret."""

from __future__ import annotations

import asyncio
import logging
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from streamer.client import TrialPublisher
from streamer.client.readers import StateReader
from streamer.operate.health import read_rejections
from streamer.settings import Settings
from streamer.worker.process import ensure_topics
from tests.security.secured import PASSWORDS, SECRETS, WRONG, WRONG_FOR_REDIS, Secured, environment
from tests.support.cli import streamer
from tests.support.events import a_trial
from tests.support.worker_process import WorkerProcess, wait_for
from tests.terminal.calling import ndjson
from tests.web.serving import Serving

pytestmark = pytest.mark.kafka

TRIALS = 6


@contextmanager
def a_worker(directory: Path, given: dict[str, Any]) -> Iterator[WorkerProcess]:
    """A worker that logs all that it can, ready; stopped in good order at the end."""
    with WorkerProcess(directory, given | {"log_level": "DEBUG"}) as process:
        process.start()
        yield process
        assert process.stop() == 0, process.output[-4000:]


def said_by(secured: Secured, user: str, *arguments: object, stdin: bytes = b"", code: int = 0) -> str:
    given = environment(secured.given(user)) | {"STREAMER_DEBUG": "1", "STREAMER_LOG_LEVEL": "DEBUG"}
    done = streamer(*arguments, stdin=stdin, environment=given)
    assert done.returncode == code, (arguments, done.stderr)
    return (done.stdout + done.stderr).decode()


def secrets_in(text: str) -> list[str]:
    """The secrets that a text names, plain or as SASL/PLAIN and URLs write them."""
    return [secret for secret in SECRETS if secret in text or b64encode(secret.encode()).decode() in text]


def test_a_benchmark_runs_with_accounts_and_no_secret_is_said(secured: Secured, tmp_path: Path) -> None:
    run, said = "end to end", []
    with a_worker(tmp_path, secured.given("worker")) as worker:
        events = [a_trial(run_id=run, task_id=f"t{n}", tier="T0") for n in range(TRIALS)]
        sent = ndjson([*events, a_trial(run_id=run, attempt=0)])
        said.append(said_by(secured, "publisher", "publish", "--raw", "-", stdin=sent, code=1))
        with StateReader(secured.settings("reader")) as reader:
            worker.wait_until(lambda: run in [result.run_id for result in reader.runs()], "the run is there")
            worker.wait_until(lambda: reader.run(run).trials == TRIALS, "every trial counts")
        operator = secured.settings("operator")
        [rejected] = [result for result in read_rejections(operator) if result.run_id == run]
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
    with a_worker(tmp_path, mutual(secured, "worker", secured.certificates.worker)):
        pass


@pytest.mark.parametrize("wrong", ["password", "certificate", "no name"])
def test_a_worker_that_is_not_let_in_ends_with_one_line(secured: Secured, tmp_path: Path, wrong: str) -> None:
    more: dict[str, Any] = {
        "password": WRONG,
        "certificate": {"ssl_cafile": secured.certificates.stranger},
        "no name": {"sasl_username": None},
    }[wrong]
    with WorkerProcess(tmp_path, secured.given("worker", **more)) as worker:
        worker.start(ready=False)
        assert worker.wait() == (2 if wrong == "no name" else 1)
    lines_of_ours = [line for line in worker.output.splitlines() if " ERROR aiokafka" not in line]
    assert len(lines_of_ours) == 1, worker.output
    assert secrets_in(worker.output) == []


def test_a_worker_with_a_wrong_redis_password_goes_on_and_says_so(secured: Secured, tmp_path: Path) -> None:
    with a_worker(tmp_path, secured.given("worker", **WRONG_FOR_REDIS)) as worker:
        worker.wait_until(lambda: "Redis accepts no writes" in worker.output, "it says so")
        assert "invalid username-password pair" in worker.output
    assert secrets_in(worker.output) == []


def test_no_client_writes_a_password_into_a_log_of_all_that_there_is(
    secured: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever embeds the client may log everything at DEBUG."""
    caplog.set_level(logging.DEBUG)
    for given in (secured.plain("worker"), secured.given("worker")):
        asyncio.run(ensure_topics(Settings(**given)))
    assert "SaslHandShakeRequest" in caplog.text
    assert secrets_in(caplog.text) == []


# -----------------------------------------------------------------------------
# Who gets in to Apache Kafka, and who may do what there.


EVENT = ndjson([a_trial(run_id="access")])


def publishing(secured: Secured, given: dict[str, Any], **more: str) -> tuple[int, str]:
    """Exit code and diagnostics of `streamer publish`, which never names a secret."""
    done = streamer("publish", stdin=EVENT, environment=environment(given) | more)
    said = (done.stdout + done.stderr).decode()
    assert secrets_in(said) == []
    return done.returncode, said


def refused(secured: Secured, given: dict[str, Any]) -> str:
    """The one line with which publishing ends."""
    code, said = publishing(secured, given)
    assert (code, len(said.splitlines())) == (1, 1), said
    return said


def mutual(secured: Secured, user: str, certificate: Path | None) -> dict[str, Any]:
    key = certificate and certificate.with_suffix(".key")
    given = {"bootstrap": secured.kafka.at("MUTUAL"), "security_protocol": "SSL", "sasl_username": None}
    return secured.given(user, **given, sasl_password_file=None, ssl_certfile=certificate, ssl_keyfile=key)


def test_scram_over_tls_plain_and_a_client_certificate_let_in(secured: Secured) -> None:
    sent = (0, "1 event sent and acknowledged; 0 bad lines\n")
    assert publishing(secured, secured.given("publisher")) == sent
    assert publishing(secured, secured.plain("publisher")) == sent
    assert publishing(secured, mutual(secured, "publisher", secured.certificates.publisher)) == sent


def test_nobody_gets_in_without_the_certificate_or_the_tls_that_is_asked_for(secured: Secured) -> None:
    assert secured.kafka.at("MUTUAL") in refused(secured, mutual(secured, "publisher", None))
    plaintext = secured.given("publisher", security_protocol="SASL_PLAINTEXT")
    assert secured.kafka.at("SCRAM") in refused(secured, plaintext)


@pytest.mark.parametrize("way", ["given", "plain"])
def test_a_wrong_password_is_one_line_that_names_the_user(secured: Secured, way: str) -> None:
    given = getattr(secured, way)("publisher") | WRONG
    said = refused(secured, given)
    assert "Traceback" in publishing(secured, given, STREAMER_DEBUG="1")[1]
    assert "refuses user 'publisher'" in said
    assert "STREAMER_SASL_PASSWORD" in said


def test_what_does_not_fit_a_port_is_one_line_that_says_why(secured: Secured) -> None:
    unknown, other_host = secured.certificates.stranger, secured.kafka.at("OTHERHOST")
    for given, *words in (
        ({"ssl_cafile": unknown}, "certificate is not trusted", "STREAMER_SSL_CAFILE"),
        ({"ssl_cafile": None}, "certificate is not trusted"),
        ({"bootstrap": other_host}, "not valid for '127.0.0.1'"),
        ({"sasl_mechanism": "PLAIN"}, "rejects PLAIN"),
    ):
        said = refused(secured, secured.given("publisher", **given))
        assert all(word in said for word in words), (given, said)


def test_a_stranger_sees_no_topic(secured: Secured) -> None:
    """A listener without any authentication: the ACLs are what is left."""
    anonymous = {"security_protocol": "PLAINTEXT", "sasl_password_file": None}
    stranger = secured.given("nobody", bootstrap=secured.kafka.bootstrap, **anonymous)
    assert "'trial-events' does not exist" in refused(secured, stranger)


COMMANDS = {
    "publish": "publish",
    "events": "events access",
    "subscribe": "subscribe run --from-beginning --limit 1",
    "rejections": "rejections list",
}
MAY_NOT = {
    "publisher": ("events", "subscribe", "rejections"),
    "reader": ("publish", "events", "rejections"),
    "viewer": ("publish", "rejections"),
    "nobody": ("publish", "subscribe"),
    "worker": ("rejections",),
}


@pytest.mark.parametrize(("user", "command"), [(user, one) for user, of in MAY_NOT.items() for one in of])
def test_what_a_user_may_not_do_is_refused_in_one_line(secured: Secured, user: str, command: str) -> None:
    words = COMMANDS[command].split()
    done = streamer(*words, stdin=EVENT, environment=environment(secured.given(user)))
    lines = [line for line in done.stderr.decode().splitlines() if line != "following; Ctrl-C ends it"]
    assert (done.returncode, done.stdout, len(lines)) == (1, b"", 1), done.stderr
    assert "uthorization" in lines[0] or "your user's rights" in lines[0]
    assert secrets_in(lines[0]) == []


def test_a_harness_that_is_not_let_in_keeps_its_events_and_says_why(
    secured: Secured, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with TrialPublisher(secured.settings("publisher", data_dir=tmp_path, **WRONG)) as publisher:
        publisher.publish(a_trial(run_id="kept"))
        wait_for(lambda: "refuses user 'publisher'" in caplog.text, "it says why")
    assert secrets_in(caplog.text) == []
    [spilled] = [file for file in tmp_path.rglob("*") if file.is_file() and b"kept" in file.read_bytes()]
    assert spilled.is_relative_to(tmp_path / "spill")


async def test_others_than_the_worker_cannot_make_topics(secured: Secured) -> None:
    for user in set(PASSWORDS) - {"admin", "worker"}:
        with pytest.raises(Exception, match="TopicAuthorizationFailed"):
            await ensure_topics(secured.settings(user, namespace="other"))


RUN = "looked at"
MESSAGE = "AssertionError: the troll lives"


def test_reader_lists_trials_and_says_what_is_missing_and_viewer_shows_what_harnesses_said(
    secured: Secured, tmp_path: Path
) -> None:
    event = a_trial(run_id=RUN, resolved=False, failure_mode="agent_timeout", message=MESSAGE)
    with a_worker(tmp_path, secured.given("worker")) as worker:
        said_by(secured, "publisher", "publish", stdin=ndjson([event]))
        with StateReader(secured.settings("reader")) as reader:
            worker.wait_until(lambda: RUN in [result.run_id for result in reader.runs()], "the run is there")
    for user, reason in (("reader", None), ("viewer", MESSAGE)):
        with Serving(secured.settings(user)) as serving:
            run = f"/api/runs/{RUN.replace(' ', '%20')}"
            [trial] = serving.get(f"{run}/trials").json()["trials"]
            assert trial["reason"] == reason
            failures = serving.get(f"{run}/failures")
            event_of = serving.get(f"{run}/trials/{trial['id']}/event")
            if user == "viewer":
                assert [group["example"] for group in failures.json()] == [MESSAGE]
                assert event_of.json()["message"] == MESSAGE
            else:
                assert (failures.status, event_of.status) == (501, 501)
                assert "may not read topic 'trial-events'" in failures.json()["detail"]
                assert MESSAGE.encode() not in event_of.body
