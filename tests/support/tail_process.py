"""`streamer tail` as a process."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson

from streamer.settings import Settings
from streamer.storage.kafka import Names
from streamer.storage.log import read_topic
from tests.support.cli import COMMAND
from tests.support.tailing import Event

DEADLINE_SECONDS = 60.0


class Tails:
    """Tails of one directory to one namespace, one after the other."""

    def __init__(self, run: Path, data: Path, settings: Settings) -> None:
        self.run = run
        self._output = data / "output.txt"
        self.settings = settings
        clean = {name: value for name, value in os.environ.items() if not name.startswith("STREAMER_")}
        self.environment = clean | {
            "STREAMER_BOOTSTRAP": settings.bootstrap,
            "STREAMER_REDIS": settings.redis,
            "STREAMER_NAMESPACE": settings.namespace,
            "STREAMER_DATA_DIR": str(data),
            "STREAMER_DISCOVERY": str(data / "none.json"),
        }

    @contextmanager
    def running(self, *options: str) -> Iterator[subprocess.Popen[bytes]]:
        """One that runs; killed at the end of the block if it still does."""
        with self._output.open("ab") as output:
            process = subprocess.Popen(
                [*COMMAND, "tail", str(self.run), *options], env=self.environment, stderr=output
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    @property
    def printed(self) -> str:
        """What all of them printed."""
        return self._output.read_text()

    @property
    def events(self) -> list[Event]:
        """What is in the log."""
        topic = Names(self.settings.namespace).trial_events
        return [orjson.loads(record.value) for record in read_topic(self.settings, topic)]


def ended(process: subprocess.Popen[bytes], number: signal.Signals) -> int:
    """Send the signal and wait; the exit code."""
    process.send_signal(number)
    return process.wait(DEADLINE_SECONDS)
