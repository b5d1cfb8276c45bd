"""TLS where a server has none, or none where it wants TLS: libraries report that as "connection closed"."""

from __future__ import annotations

import socket
import ssl
from contextlib import closing

PROBE_SECONDS = 1.5


def mismatch(host: str, port: int, hello: bytes, *, tls: bool) -> str | None:
    """What is wrong if one side uses TLS and the other does not; None if they agree, or it stays unknown.

    Args:
        host: of the server.
        port: of the server.
        hello: what a server without TLS answers.
        tls: whether we use TLS.
    """
    if tls and not _answers_tls(host, port) and _answers(host, port, hello):
        return "does not speak TLS at this port"
    if not tls and not _answers(host, port, hello) and _answers_tls(host, port):
        return "speaks TLS at this port"
    return None


def _answers_tls(host: str, port: int) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            closing(socket.create_connection((host, port), timeout=PROBE_SECONDS)) as connection,
            context.wrap_socket(connection, server_hostname=host),
        ):
            return True
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")  # it refuses us, in TLS
    except OSError:
        return False


def _answers(host: str, port: int, hello: bytes) -> bool:
    """Whether it answers with anything but an alert of TLS."""
    try:
        with closing(socket.create_connection((host, port), timeout=PROBE_SECONDS)) as connection:
            connection.sendall(hello)
            return connection.recv(1) not in (b"", b"\x15")
    except OSError:
        return False
