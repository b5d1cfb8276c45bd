"""Live boards in a browser: a JSON API, Server-Sent Events, and a page without a build step.

Answers come from Redis, single trials and folded runs from the log. Only `POST /api/events` writes: it
publishes events to the broker.
"""

from __future__ import annotations

import errno
import io
import socket
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import quote

STATIC = Path(__file__).with_name("static")
"""The page's files, which reports use, too."""

DOCUMENT_FORMATS = ("text", "json", "md", "html")

REPORT_FORMATS = ("md", "html", "csv", "parquet", "json")


# -----------------------------------------------------------------------------
# The port that the page is served on. Loads no web server, so that `up` can choose the port at once.


DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8720
BACKLOG = 512


class ServeError(Exception):
    """The server cannot start with these options."""


class AddressInUse(ServeError):
    """The port is taken, or the address belongs to another machine."""

    def __init__(self, host: str, port: int, error: OSError) -> None:
        option = "--port" if error.errno in (errno.EADDRINUSE, errno.EACCES) else "--host"
        super().__init__(f"Cannot listen on {host} port {port}: {error.strerror}. Name another with {option}")


def listening(host: str, port: int | None) -> socket.socket:
    """A bound socket; raises AddressInUse."""
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


def available_port() -> int:
    """The port that a server on this machine would get; raises AddressInUse."""
    with listening(DEFAULT_HOST, None) as listener:
        return int(listener.getsockname()[1])


# -----------------------------------------------------------------------------
# The tokens that a server needs. Loads no web server, so that `up` can check them at once.


MIN_TOKEN_CHARACTERS = 16


def check_tokens(host: str, token: str | None, publish_token: str | None) -> None:
    """Require a token where other machines can connect, and reject weak ones; raises ServeError."""
    for option, given in (("--token", token), ("--publish-token", publish_token)):
        if given is not None and len(given) < MIN_TOKEN_CHARACTERS:
            raise ServeError(f"{option} is too short: it needs {MIN_TOKEN_CHARACTERS} characters or more")
    if token is not None and token == publish_token:
        raise ServeError("--token and --publish-token are the same. Use two, so that viewers cannot publish")
    if token is None and not is_loopback(host):
        raise ServeError(
            f"--host {host} is open to others: set a token of {MIN_TOKEN_CHARACTERS} or more characters, "
            "with --token or STREAMER_WEB_TOKEN, or leave out --host and use an SSH tunnel"
        )


def is_loopback(host: str) -> bool:
    """True if only this machine can reach it.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


# -----------------------------------------------------------------------------
# The addresses of the page: those that can be opened, and a QR code for phones.


EVERYWHERE = ("0.0.0.0", "::", "")  # noqa: S104 - it is compared with, not listened on
"""Hosts that mean every address of this machine."""

_ELSEWHERE = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}
"""Addresses of documentation (RFC 5737, RFC 3849): no packet is sent there."""


def addresses(host: str, port: int, own: Sequence[str] = ()) -> list[str]:
    """The page's addresses, the one for other machines first; `own` are this machine's network addresses.

    >>> addresses("127.0.0.1", 8720), addresses("::1", 8720)
    (['http://127.0.0.1:8720/'], ['http://[::1]:8720/'])
    >>> addresses("0.0.0.0", 8720, ["10.1.2.3"])
    ['http://10.1.2.3:8720/', 'http://127.0.0.1:8720/']
    """
    loopback = "::1" if host == "::" and not own else "127.0.0.1"
    hosts = [*own, loopback] if host in EVERYWHERE else [host]
    return [f"http://{f'[{name}]' if ':' in name else name}:{port}/" for name in hosts]


def own_addresses(host: str) -> list[str]:
    """The addresses at which other machines find this one; [] without a network.

    "0.0.0.0" has no IPv6 addresses.
    """
    families = (socket.AF_INET, socket.AF_INET6) if host == "::" else (socket.AF_INET,)
    names = []
    for family in families:
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((_ELSEWHERE[family], 9))  # chooses a route, and sends nothing
            names.append(str(probe.getsockname()[0]))
    return [name for name in names if not is_loopback(name)]


def announcement(host: str, port: int, token: str | None, *, on_terminal: bool) -> list[str]:
    """The address of the page in lines, with a QR code on a terminal if other machines can open it.

    Only the QR code contains the token.

    >>> announcement("127.0.0.1", 8720, None, on_terminal=True)
    ['http://127.0.0.1:8720/']
    """
    lines = addresses(host, port, own_addresses(host) if host in EVERYWHERE else [])
    name = lines[0].split("/")[2].rpartition(":")[0].strip("[]")
    if on_terminal and not is_loopback(name):
        lines.append("with a phone in the same network" + "; the code holds the token" * (token is not None))
        lines += qr_code(lines[0] + (f"?token={quote(token, safe='')}" if token else "")).splitlines()
    return lines


def qr_code(text: str) -> str:
    """The text as a QR code of half blocks, for a dark or a light terminal.

    >>> lines = qr_code("http://10.1.2.3:8720/").splitlines()
    >>> len(lines), len({len(line) for line in lines})
    (17, 1)
    """
    import segno

    out = io.StringIO()
    segno.make(text, error="l", micro=False).terminal(out, border=4, compact=True)
    return out.getvalue().rstrip("\n")
