"""Limits of connections: their number, and how long a request may take to arrive.

uvicorn limits headers and idle time between requests, but waits without limit for the rest of a request. Here
each connection has a timer until its request is complete. If there are too many connections, the one that has
waited longest without a complete request is closed. So incomplete requests never block complete ones, even
from the same address (a proxy, a tunnel).
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import resource
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address, ip_network
from typing import Any
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from streamer.web import is_loopback
from streamer.web.models import problem

HEADER_SECONDS = 10.0
"""The time for headers, from the connection or the first byte of the next request."""

BODY_SECONDS = 10.0
"""The time for the body, from the end of the headers."""

IDLE_SECONDS = 5

MOST_PER_ADDRESS = 256
MOST_CONNECTIONS = 1_200
STREAMS_SHARE = 5 / 6
"""The share of all connections that may be streams; the rest is for requests."""

FILES_FOR_OTHERS = 128
"""File descriptors reserved for Redis, Kafka and the page."""

STREAM = re.compile(rb"/api/(?:runs/[^/]+/)?updates")
"""Paths of streams, as sent."""

WAITING = ("header", "body", "idle")
"""Phases of a connection without a complete request."""


class Connections:
    """Every connection of one server with its phase.

    A stream counts among all connections, but not by its address: `Hub` limits streams. `most` defaults to
    MOST_CONNECTIONS, or fewer if the process may open fewer files. `proxies` are addresses and networks,
    separated by commas. Their connections do not count by address, and they name the address of a request.
    """

    def __init__(
        self, most_per_address: int = MOST_PER_ADDRESS, most: int | None = None, proxies: str = ""
    ) -> None:
        self.most_per_address = most_per_address
        self.proxies = proxies.split(",") if proxies else []
        self._most = _affordable() if most is None else most
        self._networks = [ip_network(proxy) for proxy in self.proxies]
        self._phases: dict[LimitedProtocol, str] = {}

    @property
    def most_streams(self) -> int:
        return max(1, int(self._most * STREAMS_SHARE))

    def admit(self, new: LimitedProtocol) -> bool:
        """Note a connection, and close another if there are too many; False if the new one must go."""
        if not self._is_proxy(new.address):
            phases = self._phases.items()
            same = [one for one, phase in phases if one.address == new.address and phase != "stream"]
            if len(same) >= self.most_per_address and not self._make_room(same):
                return False
        if len(self._phases) >= self._most and not self._make_room(self._phases):
            return False
        self._phases[new] = "header"
        return True

    def enter(self, connection: LimitedProtocol, phase: str) -> None:
        """Note the phase of an open connection. Waiting connections are sorted by their start."""
        if connection not in self._phases:
            return
        if self._phases[connection] not in WAITING:
            del self._phases[connection]
        self._phases[connection] = phase

    def forget(self, connection: LimitedProtocol) -> None:
        self._phases.pop(connection, None)

    def _make_room(self, connections: Iterable[LimitedProtocol]) -> bool:
        longest = next((one for one in connections if self._phases[one] in WAITING), None)
        if longest is None:
            return False
        self.forget(longest)
        longest.transport.abort()
        return True

    def _is_proxy(self, address: str) -> bool:
        try:
            return any(ip_address(address) in network for network in self._networks)
        except ValueError:  # no address, as for a socket in the file system
            return False


class LimitedProtocol(H11Protocol):
    """The protocol of uvicorn with limits, which all connections of the server share."""

    def __init__(self, limits: Connections, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.address = ""
        self._limits = limits
        self._phase = ""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        if self._limits.admit(self):
            self._enter("header", HEADER_SECONDS)
        else:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._enter("closed", None)
        self._limits.forget(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """Note a complete answer; uvicorn's own timer closes an idle connection."""
        self._enter("idle", None)
        super().on_response_complete()
        if self.cycle is not None and not self.cycle.response_complete:  # the next request had come already
            self._look()

    def _look(self) -> None:
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete:
            self._enter("header", HEADER_SECONDS)
        elif self.cycle.more_body:
            self._enter("body", BODY_SECONDS)
        else:
            is_stream = STREAM.fullmatch(self.scope["raw_path"]) is not None
            self._enter("stream" if is_stream else "answer", None)

    def _enter(self, phase: str, seconds: float | None) -> None:
        """Begin a phase with a time limit; if it has already begun, its timer is kept."""
        if phase == self._phase:
            return
        self._phase = phase
        self._limits.enter(self, phase)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self.transport.abort)


def _affordable() -> int:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return max(1, min(MOST_CONNECTIONS, files - FILES_FOR_OTHERS))


# -----------------------------------------------------------------------------
# The checks of each request, and the headers that restrict the browser.
#
# Other hosts need a token: one for viewing, another one for publishing. Pages of other sites cannot make
# requests in a visitor's name. The name in Host must be ours (DNS rebinding), the cookie is SameSite=Strict,
# and no answer allows cross-origin reading. Publishing accepts no cookie, and only our own Origin.


COOKIE = "streamer_session"
SESSION_PATH = "/api/session"
EVENTS_PATH = "/api/events"
MCP_PATH = "/api/mcp"
DATA_PATHS = ("/api/", "/pages/")
"""Prefixes of the paths that the token protects."""


