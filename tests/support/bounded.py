"""The program `streamer` with a bound on its memory, and files that are larger than it."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

DEADLINE_SECONDS = 240
GIB = 1024**3
_BOUNDED = (
    "import resource; resource.setrlimit(resource.RLIMIT_AS, ({bytes}, {bytes})); "
    "from streamer.terminal import main; main()"
)


def streamer_within(most_bytes: int, *arguments: object) -> subprocess.CompletedProcess[bytes]:
    """Run a command that cannot have more memory than that (address space, so in truth a good deal less)."""
    command = [sys.executable, "-c", _BOUNDED.format(bytes=most_bytes), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, timeout=DEADLINE_SECONDS)


def sparse(file: Path, size: int = 6 * GIB) -> Path:
    """A file of zeros of that size, which takes no room on disk."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as opened:
        opened.truncate(size)
    return file


def gzip_bomb(file: Path, unpacked: bytes, times: int) -> Path:
    """A gzip file that unpacks to so many times those bytes."""
    member = gzip.compress(unpacked, 6)
    with file.open("wb") as opened:
        for _ in range(times):
            opened.write(member)
    return file
