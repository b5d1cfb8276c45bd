"""Limits of connections: how long a request may take to arrive, and how many connections there may be.

uvicorn limits how long a connection is idle between requests, and how large headers are. It waits without a
limit for the rest of a request. So here each connection has a timer until its request is complete. Where
there are too many connections, the one is closed that has waited longest without a complete request. So half
requests never keep out whole ones, also not from the same address (a proxy, a tunnel).
"""

from __future__ import annotations

import asyncio
import resource
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 10.0
"""From the connection, or the first byte of a further request, to the end of its headers."""

BODY_SECONDS = 10.0
"""From the end of the headers to the end of the body."""

IDLE_SECONDS = 5
"""Between two requests."""

MOST_PER_ADDRESS = 256
MOST_CONNECTIONS = 1_200
"""Room for the viewers of `hub.MAX_VIEWERS`, and some requests."""

FILES_FOR_OTHERS = 128
"""Open files left for Redis, Kafka and the page."""


class Connections:
    """Every connection of one server, and which of them wait for a request.

    Args:
        most_per_address: connections from one address.
        most: connections altogether; None: MOST_CONNECTIONS, or fewer if the process may open fewer files.
    """

    def __init__(self, most_per_address: int = MOST_PER_ADDRESS, most: int | None = None) -> None:
        self._most_per_address = most_per_address
        self._most = _affordable() if most is None else most
        self._of_address: dict[str, set[LimitedProtocol]] = {}
        self._waiting: dict[LimitedProtocol, None] = {}
        self._count = 0

    def admit(self, new: LimitedProtocol) -> bool:
        """Note a connection, and let go of another one if there are too many; False: it cannot stay."""
        same = self._of_address.get(new.address, set())
        if len(same) >= self._most_per_address and not self._make_room(new.address):
            return False
        if self._count >= self._most and not self._make_room(None):
            return False
        self._of_address.setdefault(new.address, set()).add(new)
        self._waiting[new] = None
        self._count += 1
        return True

    def waits(self, connection: LimitedProtocol, waits: bool) -> None:
        """Whether the connection has no complete request."""
        known = connection in self._of_address.get(connection.address, ())
        if waits and known:
            self._waiting.setdefault(connection)
        else:
            self._waiting.pop(connection, None)

    def forget(self, connection: LimitedProtocol) -> None:
        """The connection is closed."""
        same = self._of_address.get(connection.address, set())
        if connection in same:
            same.discard(connection)
            self._count -= 1
        if not same:
            self._of_address.pop(connection.address, None)
        self._waiting.pop(connection, None)

    def _make_room(self, address: str | None) -> bool:
        """Close the connection that has waited longest, of an address or of all; False: none waits."""
        for connection in self._waiting:
            if address in (None, connection.address):
                self.forget(connection)
                connection.transport.abort()
                return True
        return False


class LimitedProtocol(H11Protocol):
    """uvicorn's protocol with limits.

    Args:
        limits: shared by the connections of the server.
        arguments: of uvicorn's protocol.
    """

    def __init__(self, limits: Connections, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.address = ""
        self._limits = limits
        self._phase = ""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client is there."""
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        if self._limits.admit(self):
            self._enter("header", HEADER_SECONDS)
        else:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._enter("closed", None)
        self._limits.forget(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Something came."""
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """A request is answered; uvicorn's own timer closes a connection that stays idle."""
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
            self._enter("answer", None)

    def _enter(self, phase: str, seconds: float | None) -> None:
        """A phase begins that may last so long; it goes on if it is the present one."""
        if phase == self._phase:
            return
        self._phase = phase
        self._limits.waits(self, phase in ("header", "body", "idle"))
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self.transport.abort)


def _affordable() -> int:
    """Connections for which the process may open files."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return max(1, min(MOST_CONNECTIONS, files - FILES_FOR_OTHERS))