def content_security_policy(scripts: Iterable[str] = (), styles: Iterable[str] = ()) -> str:
    """A policy without foreign content, or text that becomes HTML (Trusted Types).

    The only inline scripts and styles it allows are the given ones, named by their hashes.
    """
    return (
        f"default-src 'none'; script-src {_sources(scripts)}; style-src {_sources(styles)}; img-src 'self'; "
        "connect-src 'self'; "
        "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )


def _sources(hashes: Iterable[str]) -> str:
    return " ".join(["'self'", *hashes])


SECURITY_HEADERS = {
    "content-security-policy": content_security_policy(),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class RequestChecks:
    """Checks of every request before the application sees it.

    Clients need `token` for data and `publish_token` to publish. Without a publish token, publishing needs a
    loopback name of the server, and is closed if there is a `token`. `host_names` are further names of this
    server.
    """

    def __init__(
        self,
        app: ASGIApp,
        token: str | None,
        publish_token: str | None = None,
        host_names: Iterable[str] = (),
    ) -> None:
        self._app = app
        self._token = token
        self._publish_token = publish_token
        self._host_names = {"localhost", *(_plain_name(name) for name in host_names)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer rejected requests, and add headers to other answers."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    given.setdefault(name, value)  # the player has its own policy
            await send(message)

        headers = Headers(scope=scope)
        app = self._refusal(scope, headers) or self._exchange(scope) or self._app
        await app(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        host = headers.get("host", "")
        if not self._is_ours(host):
            return problem(
                421,
                f"This server's name is not {ascii(host)[:200]}. Use an IP address or localhost, or start "
                "it with --host-name NAME",
            )
        path = scope["path"]
        if path == EVENTS_PATH and scope["method"] == "POST":
            return self._publish_refusal(headers, host)
        if not path.startswith(DATA_PATHS) or self._token is None:
            return None
        if path == SESSION_PATH and self._may_view(headers):
            return self._with_cookie(Response(status_code=204))
        if self._may_view(headers) or self._cookie_fits(headers):
            return None
        return _token_needed("A token is needed: open /?token=TOKEN, or send Authorization: Bearer TOKEN")

    def _publish_refusal(self, headers: Headers, host: str) -> Response | None:
        """The refusal of another site's page, by Origin, which only browsers send."""
        ours = {f"http://{host}".lower(), f"https://{host}".lower()}
        if foreign := [origin for origin in headers.getlist("origin") if origin.lower() not in ours]:
            return problem(403, f"Pages from {ascii(foreign[0])[:200]} may not publish here. Omit Origin")
        if self._publish_token is None:
            if self._token is None and is_loopback(_plain_name(host)):
                return None
            return problem(
                403,
                "Publishing is off here. Start the server with --publish-token (STREAMER_WEB_PUBLISH_TOKEN). "
                "A server without any token takes events at http://127.0.0.1",
            )
        if _bearer_fits(headers, self._publish_token):
            return None
        if self._may_view(headers):
            return problem(403, "This token is for viewing. To publish, send the --publish-token")
        return _token_needed("The publishing token is needed: send Authorization: Bearer TOKEN")

    def _exchange(self, scope: Scope) -> Response | None:
        """Exchange a token in the page's address for a cookie, once, and remove it from the address."""
        if scope["path"] != "/" or self._token is None or b"token=" not in scope["query_string"]:
            return None
        query = parse_qsl(scope["query_string"].decode("ascii", "replace"), keep_blank_values=True)
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        answer = RedirectResponse(f"/?{rest}" if rest else "/", status_code=303)
        fits = any(name == "token" and _equal(value, self._token) for name, value in query)
        return self._with_cookie(answer) if fits else answer

    def _with_cookie(self, answer: Response) -> Response:
        answer.set_cookie(COOKIE, _session(self._token or ""), httponly=True, samesite="strict", path="/")
        answer.headers["cache-control"] = "no-store"
        return answer

    def _may_view(self, headers: Headers) -> bool:
        return self._token is not None and _bearer_fits(headers, self._token)

    def _cookie_fits(self, headers: Headers) -> bool:
        try:
            given = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return given is not None and _equal(given.value, _session(self._token or ""))

    def _is_ours(self, host: str) -> bool:
        """Whether a host is this server; only names can be rebound, addresses cannot."""
        name = _plain_name(host)
        try:
            ip_address(name)
        except ValueError:
            return name in self._host_names
        return True


def _token_needed(detail: str) -> Response:
    refusal = problem(401, detail)
    refusal.headers["www-authenticate"] = "Bearer"
    return refusal


def _bearer_fits(headers: Headers, token: str) -> bool:
    scheme, _, given = headers.get("authorization", "").partition(" ")
    return scheme.lower() == "bearer" and _equal(given.strip(), token)


def _plain_name(host: str) -> str:
    """Host without port, brackets, final dot and capitals.

    >>> _plain_name("[::1]:80"), _plain_name("Streamer.Example.:8080")
    ('::1', 'streamer.example')
    """
    host = host.strip().lower()
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return name.removesuffix(".")


def _equal(given: str, expected: str) -> bool:
    """Compare in constant time, lengths included."""
    hashes = (hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest() for text in (given, expected))
    return hmac.compare_digest(*hashes)


def _session(token: str) -> str:
    """The cookie's content, derived from the token without revealing it."""
    return hmac.new(token.encode(), b"streamer web session 1", hashlib.sha256).hexdigest()
