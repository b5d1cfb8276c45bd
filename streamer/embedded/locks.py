"""One process at a time: a lock on a file. The system releases it when its holder ends, however it ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from streamer.embedded.errors import EmbeddedError


@contextmanager
def locked(path: Path, what: str) -> Iterator[None]:
    """Hold the lock; EmbeddedError naming `what` if another process holds it."""
    import fcntl  # POSIX only, as the whole stack; imported late so that errors of other kinds come first

    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise EmbeddedError(
                f"{what} {path.parent} is in use by process {path.read_text().strip() or 'unknown'}. "
                "End that one (Ctrl-C or SIGTERM), or choose another directory with --data."
            ) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n".encode())
        file.flush()
        yield
