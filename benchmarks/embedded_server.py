"""The embedded broker with its journal in a process of its own, as clients of `streamer up` find it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from streamer.operate.local.processes import Child, free_port, kafka_answers

NAMESPACE = "bench"
PROGRAM = """
import json, signal, sys
from pathlib import Path
from streamer.operate.local.broker import DurableBroker
from streamer.settings import Settings
given = json.loads(sys.argv[1])
folder = Path(given.pop("folder"))
broker = DurableBroker(Settings(**given), folder / "journal", folder / "broker.log", "worker", print)
broker.start()
signal.pause()
"""


class EmbeddedServer:
    """One broker that keeps its events in a folder; its event topic has the prefix NAMESPACE alone."""

    def __init__(self, folder: Path, partitions: int, port: int | None = None) -> None:
        self._port = port or free_port()
        self.bootstrap = f"127.0.0.1:{self._port}"
        given = {
            "folder": str(folder),
            "bootstrap": self.bootstrap,
            "namespace": NAMESPACE,
            "partitions": partitions,
            "embedded": True,
        }
        argv = [sys.executable, "-c", PROGRAM, json.dumps(given)]
        self.child = Child("The embedded broker", argv, log=folder / "server.log")

    def start(self, seconds: float = 15.0) -> None:
        """Start it and return when it answers, which is when its journal is loaded."""
        self.child.start()
        self.child.wait_ready(lambda: kafka_answers(self._port), seconds)

    def stop(self) -> None:
        """End it."""
        self.child.stop()
