"""The web server in a thread of this process, and a client for it."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from streamer.settings import Settings
from streamer.web import listening
from streamer.web.api import Web
from streamer.web.app import Server, configured, create_app
from streamer.web.protocols.connections import Connections
from tests.support.worker_process import wait_for

DEADLINE_SECONDS = 30.0


class Answer:
    """Status, headers (by name in lower case) and body."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read()

    def json(self) -> Any:
        return json.loads(self.body)


class Serving:
    """One server, as a context manager; `artifacts` are directories to show, `options` go to `create_app`."""

    def __init__(
        self,
        settings: Settings,
        port: int | None = None,
        connections: Connections | None = None,
        artifacts: Sequence[Path] = (),
        **options: Any,
    ) -> None:
        self._connections = connections or Connections()
        self._settings = settings
        self._artifacts = artifacts
        self._options = options
        self._listener = listening("127.0.0.1", port or 0)
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._server: Server | None = None
        self._web: Web | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def web(self) -> Web:
        assert self._web is not None, "it has not started"
        return self._web

    def __enter__(self) -> Self:
        self._thread.start()
        wait_for(lambda: self._server is not None and self._server.started, "the start of the server")
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        if self._server is not None:
            self._server.should_exit = True
        self._thread.join(DEADLINE_SECONDS)
        assert not self._thread.is_alive(), "the server did not end"

    def post(
        self,
        body: bytes,
        kind: str = "application/x-ndjson",
        timeout_seconds: float = 4 * DEADLINE_SECONDS,
        **headers: str,
    ) -> Answer:
        """Publish events; headers as in `get`."""
        given = {"content_type": kind, "content_length": str(len(body))} | headers
        return self.get("/api/events", method="POST", body=body, timeout_seconds=timeout_seconds, **given)

    def get(
        self,
        path: str,
        *,
        method: str = "GET",
        body: bytes = b"",
        timeout_seconds: float = DEADLINE_SECONDS,
        **headers: str,
    ) -> Answer:
        """Ask; `host="x"` and the like become headers, underscores hyphens."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_seconds)
        try:
            connection.putrequest(method, path, skip_host="host" in headers, skip_accept_encoding=True)
            for name, value in headers.items():
                connection.putheader(name.replace("_", "-"), value)
            connection.endheaders(body)
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def _run(self) -> None:
        self._web = Web(self._settings, self._artifacts, self._connections)
        app = create_app(self._web, **self._options)
        self._server = Server(configured(app, self._connections), self._web)
        self._server.run(sockets=[self._listener])
