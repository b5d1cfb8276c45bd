"""Opens a file below a run's directory: never outside it, never through a link, regular files only.

Every part of the path is opened relative to the one before it, without following links. So nothing that an
agent puts into the directory, before or meanwhile, leads elsewhere.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from streamer.schemas.details import RELATIVE_PATH

_RELATIVE = re.compile(RELATIVE_PATH)
_SAFE = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_DIRECTORY = _SAFE | getattr(os, "O_DIRECTORY", 0)
_FILE = _SAFE | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)


class CannotBeOpened(Exception):
    """A file of a trial is missing, or may not be shown; the message says why."""


@dataclass(frozen=True, slots=True)
class FilePart:
    """The bytes of a file, or its end.

    Attributes:
        content: the bytes.
        size: bytes of the whole file when it was opened.
        left_out: bytes before `content` that were not read.
    """

    content: bytes
    size: int
    left_out: int


def read_below(home: Path, relative: str, limit: int, *, from_end: bool = False) -> FilePart:
    """A file below a directory.

    Args:
        home: the directory.
        relative: the file's path below it, as events have it.
        limit: at most so many bytes.
        from_end: read the last `limit` bytes of a larger file instead of refusing it.

    Raises:
        CannotBeOpened: it is missing, is no regular file, lies behind a link or outside, or is too large.
    """
    with _opened(home, relative) as descriptor:
        size = os.fstat(descriptor).st_size
        if size > limit and not from_end:
            raise CannotBeOpened(
                f"{relative!r} has {size:,} bytes; {limit:,} are shown at most. Open it on its machine"
            )
        left_out = max(0, size - limit)
        content = bytearray()
        while len(content) < limit:
            piece = os.pread(descriptor, min(limit - len(content), 1 << 20), left_out + len(content))
            if not piece:
                break
            content += piece
        return FilePart(bytes(content), size, left_out)


@contextmanager
def _opened(home: Path, relative: str) -> Iterator[int]:
    if not _RELATIVE.fullmatch(relative):
        raise CannotBeOpened(f"{relative!r} is no path below a run's directory")
    *folders, name = [part for part in relative.split("/") if part != "."] or ["."]
    held: list[int] = []
    try:
        held.append(os.open(home, _DIRECTORY))
        for folder in folders:
            held.append(os.open(folder, _DIRECTORY, dir_fd=held[-1]))
        held.append(os.open(name, _FILE, dir_fd=held[-1]))
        if not stat.S_ISREG(os.fstat(held[-1]).st_mode):
            raise CannotBeOpened(f"{relative!r} is no regular file")
        yield held[-1]
    except FileNotFoundError:
        raise CannotBeOpened(f"{relative!r} is not in the run's directory any more") from None
    except OSError as error:
        raise CannotBeOpened(f"{relative!r} cannot be opened: {error.strerror or error}") from error
    finally:
        for descriptor in held:
            with suppress(OSError):
                os.close(descriptor)
