"""A supervised program does not outlive the process that started it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from streamer.operate.local import parent_death
from tests.embedded.stack import runs
from tests.support.worker_process import wait_for

START = """
import os, sys, time
sys.path.insert(0, {folder!r})
import parent_death
if os.fork() == 0:
    {how}
    os._exit(0)
time.sleep(600)
"""
PROGRAM = [
    sys.executable,
    "-c",
    "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)",
]


@pytest.mark.parametrize("how", ["become", "watch"])
def test_the_program_ends_when_its_starter_is_killed(tmp_path: Path, how: str) -> None:
    if how == "become" and sys.platform != "linux":
        pytest.skip("SKIPPED LOUDLY: the kernel of Linux does this, no other")
    written = tmp_path / "pid"
    call = f"parent_death.{how}(os.getppid(), {[*PROGRAM, str(written)]!r})"
    folder = str(Path(parent_death.__file__).parent)
    starter = subprocess.Popen([sys.executable, "-c", START.format(folder=folder, how=call)])
    try:
        wait_for(lambda: written.exists() and written.read_text(), "the start of the program")
        pid = int(written.read_text())
        assert runs(pid)
    finally:
        starter.kill()
        starter.wait()
    wait_for(lambda: not runs(pid), "the end of the program", 20)
