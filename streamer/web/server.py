"""Runs the application on uvicorn until SIGTERM or Ctrl-C."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp

from streamer.redis.connect import check_protocol
from streamer.settings import Settings
from streamer.web.addresses import announcement
from streamer.web.app import create_app
from streamer.web.connections import IDLE_SECONDS, MOST_PER_ADDRESS, Connections, LimitedProtocol
from streamer.web.listening import BACKLOG, DEFAULT_HOST, listening
from streamer.web.resources import Web
from streamer.web.tokens import check_tokens

GRACE_SECONDS = 5


def run_server(
    settings: Settings,
    *,
    host: str = DEFAULT_HOST,
    port: int | None = None,
    token: str | None = None,
    publish_token: str | None = None,
    host_names: Iterable[str] = (),
    connections_per_address: int = MOST_PER_ADDRESS,
    artifacts: Sequence[Path] = (),
    echo: Callable[[str], None],
) -> None:
    """Serve until SIGTERM or Ctrl-C.

    Args:
        settings: where broker and Redis are.
        host: address to listen on; anything but this machine's own needs a token.
        port: None: 8720, or a free one if that is taken.
        token: a client must know it to get data.
        publish_token: a client must know it to publish; None: only clients of this machine publish, and only
            if there is no `token` either.
        host_names: further names that this server may be called by.
        connections_per_address: how many connections one address may have; a proxy is one address.
        artifacts: directories of runs, or above some, whose files the page may show.
        echo: takes each line for the user.

    Raises:
        ServeError: it cannot start like that.
        OtherProtocol: Redis speaks TLS and the URL does not say so, or the other way round.
    """
    check_tokens(host, token, publish_token)
    asyncio.run(check_protocol(settings.redis, settings.redis_options()))
    with listening(host, port) as listener:
        web = Web(settings, artifacts)
        app = create_app(web, token=token, publish_token=publish_token, host_names=[host, *host_names])
        config = configured(app, Connections(connections_per_address))
        port = listener.getsockname()[1]
        first, *others = announcement(host, port, token, on_terminal=sys.stdout.isatty())
        for line in (f"streamer serves {first}  (Ctrl-C ends it)", *others):
            echo(line)
        Server(config, web).run(sockets=[listener])


def configured(app: ASGIApp, connections: Connections) -> uvicorn.Config:
    """How uvicorn serves the application, within limits."""
    return uvicorn.Config(
        app,
        http=cast(Any, partial(LimitedProtocol, connections)),
        log_level=logging.ERROR,  # bad requests and broken connections are no news
        access_log=False,
        ws="none",
        server_header=False,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
        backlog=BACKLOG,
    )


class Server(uvicorn.Server):
    """Ends its streams first: viewers would keep it from ending otherwise."""

    def __init__(self, config: uvicorn.Config, web: Web) -> None:
        super().__init__(config)
        self._web = web

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End in good order."""
        self._web.hub.close()
        await super().shutdown(sockets)
