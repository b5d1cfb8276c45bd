"""The data directory of `up`: journal, logs, and the epoch, which grows with every start."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from streamer.embedded.errors import EmbeddedError
from streamer.embedded.probe import free_port, port_is_free


class DataDir:
    """Folders and files of one data directory; creates what is missing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.journal = path / "journal"
        self.logs = path / "logs"
        self._lock = path / "lock"
        self._state = path / "state.json"
        self._ports = path / "ports.json"
        try:
            for folder in (path, self.journal, self.logs):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise EmbeddedError(
                f"Cannot create the data directory {path}: {error.strerror}. Choose another one with --data "
                "(or STREAMER_DATA_DIR), or use --ephemeral to keep nothing."
            ) from error

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the directory; the system releases it when the process ends, however it ends.

        Raises:
            EmbeddedError: another process holds it.
        """
        try:
            lock = FileLock(self._lock, blocking=False, fallback_to_soft=False).acquire()
        except Timeout:
            raise EmbeddedError(
                f"The data directory {self.path} is in use by process "
                f"{self._lock.read_text().strip() or 'unknown'}. "
                "End that one (Ctrl-C or SIGTERM), or choose another directory with --data."
            ) from None
        with lock:
            self._lock.write_text(f"{os.getpid()}\n")
            yield

    def next_epoch(self) -> int:
        """The epoch of this start: one more than the last; on the disk when this returns.

        Each start has a new event topic, whose offsets begin at 0 again: a higher epoch tells readers that
        its summaries are nevertheless the newer ones.
        """
        epoch = self._last_epoch() + 1
        partial = self._state.with_suffix(".partial")
        with partial.open("w") as file:
            json.dump({"epoch": epoch}, file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self._state)
        return epoch

    def usual_port(self, server: str) -> int:
        """The loopback port that the server had at the last start, or a free one if that is taken.

        A client that was connected before a restart (a `tail`, a subscriber, a harness) finds it there again.
        """
        ports = self._known_ports()
        if server not in ports or not port_is_free(ports[server]):
            ports[server] = free_port()
            self._ports.write_text(json.dumps(ports) + "\n")
        return ports[server]

    def _known_ports(self) -> dict[str, int]:
        try:
            return {name: int(port) for name, port in json.loads(self._ports.read_text()).items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}

    def _last_epoch(self) -> int:
        if not self._state.exists():
            return 0
        try:
            return int(json.loads(self._state.read_text())["epoch"])
        except (ValueError, KeyError, TypeError) as error:
            raise EmbeddedError(
                f'{self._state} does not hold {{"epoch": NUMBER}} ({error!r}). Write into it a number higher '
                "than the `epoch` of every summary published so far, or 0 if nobody kept any."
            ) from error
