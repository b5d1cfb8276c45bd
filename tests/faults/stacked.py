"""The servers of a fault run inside one `streamer up`, which can end and start again on its journal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from streamer.operate.local.processes import free_port
from tests.faults.proxy import Link
from tests.operate.stack import Stack, launch
from tests.support.worker_process import wait_for

START_SECONDS = 90.0
REAL_WORKER: list[str] = []


class Stacked:
    """Broker, Redis and worker of one `up`, on ports that stay the same.

    Args:
        directory: where the data directory and the output are.
        settings: of `up`, but for where it listens.
    """

    embedded, replication = True, 1

    def __init__(self, directory: Path, settings: dict[str, Any]) -> None:
        self._directory, self._settings = directory, settings
        self._ports = {"port": free_port(), "redis_port": free_port()}
        self._stack: Stack | None = None
        self.bootstrap = f"127.0.0.1:{self._ports['port']}"
        self.redis_url = f"redis://127.0.0.1:{self._ports['redis_port']}/0"

    @property
    def stack(self) -> Stack:
        """The last one that was started."""
        assert self._stack is not None, "start() first"
        return self._stack

    def bootstrap_of(self, worker: int) -> str:
        """Where everybody connects."""
        return self.bootstrap

    def links_of(self, worker: int) -> list[Link]:
        """There are none."""
        return []

    def start(self) -> None:
        """Start `up`, and wait until it says that it is up."""
        stack = launch(self._directory, worker=REAL_WORKER, ports=self._ports, **self._settings)
        self._stack = stack
        wait_for(
            lambda: stack.discovery.exists() or stack.process.poll() is not None, "`up` is up", START_SECONDS
        )
        assert stack.process.poll() is None, stack.printed

    def stop(self) -> None:
        """End it if it runs."""
        if self._stack is not None and self._stack.process.poll() is None:
            self._stack.process.terminate()
            self._stack.process.wait(60)
