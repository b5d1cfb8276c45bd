"""A `streamer up` in a process of its own, as tests need it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamer.settings import Settings
from tests.support.worker_process import wait_for

DEADLINE_SECONDS = 60.0

PROGRAM = """
import json, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
from pathlib import Path
from streamer.operate.local import WORKER, run_up
from streamer.settings import Settings
given = json.loads(sys.argv[1])
sys.exit(run_up(
    Settings(**given["settings"]),
    data_dir=Path(given["data_dir"]), ephemeral=given["ephemeral"],
    echo=lambda line: print(line, flush=True), worker=given["worker"] or WORKER,
    **given["ports"],
))
"""

REAL_WORKER: dict[str, Any] = {"worker": [], "partitions": 4, "session_timeout_seconds": 3}
"""Options of a stack whose worker is the product's."""

IDLE_WORKER = [sys.executable, str(Path(__file__).with_name("idle_worker.py"))]


def runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def descendants(pid: int) -> dict[int, str]:
    result: dict[int, str] = {}
    for child in _children(pid):
        with suppress(OSError):  # it has ended since
            result[child] = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        result |= descendants(child)
    return result


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


@dataclass
class Stack:
    """The running process, where it is, what it printed."""

    process: subprocess.Popen[bytes]
    discovery: Path
    output: Path

    @property
    def addresses(self) -> dict[str, Any]:
        return dict(json.loads(self.discovery.read_text()))

    @property
    def settings(self) -> Settings:
        names = ("bootstrap", "redis", "namespace", "partitions")
        return Settings(embedded=True, **{name: self.addresses[name] for name in names})

    @property
    def data(self) -> Path:
        return self.discovery.parent / "data"

    @property
    def printed(self) -> str:
        return self.output.read_text()

    def pid_of(self, part: str) -> int:
        [pid] = [pid for pid, command in descendants(self.process.pid).items() if part in command]
        return pid

    def other(self, part: str) -> bool:
        """True if exactly one descendant has this in its command line."""
        return sum(part in command for command in descendants(self.process.pid).values()) == 1

    @contextmanager
    def ending(self) -> Iterator[None]:
        """What is done in the block ends `up`; wait until it and everything below it is gone."""
        below = descendants(self.process.pid)
        yield
        self.process.wait(DEADLINE_SECONDS)
        wait_for(lambda: not [pid for pid in below if runs(pid)], f"the end of all of {below}", 20)

    def end(self, number: signal.Signals) -> int:
        with self.ending():
            self.process.send_signal(number)
        return int(self.process.returncode)


def launch(
    directory: Path,
    *,
    ephemeral: bool = False,
    worker: list[str] | None = None,
    ports: dict[str, int] | None = None,
    **settings: Any,
) -> Stack:
    """Start it, without waiting; the discovery file and the output lie beside the data directory.

    `worker` is its command line: [] for the real one, None for a stand-in. `ports` are named as arguments.
    """
    discovery, output = directory / "running.json", directory / "output.txt"
    discovery.unlink(missing_ok=True)
    given = {
        "settings": settings,
        "data_dir": str(directory / "data"),
        "ephemeral": ephemeral,
        "worker": IDLE_WORKER if worker is None else worker,
        "ports": ports or {},
    }
    own, no_input = os.environ | {"STREAMER_DISCOVERY": str(discovery)}, subprocess.DEVNULL
    command = [sys.executable, "-c", PROGRAM, json.dumps(given)]
    with output.open("wb") as out:
        process = subprocess.Popen(command, env=own, stdin=no_input, stdout=out, stderr=out, process_group=0)
    return Stack(process, discovery, output)


@contextmanager
def running(directory: Path, **options: Any) -> Iterator[Stack]:
    """A stack that is up and has said so in full; it is ended in any case."""
    stack = launch(directory, **options)

    up = "Ctrl-C ends everything."
    try:
        wait_for(lambda: up in stack.printed or stack.process.poll() is not None, f"{up!r} in {stack.output}")
        assert stack.process.poll() is None, stack.printed
        yield stack
    finally:
        stack.process.kill()
        stack.process.wait()
