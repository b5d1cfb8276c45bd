"""The port that the page is served on. Loads no web server, so that `up` can choose the port at once."""

from __future__ import annotations

import errno
import socket

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8720
BACKLOG = 512


class ServeError(Exception):
    """The server cannot start as it was asked to."""


class AddressInUse(ServeError):
    """The port is taken, or the address is not ours."""

    def __init__(self, host: str, port: int, error: OSError) -> None:
        super().__init__(f"Cannot listen on {host} port {port}: {error.strerror}. Name another with --port")


def listening(host: str, port: int | None) -> socket.socket:
    """A socket that is bound; AddressInUse if it cannot be."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        try:
            listener.bind((host, DEFAULT_PORT if port is None else port))
        except OSError as error:
            if port is not None or error.errno != errno.EADDRINUSE:
                raise
            listener.bind((host, 0))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise AddressInUse(host, DEFAULT_PORT if port is None else port, error) from error
    return listener


def available_port(port: int | None = None) -> int:
    """The port that a server on this machine would get; AddressInUse if it is taken."""
    with listening(DEFAULT_HOST, port) as listener:
        return int(listener.getsockname()[1])
