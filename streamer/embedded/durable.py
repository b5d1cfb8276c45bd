"""The broker with its journal, as `up` sees it: `streamer.embedded.store` in a process of its own."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping

from streamer.embedded.data_dir import DataDir
from streamer.embedded.errors import ServerFailed
from streamer.embedded.journaller import DRAIN_SECONDS
from streamer.embedded.processes import TalkingChild

STOP_SECONDS = DRAIN_SECONDS + 5.0


class DurableBroker:
    """Started when all journalled events are loaded; keeps every event that it accepts.

    Args:
        directory: where the journal and the logs are.
        environment: STREAMER_* variables, with the bootstrap address to listen on.
        echo: told about damage in the journal.
    """

    def __init__(
        self, directory: DataDir, environment: Mapping[str, str], echo: Callable[[str], None]
    ) -> None:
        log = directory.logs / "broker.log"
        program = [sys.executable, "-m", "streamer.embedded.store"]
        argv = [*program, "--journal", str(directory.journal), "--log", str(log)]
        self.child = TalkingChild("The broker with its journal", argv, log=log, env=environment)
        self.broker_pid = 0
        self.loaded = 0
        """Events that the journal held at the start."""
        self._echo = echo

    def start(self) -> None:
        """Start it and return when all journalled events are in it. No deadline: journals may be long."""
        self.child.start()
        for line in self.child.lines():
            message = json.loads(line)
            if "ready" in message:
                self.loaded, self.broker_pid = message["ready"]["loaded"], message["ready"]["broker_pid"]
                return
            self._hear(message)
        self.child.wait(STOP_SECONDS)
        self.check()

    def check(self) -> None:
        """Raise ServerFailed, with what it said last, if it has ended."""
        if not self.child.alive:
            self._hear_all()
            raise ServerFailed(self.child.name, f"ended ({self.child.exit_code})", self.child.log)

    def stop(self) -> None:
        """Let it journal what it holds, and end it; ServerFailed if it could not."""
        self.child.stop(STOP_SECONDS)
        self._hear_all()

    def _hear_all(self) -> None:
        for line in self.child.lines():
            self._hear(json.loads(line))

    def _hear(self, message: dict[str, str]) -> None:
        if "failed" in message:
            raise ServerFailed(self.child.name, f"failed: {message['failed']}", None)
        self._echo(message["say"])
