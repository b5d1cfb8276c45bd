"""One process at a time: a lock on a file. The system releases it when its holder ends, however it ends."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from streamer.embedded.errors import EmbeddedError

POLL_SECONDS = 0.05


@contextmanager
def locked(path: Path, what: str, wait_seconds: float = 0.0) -> Iterator[None]:
    """Hold the lock; EmbeddedError naming `what` if another process holds it for longer than we wait."""
    import fcntl  # POSIX only, as the whole stack; imported late so that errors of other kinds come first

    deadline = time.monotonic() + wait_seconds
    with open(path, "ab") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise EmbeddedError(
                        f"{what} {path.parent} is in use by process {path.read_text().strip() or 'unknown'}. "
                        "End that one (Ctrl-C or SIGTERM), or choose another directory with --data."
                    ) from None
                time.sleep(POLL_SECONDS)
        file.truncate(0)
        file.write(f"{os.getpid()}\n".encode())
        file.flush()
        yield
