"""An embedded stack of the demo's own: `streamer up --ephemeral` below this process, hidden from others."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson

from streamer.cli.up import PROGRAM, READY_SECONDS, STOP_SECONDS
from streamer.client.reader import StateReader
from streamer.embedded.processes import Child
from streamer.settings import Settings
from streamer.web.listening import DEFAULT_HOST, available_port


@dataclass(frozen=True, slots=True)
class DemoStack:
    """A running stack.

    Attributes:
        settings: where its servers are.
        page: address of its page, which may take a moment to answer.
    """

    settings: Settings
    page: str


@contextmanager
def demo_stack() -> Iterator[DemoStack]:
    """A running stack, which ends with the block; what it held is gone then.

    Settings of the user (STREAMER_* variables, streamer.toml) do not reach it.

    Raises:
        streamer.embedded.errors.ServerFailed: it did not start; the message says what it printed.
    """
    with tempfile.TemporaryDirectory(prefix="streamer-demo-") as folder:
        discovery = Path(folder) / "running.json"
        port = available_port()
        up = Child(
            "The embedded stack",
            [sys.executable, "-c", PROGRAM, "up", "--ephemeral", "--web-port", str(port)],
            log=Path(folder) / "up.log",
            env=_environment(discovery),
        )
        try:
            up.start()
            up.wait_ready(discovery.exists, READY_SECONDS)
            settings = _settings(discovery)
            with StateReader(settings) as reader:
                up.wait_ready(lambda: _at_work(reader), READY_SECONDS)
            yield DemoStack(settings, f"http://{DEFAULT_HOST}:{port}/")
        finally:
            up.stop(STOP_SECONDS)


def _at_work(reader: StateReader) -> bool:
    """True once the worker has its partitions: before that, published events would show nothing."""
    states = [worker.status for worker in reader.workers()]
    return any(state.get("partitions") and not state.get("catching_up") for state in states)


def _environment(discovery: Path) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("STREAMER_")}
    return clean | {"STREAMER_DISCOVERY": str(discovery), "STREAMER_CONFIG": ""}


def _settings(discovery: Path) -> Settings:
    """Everything that says where the stack is, so that nothing of the user's settings gets in between.

    What the tail and the publisher keep on disk goes with the stack.
    """
    found = orjson.loads(discovery.read_bytes())
    return Settings(
        bootstrap=found["bootstrap"],
        redis=found["redis"],
        namespace=found["namespace"],
        partitions=found["partitions"],
        embedded=True,
        redis_password=None,
        security_protocol="PLAINTEXT",
        prices_file=None,
        data_dir=discovery.parent,
    )
