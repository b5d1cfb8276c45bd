"""What Redis says of a run of which the log holds nothing."""

from __future__ import annotations

import click
import pytest

from streamer.client.queries import UnknownRun
from streamer.operate.local.processes import free_port
from streamer.settings import Settings
from streamer.terminal.options import FiniteRange, read_settings, stored_run
from tests.support.servers import RedisServer


def test_without_redis_nothing_is_known() -> None:
    assert stored_run(Settings(redis=f"redis://127.0.0.1:{free_port()}/0"), "run-1") is None


def test_a_run_that_redis_does_not_have_is_unknown(redis_server: RedisServer, namespace: str) -> None:
    with pytest.raises(UnknownRun, match="There is no run 'run-1'"):
        stored_run(Settings(redis=redis_server.url, namespace=namespace), "run-1")


# -----------------------------------------------------------------------------
# Options that commands share: what is wrong with them is wrong use, in one sentence.


@pytest.mark.parametrize("bootstrap", ["localhost", "localhost:", "a:1 b:2", "a:1,,b:2", "a:123456"])
def test_a_server_without_host_and_port_is_refused(bootstrap: str) -> None:
    with pytest.raises(click.UsageError, match="is not a server; write HOST:PORT"):
        read_settings({"bootstrap": bootstrap})
    assert read_settings({"bootstrap": "a:1, b:2"}).bootstrap == "a:1, b:2"


@pytest.mark.parametrize("wrong", ["nan", "inf", "1e999"])
def test_an_amount_that_is_no_finite_number_is_refused_with_what_is_allowed(wrong: str) -> None:
    with pytest.raises(click.BadParameter, match="is not finite"):
        FiniteRange(min=0).convert(wrong, None, None)
