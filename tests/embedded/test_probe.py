"""Whether a server answers: only the right answer counts, and nothing waits for long."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from streamer.operate.local.processes import (
    EmbeddedError,
    claimed_port,
    free_port,
    kafka_answers,
    port_is_free,
    redis_answers,
)


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """A server that reads a request, gives this answer and closes the connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1024)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


def metadata(controller: int, brokers: int = 1) -> bytes:
    """A Metadata response of version 1."""
    broker = struct.pack(">ih4sih", 1, 4, b"host", 9092, -1)
    body = struct.pack(">ii", 1, brokers) + broker * brokers + struct.pack(">ii", controller, 0)
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize(
    ("answer", "ready"), [(b"+PONG\r\n", True), (b"-LOADING\r\n", False), (b"+PO", False), (b"", False)]
)
def test_redis_answers_with_pong_and_nothing_else(answer: bytes, ready: bool) -> None:
    with answering(answer) as port:
        assert redis_answers(port) is ready


@pytest.mark.parametrize(
    ("answer", "ready"),
    [
        (metadata(1), True),
        (metadata(-1), False),
        (metadata(1, brokers=0), False),
        (metadata(1)[:-6], False),
        (struct.pack(">i", 8) + bytes(8), False),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", False),
    ],
)
def test_kafka_answers_once_it_names_itself_and_a_controller(answer: bytes, ready: bool) -> None:
    with answering(answer) as port:
        assert kafka_answers(port) is ready


def test_nobody_at_a_port_is_no_answer() -> None:
    port = free_port()
    assert not redis_answers(port)
    assert not kafka_answers(port)


def test_a_port_that_is_claimed_is_not_free_and_cannot_be_claimed_again() -> None:
    port = free_port()
    with claimed_port(port) as held:
        held.listen()
        assert not port_is_free(port)
        with pytest.raises(EmbeddedError, match=rf"Port {port} of 127\.0\.0\.1.*choose another port"):
            claimed_port(port)
    assert port_is_free(port)
    assert not port_is_free(70_000)
