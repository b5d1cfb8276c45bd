"""The workers, and what a supervisor does in production: whoever ends is started again."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.worker_process import WorkerProcess, wait_for

LOOK_SECONDS = 0.2


class Fleet:
    """Worker processes by number.

    Attributes:
        ended: exit codes of workers that ended without being asked, in order.

    Args:
        settings_of: settings of a worker.
        module: what a worker runs.
        environment: further variables of every worker.
    """

    def __init__(
        self,
        directory: Path,
        settings_of: Callable[[int], dict[str, Any]],
        module: str = "streamer.worker",
        environment: dict[str, str] | None = None,
    ) -> None:
        self._directory, self._settings_of, self._module = directory, settings_of, module
        self._environment = environment or {}
        self._workers: dict[int, WorkerProcess] = {}
        self._special: set[int] = set()
        self._lock = threading.RLock()
        self._stopped = threading.Event()
        self._supervisor = threading.Thread(target=self._supervise, name="supervisor", daemon=True)
        self.running: set[int] = set()
        self.ended: list[int] = []

    def supervise(self) -> None:
        """Begin to start again whoever ends."""
        self._supervisor.start()

    def stop(self) -> None:
        """Kill all."""
        self._stopped.set()
        if self._supervisor.is_alive():
            self._supervisor.join(60)
        for worker in self._workers.values():
            worker.kill()

    def numbers(self) -> list[int]:
        """Workers that should run."""
        return sorted(self.running)

    def worker(self, number: int) -> WorkerProcess:
        """A worker's process, running or not."""
        return self._workers[number]

    def start(
        self,
        number: int,
        *,
        environment: dict[str, str] | None = None,
        directory: Path | None = None,
        module: str | None = None,
        **settings: Any,
    ) -> None:
        """Start a worker, or start it anew if it ran under another description."""
        with self._lock:
            described = environment or directory or module or settings
            if described or number not in self._workers or number in self._special:
                worker = WorkerProcess(
                    directory or self._directory,
                    self._settings_of(number) | settings,
                    module=module or self._module,
                    name=f"worker-{number}",
                    environment=self._environment | (environment or {}),
                )
                self._workers[number] = worker
                (self._special.add if described else self._special.discard)(number)
            self.running.add(number)
            if not self._workers[number].alive:
                self._workers[number].start(ready=False)

    def kill(self, number: int) -> None:
        """SIGKILL; it stays down."""
        with self._lock:
            self.running.discard(number)
            self._workers[number].kill()

    def end(self, number: int) -> None:
        """SIGTERM and wait; it stays down."""
        with self._lock:
            self.running.discard(number)
            worker = self._workers[number]
            if worker.alive:
                try:
                    worker.stop()
                except subprocess.TimeoutExpired:
                    worker.kill()

    def replace_all(self, **described: Any) -> None:
        """End all in good order, then start them under another description, or as they usually are."""
        numbers = self.numbers()
        for number in numbers:
            self.end(number)
        for number in numbers:
            self.start(number, **described)

    def restart_all(self) -> None:
        """End all at once and start them: everything in memory is gone."""
        numbers = self.numbers()
        for number in numbers:
            self.kill(number)
        for number in numbers:
            self.start(number)

    def restart(self, number: int, seconds: float = 90.0) -> None:
        """End a worker in good order, start it, and wait until it has rebuilt its partitions."""
        seen = self._readies(number)
        self.end(number)
        self.start(number)
        wait_for(lambda: self._readies(number) > seen, f"worker {number} is ready", seconds)

    def _readies(self, number: int) -> int:
        return self._workers[number].output.count(" ready: ")

    def log(self, number: int) -> str:
        """What a worker has logged."""
        return self._workers[number].output

    def _supervise(self) -> None:
        while not self._stopped.wait(LOOK_SECONDS):
            with self._lock:
                for number in self.numbers():
                    worker = self._workers[number]
                    if not worker.alive:
                        self.ended.append(worker.process.returncode)
                        worker.start(ready=False)
