"""Processor time of the commands that people and scripts call often: most of it is starting."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.common import Scale, events
from benchmarks.rows import Measured, Row, Sites
from benchmarks.startup import publish
from tests.operate.stack import running
from tests.support.worker_process import wait_for

SECONDS = 0.5
EVENTS = 20
DEADLINE_SECONDS = 60.0


def commands(scale: Scale, sites: Sites) -> Measured:
    """Rows: processor seconds of each command, Python's own start included, on a stack with one small run."""
    with tempfile.TemporaryDirectory(prefix="bench-commands-") as made:
        folder = Path(made)
        lines = list(events(EVENTS))
        (folder / "events.ndjson").write_bytes(b"\n".join(lines) + b"\n")
        run_id = json.loads(lines[0])["run_id"]
        with running(folder, ephemeral=True, worker=[], adopt_configuration=True) as stack:
            for line in lines:
                asyncio.run(publish(stack.addresses["bootstrap"], stack.addresses["namespace"], line))
            called = [
                ["--help"],
                ["query", "runs"],
                ["query", "run", run_id],
                ["subscribe", "run", "--from-beginning", "--limit", "1"],
                ["fold", "events.ndjson"],
                ["status"],
            ]
            wait_for(lambda: run_id in _run(folder, ["query", "runs"])[1], "the run", DEADLINE_SECONDS)
            turns = {
                " ".join(arguments).replace(run_id, "RUN"): [
                    _run(folder, arguments)[0] for _ in range(scale.warm_up + scale.repeats)
                ][scale.warm_up :]
                for arguments in called
            }
    rows = [
        Row(f"processor time of `streamer {name}`", values, "s", "<=", SECONDS)
        for name, values in turns.items()
    ]
    return Measured(rows, {"commands": turns})


def _run(folder: Path, arguments: list[str]) -> tuple[float, str]:
    """Processor seconds of a command, its own and the system's, and what it printed."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("STREAMER_")}
    program = str(Path(sys.executable).with_name("streamer"))
    output = folder / "output.txt"
    with output.open("wb") as opened:
        process = subprocess.Popen(
            [program, *arguments],
            cwd=folder,
            env=clean | {"STREAMER_DISCOVERY": str(folder / "running.json")},
            stdout=opened,
            stderr=opened,
        )
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, f"{arguments}: {output.read_text()}"
    return used.ru_utime + used.ru_stime, output.read_text()
