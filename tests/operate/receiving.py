"""A notification service of the test's own: takes what apprise posts to json://127.0.0.1:PORT."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import redis

from streamer.settings import Settings
from streamer.storage.entries import Keys
from tests.support.worker_process import wait_for

SECRET = "s3cr3t-t0ken"


class Receiver:
    """A context manager that keeps title and body of each notice, and refuses so many posts from now on."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, str]] = []
        self.refusals = 0
        self.posts = 0
        self._lock = threading.Lock()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(receiver._take(body))
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """For --notify; its path is a secret."""
        return f"json://127.0.0.1:{self._server.server_address[1]}/{SECRET}"

    @property
    def titles(self) -> list[str]:
        with self._lock:
            return [title for title, _ in self.taken]

    def expect(self, *titles: str) -> None:
        wait_for(lambda: len(self.titles) >= len(titles), f"the notices {titles}")
        taken = self.titles
        assert sorted(taken) == sorted(titles), taken

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _take(self, body: dict[str, Any]) -> int:
        with self._lock:
            self.posts += 1
            if self.refusals:
                self.refusals -= 1
                return 500
            self.taken.append((body["title"], body["message"]))
            return 200


def followed(settings: Settings) -> bool:
    """Whether somebody follows the updates: what happens from then on is seen as it happens."""
    with redis.Redis.from_url(settings.redis) as client:
        [(_, count)] = client.pubsub_numsub(Keys(settings.namespace).updates)
        return bool(count)
