"""Workers as processes of their own, as in production: started, waited for, paused, killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.agreement import reason
from tests.support.eventually import WAIT_SECONDS

STOP_SECONDS = 90.0
"""More than the 30 s of a worker: one with 480,000 groups took over 40 s to end."""
POLL_SECONDS = 0.05


def wait_for(condition: Callable[[], object], what: str, seconds: float = WAIT_SECONDS) -> None:
    """Wait until the condition holds; AssertionError naming `what` if it does not within the deadline.

    A condition that gives an `Agreement` has its differences in the message.
    """
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}{reason(result)}"
        time.sleep(POLL_SECONDS)


class WorkerProcess:
    """One `python -m streamer.worker`, or another module that ends in `run_worker`.

    Args:
        directory: where its log goes.
        settings: `STREAMER_*` settings without the prefix, in any case.
        module: what to run; found from the repository's root too.
        environment: further environment variables.
    """

    def __init__(
        self,
        directory: Path,
        settings: dict[str, object],
        *,
        module: str = "streamer.worker",
        name: str = "worker",
        environment: dict[str, str] | None = None,
    ) -> None:
        self.log = directory / f"{name}.log"
        self._module = module
        clean = {k: v for k, v in os.environ.items() if not k.startswith("STREAMER_")}
        given = {f"STREAMER_{k.upper()}": str(v) for k, v in settings.items()}
        root = str(Path(__file__).parents[2])
        self._environment = clean | given | {"PYTHONPATH": root} | (environment or {})
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process, once started."""
        assert self._process is not None, "start() first"
        return self._process

    @property
    def output(self) -> str:
        """What it has logged so far, over all its starts."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    @property
    def alive(self) -> bool:
        """True while it runs, paused or not."""
        return self._process is not None and self._process.poll() is None

    def start(self, *, ready: bool = True) -> WorkerProcess:
        """Start it, and wait until it has rebuilt its partitions."""
        seen = self.output.count(" ready: ")
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", self._module], env=self._environment, stdout=log, stderr=log
            )
        if ready:
            ready_again = lambda: self.output.count(" ready: ") > seen  # noqa: E731
            self.wait_until(ready_again, "the worker is ready", WAIT_SECONDS)
        return self

    def wait_until(self, condition: Callable[[], object], what: str, seconds: float = WAIT_SECONDS) -> None:
        """Wait for a condition while it runs, as `wait_for`; a failure shows its log."""
        deadline = time.monotonic() + seconds
        while not (result := condition()):
            claim = f"{what}{reason(result)}"
            assert self.alive, f"{claim}: the worker ended with {self.process.poll()}:\n{self.output[-4000:]}"
            assert time.monotonic() < deadline, f"not within {seconds:g} s: {claim}:\n{self.output[-4000:]}"
            time.sleep(POLL_SECONDS)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def restart(self) -> None:
        """End it in good order, and start it again."""
        assert self.stop() == 0
        self.start()

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def wait(self, seconds: float = STOP_SECONDS) -> int:
        """Wait for the end; the exit code."""
        return self.process.wait(seconds)

    def kill(self) -> None:
        """SIGKILL, also for a paused one."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
