"""The port of the page: the usual one, another one if that is taken, and only the one that was named."""

from __future__ import annotations

import pytest

from streamer import web as module
from streamer.web import AddressInUse, available_port, listening


def test_a_port_that_was_named_and_is_taken_is_an_error_that_says_so() -> None:
    with listening("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(AddressInUse, match=rf"127\.0\.0\.1 port {port}: .*--port"):
            listening("127.0.0.1", port)
    assert available_port(port) == port


def test_the_usual_port_gives_way_to_a_free_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening("127.0.0.1", 0) as first:
        monkeypatch.setattr(module, "DEFAULT_PORT", first.getsockname()[1])
        with listening("127.0.0.1", None) as second:
            assert second.getsockname()[1] != first.getsockname()[1]


def test_an_address_of_another_machine_is_an_error() -> None:
    with pytest.raises(AddressInUse, match=r"192\.0\.2\.1"):
        listening("192.0.2.1", None)
