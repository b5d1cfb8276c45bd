"""Secrets: from files or the environment, and never said."""

from __future__ import annotations

import logging

import pytest
from aiokafka.protocol.admin import SaslAuthenticateRequest
from hypothesis import assume, given
from hypothesis import strategies as st

from streamer.settings import Settings
from streamer.storage.redis import BadRedisUrl, address
from streamer.terminal import explain, without_password
from tests.support.cli import streamer

SECRET = "s3cr/et?#@:%41"
SASL = {"security_protocol": "SASL_SSL", "sasl_username": "u"}


@pytest.mark.parametrize(
    "url",
    [
        f"redis://u:{SECRET}@h:1/0",
        f"redis://:{SECRET}@h:1",
        f"rediss://h:1/0?password={SECRET}",
        f"{SECRET}@h:1",
        f"redis:/u:{SECRET}@h",
        "redis://u:s3cr@h:s3cr/0",
        "redis://u:[s3cr@h:1/0",
        "redis://s3cr\u2100@h:1/0",
    ],
)
def test_a_url_that_cannot_be_used_or_reached_is_said_without_its_password(url: str) -> None:
    for debug in ("", "1"):
        done = streamer("query", "runs", environment={"STREAMER_REDIS": url, "STREAMER_DEBUG": debug})
        assert done.returncode in (1, 2)
        assert not [part for part in ("s3cr", "et?#", "41@") if part.encode() in done.stderr], done.stderr


@given(st.text(st.sampled_from("ab/?#@:%[]"), max_size=8), st.sampled_from(["redis", "rediss", "http", ""]))
def test_no_piece_of_a_password_is_ever_in_a_message(password: str, scheme: str) -> None:
    assume(scheme or "://" not in password)  # or what stands before it would be the scheme
    url = f"{scheme}://u:XYZ{password}XYZ@h:1/0" if scheme else f"XYZ{password}XYZ@h"
    said = [without_password(url), explain(ConnectionError("x"), Settings(redis=url))]
    try:
        said.append(address(url))
    except BadRedisUrl as error:
        said.append(str(error))
    assert "XYZ" not in " ".join(said)


def test_what_aiokafka_writes_down_at_debug_holds_no_credentials(caplog: pytest.LogCaptureFixture) -> None:
    Settings(**SASL, sasl_password=SECRET).kafka_options()
    caplog.set_level(logging.DEBUG)
    log = logging.getLogger("aiokafka.conn")
    request = SaslAuthenticateRequest(f"\0u\0{SECRET}".encode()).prepare({36: (0, 1)})
    log.debug("Request to %s:%d %d: %s", "h", 1, 2, request)
    log.debug("Request to %s:%d %d: %s", "h", 1, 2, "Metadata")
    assert SECRET not in caplog.text
    assert "Metadata" in caplog.text
