"""One server process: started, asked whether it is ready, stopped; never outliving this process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from streamer.embedded import parent_death
from streamer.embedded.errors import ServerFailed

READY_SECONDS = 15.0
STOP_SECONDS = 10.0
POLL_SECONDS = 0.02


class Child:
    """A program started through `parent_death`, in a process group of its own (Ctrl-C reaches only us).

    Start it from a thread that lives as long as the program should (see `parent_death`).
    """

    def __init__(
        self, name: str, argv: Sequence[str], *, log: Path | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.argv = list(argv)
        self.log = log
        self.env = env
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Process id of the running program (elsewhere than on Linux: of its guard)."""
        if self._process is None:
            raise RuntimeError(f"{self.name} was not started; call start() first")
        return self._process.pid

    @property
    def alive(self) -> bool:
        """True while the program runs (also while it is paused)."""
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """The exit code, or the negative number of the signal; None while it runs or before it started."""
        return None if self._process is None else self._process.poll()

    def start(self) -> None:
        """Start the program; output is appended to the log, or dropped without one."""
        if self.alive:
            raise RuntimeError(f"{self.name} already runs as process {self.pid}; stop it first")
        argv = [sys.executable, "-I", "-S", parent_death.__file__, str(os.getpid()), *self.argv]
        with Path(self.log or os.devnull).open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603  (our own servers)
                argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=self.env, process_group=0
            )

    def wait_ready(self, answers: Callable[[], bool], seconds: float = READY_SECONDS) -> None:
        """Wait until `answers()`; raise ServerFailed if the program ends before or the deadline passes."""
        deadline = time.monotonic() + seconds
        while not answers():
            if not self.alive:
                raise ServerFailed(self.name, f"ended ({self.exit_code}) before it was ready", self.log)
            if time.monotonic() > deadline:
                self.kill()
                raise ServerFailed(self.name, f"did not answer within {seconds:g} s", self.log)
            time.sleep(POLL_SECONDS)

    def wait(self, seconds: float) -> bool:
        """Wait until the program has ended; False if it still runs after that many seconds."""
        if self._process is None:
            return True
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens if the program has ended."""
        if self._process is not None:
            self._process.send_signal(number)

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """SIGTERM, and SIGKILL if it still runs after that many seconds."""
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)  # a paused program does not see SIGTERM
        if not self.wait(seconds):
            self.kill()

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()
