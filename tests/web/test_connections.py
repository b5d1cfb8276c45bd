"""Requests that never end and connections without number: closed in time, and nobody else is kept out."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from streamer.settings import Settings
from streamer.web import connections
from streamer.web.connections import Connections
from tests.support.worker_process import wait_for
from tests.web.serving import Serving

HALF = b"GET /api/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "
HALF_BODY = b"POST /api/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n\r\nabc"
HALF_EVENTS = HALF_BODY.replace(b"runs", b"events").replace(
    b"Host", b"Content-Type: application/json\r\nHost"
)
WHOLE = b"GET /api/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
OTHER_ADDRESS = "127.0.0.2"
SECONDS = 1.0


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limits of time, shorter."""
    monkeypatch.setattr(connections, "HEADER_SECONDS", SECONDS)
    monkeypatch.setattr(connections, "BODY_SECONDS", SECONDS)


@pytest.fixture
def sockets() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def connected(stack: ExitStack, port: int, data: bytes, source: str = "127.0.0.1") -> socket.socket:
    found = socket.create_connection(("127.0.0.1", port), timeout=20, source_address=(source, 0))
    stack.enter_context(found)
    found.sendall(data)
    return found


def is_closed(connection: socket.socket) -> bool:
    """Whether the server has closed it; what it sent before is passed over."""
    connection.settimeout(0.01)
    try:
        while connection.recv(65536):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True


@pytest.mark.parametrize(
    "sent",
    [b"", b"G", HALF, HALF_BODY, HALF_EVENTS],
    ids=["nothing", "a byte", "headers", "body", "events"],
)
def test_a_request_that_does_not_arrive_is_closed_in_time(
    settings: Settings, hasty: None, sockets: ExitStack, sent: bytes
) -> None:
    with Serving(settings) as serving:
        start = time.monotonic()
        slow = connected(sockets, serving.port, sent)
        wait_for(lambda: is_closed(slow), "the half request is closed", 15)
        assert time.monotonic() - start >= SECONDS / 2


def test_a_byte_now_and_then_does_not_keep_a_half_request_open(
    settings: Settings, hasty: None, sockets: ExitStack
) -> None:
    with Serving(settings) as serving:
        slow = connected(sockets, serving.port, HALF)

        def is_refused() -> bool:
            try:
                slow.sendall(b"x")
            except ConnectionError:
                return True
            return False

        wait_for(is_refused, "the half request is closed though bytes come", 15)


def test_the_next_request_on_a_connection_has_the_same_limit(
    settings: Settings, hasty: None, sockets: ExitStack
) -> None:
    with Serving(settings) as serving:
        slow = connected(sockets, serving.port, WHOLE)
        assert slow.recv(65536).startswith(b"HTTP/1.1 200")
        slow.sendall(HALF)
        wait_for(lambda: is_closed(slow), "the half request is closed", 4)  # uvicorn's own limit is 5 s


def test_a_stream_goes_on_beyond_the_limits(settings: Settings, hasty: None, sockets: ExitStack) -> None:
    stream = WHOLE.replace(b"/api/health", b"/api/updates")
    with Serving(settings) as serving:
        following = connected(sockets, serving.port, stream)
        slow = connected(sockets, serving.port, HALF)
        wait_for(lambda: is_closed(slow), "the time of half requests is over", 15)
        assert not is_closed(following)


@pytest.mark.parametrize("address", [OTHER_ADDRESS, "127.0.0.1"])
def test_half_requests_without_number_keep_nobody_out(
    settings: Settings, sockets: ExitStack, address: str
) -> None:
    with Serving(settings, connections=Connections(most_per_address=20)) as serving:
        halves = [connected(sockets, serving.port, HALF, address) for _ in range(300)]
        start = time.monotonic()
        for _ in range(5):
            assert serving.get("/api/health").status == 200
        assert time.monotonic() - start < 5
        wait_for(lambda: sum(is_closed(half) for half in halves) >= 280, "only 20 may stay", 15)


def test_connections_of_one_address_at_work_are_limited_and_others_served(
    settings: Settings, sockets: ExitStack
) -> None:
    stream = WHOLE.replace(b"/api/health", b"/api/updates")
    with Serving(settings, connections=Connections(most_per_address=5)) as serving:
        streams = [connected(sockets, serving.port, stream, OTHER_ADDRESS) for _ in range(5)]
        for following in streams:
            assert following.recv(10) == b"HTTP/1.1 2"
        late = connected(sockets, serving.port, stream, OTHER_ADDRESS)
        wait_for(lambda: is_closed(late), "one too many is closed", 15)
        assert serving.get("/api/health").status == 200
        assert not any(is_closed(following) for following in streams)


def test_all_connections_together_are_limited_too(settings: Settings, sockets: ExitStack) -> None:
    with Serving(settings, connections=Connections(most=10)) as serving:
        addresses = [f"127.0.0.{number}" for number in range(2, 32)]
        halves = [connected(sockets, serving.port, HALF, address) for address in addresses]
        assert serving.get("/api/health").status == 200
        wait_for(lambda: sum(is_closed(half) for half in halves) >= 20, "only 10 may stay", 15)
