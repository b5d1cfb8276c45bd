"""Does a server answer? Small blocking requests that need no client library and no event loop."""

from __future__ import annotations

import socket
import struct

from streamer.embedded.errors import EmbeddedError

TIMEOUT_SECONDS = 1.0
METADATA = 3
NO_CONTROLLER = -1


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
    client = b"streamer-probe"
    header = struct.pack(">hhih", METADATA, 1, 1, len(client)) + client
    request = header + struct.pack(">i", 0)  # no topics
    try:
        with socket.create_connection(("127.0.0.1", port), TIMEOUT_SECONDS) as connection:
            connection.settimeout(TIMEOUT_SECONDS)
            connection.sendall(struct.pack(">i", len(request)) + request)
            (size,) = struct.unpack(">i", _read(connection, 4))
            return _names_a_controller(_read(connection, size))
    except (OSError, struct.error):
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


def _names_a_controller(response: bytes) -> bool:
    """Metadata response version 1: correlation id, brokers [id, host, port, rack], controller id, topics."""
    (brokers,) = struct.unpack_from(">i", response, 4)
    at = 8
    for _ in range(brokers):
        at = _after_string(response, at + 4) + 4  # id, host, port
        at = _after_string(response, at)  # rack, length -1 for null
    (controller,) = struct.unpack_from(">i", response, at)
    return bool(brokers > 0 and controller != NO_CONTROLLER)


def _after_string(data: bytes, at: int) -> int:
    (length,) = struct.unpack_from(">h", data, at)
    return at + 2 + max(int(length), 0)
