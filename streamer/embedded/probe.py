"""Does a server answer? Small blocking requests that need no client library and no event loop."""

from __future__ import annotations

import socket
import struct

from streamer.embedded.errors import EmbeddedError
from streamer.kafka.wire import metadata_request, names_a_controller

TIMEOUT_SECONDS = 1.0


def free_port() -> int:
    """A loopback TCP port that is free at this moment."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def port_is_free(port: int) -> bool:
    """True if a server could listen on this loopback port now."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except (OSError, OverflowError):
            return False
        return True


def claimed_port(port: int) -> socket.socket:
    """A socket bound to this loopback port, to listen on later.

    Raises:
        EmbeddedError: another program has the port.
    """
    # Named as TCP: else asyncio does not send small responses at once (TCP_NODELAY).
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError as error:
        listener.close()
        raise EmbeddedError(
            f"Port {port} of 127.0.0.1 cannot be used ({error.strerror}). End the program that has it, or "
            "choose another port (--port, --redis-port, --web-port)."
        ) from None
    return listener


def kafka_answers(port: int) -> bool:
    """True if the broker on this loopback port answers a Metadata request with itself and a controller."""
    request = metadata_request()
    try:
        with socket.create_connection(("127.0.0.1", port), TIMEOUT_SECONDS) as connection:
            connection.settimeout(TIMEOUT_SECONDS)
            connection.sendall(struct.pack(">i", len(request)) + request)
            (size,) = struct.unpack(">i", _read(connection, 4))
            return names_a_controller(_read(connection, size))
    except (OSError, ValueError, struct.error):
        return False


def redis_answers(port: int) -> bool:
    """True if the server on this loopback port answers PING with PONG (not while it still loads its data)."""
    try:
        with socket.create_connection(("127.0.0.1", port), TIMEOUT_SECONDS) as connection:
            connection.settimeout(TIMEOUT_SECONDS)
            connection.sendall(b"*1\r\n$4\r\nPING\r\n")
            return _read(connection, 7) == b"+PONG\r\n"
    except OSError:
        return False


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionError("the server closed the connection")
        data += part
    return data
