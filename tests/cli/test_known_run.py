"""What Redis says of a run of which the log holds nothing."""

from __future__ import annotations

import pytest

from streamer.client.queries import UnknownRun
from streamer.operate.local.processes import free_port
from streamer.settings import Settings
from streamer.terminal.options import known_run
from tests.support.servers import RedisServer


def test_without_redis_nothing_is_known() -> None:
    assert known_run(Settings(redis=f"redis://127.0.0.1:{free_port()}/0"), "run-1") is None


def test_a_run_that_redis_does_not_have_is_unknown(redis_server: RedisServer, namespace: str) -> None:
    with pytest.raises(UnknownRun, match="There is no run 'run-1'"):
        known_run(Settings(redis=redis_server.url, namespace=namespace), "run-1")
