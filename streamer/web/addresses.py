"""Where a browser finds the page: addresses that can be opened, and a QR code of the one for phones."""

from __future__ import annotations

import io
import socket
from collections.abc import Sequence
from contextlib import suppress
from urllib.parse import quote

from streamer.web.tokens import is_loopback

EVERYWHERE = ("0.0.0.0", "::", "")  # noqa: S104 - it is compared with, not listened on
"""Hosts that stand for every address of this machine."""

_ELSEWHERE = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}
"""Addresses of documentation (RFC 5737, RFC 3849): no packet is sent there."""


def addresses(host: str, port: int, own: Sequence[str] = ()) -> list[str]:
    """The addresses of the page that can be opened, the one for other machines first.

    Args:
        host: that the server listens on.
        port: likewise.
        own: addresses of this machine in its networks.

    >>> addresses("127.0.0.1", 8720), addresses("::1", 8720)
    (['http://127.0.0.1:8720/'], ['http://[::1]:8720/'])
    >>> addresses("0.0.0.0", 8720, ["10.1.2.3"])
    ['http://10.1.2.3:8720/', 'http://127.0.0.1:8720/']
    """
    loopback = "::1" if host == "::" and not own else "127.0.0.1"
    hosts = [*own, loopback] if host in EVERYWHERE else [host]
    return [f"http://{f'[{name}]' if ':' in name else name}:{port}/" for name in hosts]


def own_addresses(host: str) -> list[str]:
    """The addresses under which other machines find this one; [] without a network.

    Args:
        host: that the server listens on: "0.0.0.0" has no IPv6 addresses.
    """
    families = (socket.AF_INET, socket.AF_INET6) if host == "::" else (socket.AF_INET,)
    found = []
    for family in families:
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((_ELSEWHERE[family], 9))  # chooses a route, and sends nothing
            found.append(str(probe.getsockname()[0]))
    return [name for name in found if not is_loopback(name)]


def announcement(host: str, port: int, token: str | None, *, on_terminal: bool) -> list[str]:
    """Where the page is, in lines; on a terminal with a QR code, if other machines can open it.

    Args:
        host, port: that the server listens on.
        token: a client must know it; the QR code has it, the printed addresses have not. None: no token.
        on_terminal: whether people read the lines.

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
