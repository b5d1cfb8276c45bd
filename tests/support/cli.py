"""The program `streamer` itself, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

DEADLINE_SECONDS = 120
COMMAND = (sys.executable, "-c", "from streamer.cli import main; main()")


def streamer(
    *arguments: object, stdin: bytes = b"", cwd: Path | None = None, environment: Mapping[str, str] = {}
) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end; `environment` is added to this process's, STREAMER_* of which are dropped."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("STREAMER_")}
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        timeout=DEADLINE_SECONDS,
        cwd=cwd,
        env=clean | dict(environment),
    )
