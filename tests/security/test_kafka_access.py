"""Who gets in to Apache Kafka, and who may do what there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from streamer.client import TrialPublisher
from streamer.storage.kafka import BrokerRefuses
from streamer.worker.process import ensure_topics
from tests.security.secured import PASSWORDS, SECRETS, Secured, environment
from tests.support.cli import streamer
from tests.support.events import a_trial
from tests.support.worker_process import wait_for

pytestmark = pytest.mark.kafka

EVENT = orjson.dumps(a_trial(run_id="access")) + b"\n"


def publishing(secured: Secured, given: dict[str, Any], **more: str) -> tuple[int, str]:
    """Exit code and diagnostics of `streamer publish`, which never names a secret."""
    done = streamer("publish", stdin=EVENT, environment=environment(given) | more)
    said = (done.stdout + done.stderr).decode()
    assert not [secret for secret in (*SECRETS, "not-the-password") if secret in said]
    return done.returncode, said


def refused(secured: Secured, given: dict[str, Any]) -> str:
    """The one line with which publishing ends."""
    code, said = publishing(secured, given)
    assert (code, len(said.splitlines())) == (1, 1), said
    return said


def test_scram_over_tls_lets_in(secured: Secured) -> None:
    assert publishing(secured, secured.given("publisher")) == (
        0,
        "1 event sent and acknowledged; 0 bad lines\n",
    )


def test_plain_lets_in(secured: Secured) -> None:
    assert publishing(secured, secured.plain("publisher"))[0] == 0


def mutual(secured: Secured, certificate: Path | None) -> dict[str, Any]:
    """TLS with a client certificate, without SASL."""
    return secured.given(
        "publisher",
        bootstrap=secured.kafka.at("MUTUAL"),
        security_protocol="SSL",
        sasl_username=None,
        sasl_password_file=None,
        ssl_certfile=certificate,
        ssl_keyfile=certificate and certificate.with_suffix(".key"),
    )


def test_a_client_certificate_lets_in(secured: Secured) -> None:
    assert publishing(secured, mutual(secured, secured.certificates.publisher))[0] == 0


def test_nobody_gets_in_without_the_certificate_that_is_asked_for(secured: Secured) -> None:
    assert secured.kafka.at("MUTUAL") in refused(secured, mutual(secured, None))


@pytest.mark.parametrize("way", ["given", "plain"])
def test_a_wrong_password_is_one_line_that_names_the_user(secured: Secured, way: str) -> None:
    wrong = {"sasl_password_file": None, "sasl_password": "not-the-password"}
    given = getattr(secured, way)("publisher") | wrong
    said = refused(secured, given)
    assert "Traceback" in publishing(secured, given, STREAMER_DEBUG="1")[1]
    assert "refuses user 'publisher'" in said
    assert "STREAMER_SASL_PASSWORD" in said


def test_a_certificate_of_an_unknown_ca_is_one_line(secured: Secured) -> None:
    said = refused(secured, secured.given("publisher", ssl_cafile=secured.certificates.stranger))
    assert "certificate is not trusted" in said
    assert "STREAMER_SSL_CAFILE" in said


def test_without_a_named_ca_a_private_one_is_not_trusted(secured: Secured) -> None:
    assert "certificate is not trusted" in refused(secured, secured.given("publisher", ssl_cafile=None))


def test_the_certificate_of_another_host_is_one_line(secured: Secured) -> None:
    said = refused(secured, secured.given("publisher", bootstrap=secured.kafka.at("OTHERHOST")))
    assert "not valid for '127.0.0.1'" in said


def test_a_mechanism_that_the_port_does_not_have_is_one_line(secured: Secured) -> None:
    said = refused(secured, secured.given("publisher", sasl_mechanism="PLAIN"))
    assert "does not take PLAIN" in said


def test_a_client_that_speaks_no_tls_gets_one_line(secured: Secured) -> None:
    assert secured.kafka.at("SCRAM") in refused(
        secured, secured.given("publisher", security_protocol="SASL_PLAINTEXT")
    )


def test_a_stranger_sees_no_topic(secured: Secured) -> None:
    """A listener without any authentication: the ACLs are what is left."""
    stranger = secured.given(
        "nobody", bootstrap=secured.kafka.bootstrap, security_protocol="PLAINTEXT", sasl_password_file=None
    )
    assert "'trial-events' does not exist" in refused(secured, stranger)


COMMANDS: dict[str, tuple[tuple[str, ...], bytes]] = {
    "publish": (("publish",), EVENT),
    "events": (("events", "access"), b""),
    "subscribe": (("subscribe", "run", "--from-beginning", "--limit", "1"), b""),
    "rejections": (("rejections", "list"), b""),
}


@pytest.mark.parametrize(
    ("user", "command"),
    [
        ("publisher", "events"),
        ("publisher", "subscribe"),
        ("publisher", "rejections"),
        ("reader", "publish"),
        ("reader", "events"),
        ("reader", "rejections"),
        ("viewer", "publish"),
        ("viewer", "rejections"),
        ("nobody", "publish"),
        ("nobody", "subscribe"),
        ("worker", "rejections"),
    ],
)
def test_what_a_user_may_not_do_is_refused_in_one_line(secured: Secured, user: str, command: str) -> None:
    arguments, stdin = COMMANDS[command]
    done = streamer(*arguments, stdin=stdin, environment=environment(secured.given(user)))
    lines = [line for line in done.stderr.decode().splitlines() if line != "following; Ctrl-C ends it"]
    assert (done.returncode, done.stdout, len(lines)) == (1, b"", 1), done.stderr
    assert "uthorization" in lines[0] or "user may see it" in lines[0]
    assert not [secret for secret in SECRETS if secret in lines[0]]


async def test_a_worker_with_a_wrong_password_is_refused_at_once(secured: Secured) -> None:
    wrong = secured.settings("worker", sasl_password_file=None, sasl_password="not-the-password")
    with pytest.raises(BrokerRefuses, match="refuses user 'worker'"):
        await ensure_topics(wrong)


def test_a_harness_that_is_not_let_in_keeps_its_events_and_says_why(
    secured: Secured, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = {"sasl_password_file": None, "sasl_password": "not-the-password", "data_dir": tmp_path}
    with TrialPublisher(secured.settings("publisher", **wrong)) as publisher:
        publisher.publish(a_trial(run_id="kept"))
        wait_for(lambda: "refuses user 'publisher'" in caplog.text, "it says why")
    assert "not-the-password" not in caplog.text
    [spilled] = [file for file in tmp_path.rglob("*") if file.is_file() and b"kept" in file.read_bytes()]
    assert spilled.is_relative_to(tmp_path / "spill")


async def test_others_than_the_worker_cannot_make_topics(secured: Secured) -> None:
    for user in set(PASSWORDS) - {"admin", "worker"}:
        with pytest.raises(Exception, match="TopicAuthorizationFailed"):
            await ensure_topics(secured.settings(user, namespace="other"))
