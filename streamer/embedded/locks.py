"""One process at a time: a lock on a file. The system releases it when its holder ends, however it ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from streamer.embedded.errors import EmbeddedError


@contextmanager
def locked(path: Path, what: str) -> Iterator[None]:
    """Hold the lock; EmbeddedError naming `what` if another process holds it."""
    try:
        lock = FileLock(path, blocking=False, fallback_to_soft=False).acquire()
    except Timeout:
        raise EmbeddedError(
            f"{what} {path.parent} is in use by process {path.read_text().strip() or 'unknown'}. "
            "End that one (Ctrl-C or SIGTERM), or choose another directory with --data."
        ) from None
    with lock:
        path.write_text(f"{os.getpid()}\n")
        yield
