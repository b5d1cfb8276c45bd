"""Events on the local disk while the broker is away: one NDJSON file per publisher, in one directory.

A publisher holds a lock on its file as long as it lives. A file without a lock was left by a process that
ended, or was killed. The next publisher in that directory takes it over. Lines that were sent stay in the
file until all were sent, so that after a crash some are sent again; duplicates do not count (R17).
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from filelock import lock_descriptor

from streamer.publish.publisher import Outgoing
from streamer.schemas.identity import encode_id
from streamer.settings import Settings

SUFFIX = ".spill.ndjson"
REFUSED = "refused.ndjson"
"""Lines that were no events, and events that the broker refused for good."""

CHUNK_BYTES = 2 * 1024 * 1024
"""Read at once; more than the largest record (1 MiB), so that at least one line is whole."""


def spill_dir(settings: Settings) -> Path:
    """Where events for this deployment wait, and for no other: a name per broker and namespace.

    The embedded stack gets a new port with every start; all its starts share one.
    """
    broker = "embedded" if settings.embedded else encode_id(settings.bootstrap)
    return settings.data_root / "spill" / (f"{settings.namespace}@{broker}" if settings.namespace else broker)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some lines of one file, as they were written.

    Attributes:
        lines: without their ends.
        count: how many ends there were: of a line that is too long for any of ours there are several parts.
        end: offset behind them.
    """

    lines: list[bytes]
    count: int
    file: SpillFile
    end: int


class SpillFile:
    """One file, open and locked.

    Attributes:
        unsent: lines that are not confirmed yet.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.unsent = 0
        self._fd = descriptor
        self._size = os.fstat(descriptor).st_size
        self._confirmed = 0

    @classmethod
    def create(cls, directory: Path) -> Self:
        """A new, empty one. It gets its name when it is locked, so no process takes it for an orphan.

        Raises:
            OSError: it cannot be written there.
        """
        path = directory / f"{os.getpid()}-{uuid.uuid4().hex[:12]}{SUFFIX}"
        unlocked = path.with_suffix(".new")
        descriptor = os.open(unlocked, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)
        lock_descriptor(descriptor)
        unlocked.rename(path)
        _sync_directory(directory)
        return cls(path, descriptor)

    @classmethod
    def adopt(cls, path: Path) -> Self | None:
        """A file that its process left behind; None if the process lives, or another was faster.

        Raises:
            OSError: it cannot be read and written.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND)
        try:
            ours = lock_descriptor(descriptor, blocking=False)
            found = ours and os.fstat(descriptor).st_ino == path.stat().st_ino
        except FileNotFoundError:
            found = False
        if not found:
            os.close(descriptor)
            return None
        file = cls(path, descriptor)
        file._count()
        return file

    def append(self, lines: Sequence[bytes]) -> None:
        """Add lines: on the disk when this returns, or not in the file at all.

        Raises:
            OSError: no room, or no permission.
        """
        data = memoryview(b"".join(line + b"\n" for line in lines))
        size = self._size
        try:
            while data:
                written = os.write(self._fd, data)
                size += written
                data = data[written:]
            os.fsync(self._fd)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._fd, self._size)
            raise
        self._size = size
        self.unsent += len(lines)

    def read(self) -> Chunk | None:
        """The first lines that are not confirmed, None if there are none."""
        if self.done:
            return None
        block = os.pread(self._fd, min(CHUNK_BYTES, self._size - self._confirmed), self._confirmed)
        end = block.rfind(b"\n") + 1 or len(block)  # a line of more than CHUNK_BYTES is none of ours
        block = block[:end]
        lines = block.removesuffix(b"\n").split(b"\n")
        return Chunk(lines, block.count(b"\n"), self, self._confirmed + end)

    @property
    def done(self) -> bool:
        """Whether every line is confirmed."""
        return self._confirmed >= self._size

    def confirm(self, chunk: Chunk) -> None:
        """Give up these lines; with the last one the file is emptied."""
        self._confirmed = chunk.end
        self.unsent -= chunk.count
        if self.done:
            os.ftruncate(self._fd, 0)
            self._size = self._confirmed = self.unsent = 0

    def close(self) -> None:
        """Let go of it; without unsent lines it is removed."""
        if self.done:
            self.path.unlink(missing_ok=True)
        os.close(self._fd)

    def forget(self) -> None:
        """Let go of it in a forked process, whose parent still holds it."""
        os.close(self._fd)

    def _count(self) -> None:
        """Count the lines. A last one without its end was cut off by a crash: it ends where it ends."""
        if self._size and os.pread(self._fd, 1, self._size - 1) != b"\n":
            os.write(self._fd, b"\n")
            self._size += 1
        for start in range(0, self._size, CHUNK_BYTES):
            self.unsent += os.pread(self._fd, CHUNK_BYTES, start).count(b"\n")


class Spill:
    """The directory: a file of our own, made when it is needed, and those that were left behind."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._own: SpillFile | None = None
        self._adopted: list[SpillFile] = []

    @property
    def unsent(self) -> int:
        """Events in our files that are not confirmed."""
        return sum(file.unsent for file in self._files())

    @property
    def files(self) -> list[Path]:
        """The files that hold something."""
        return [file.path for file in self._files() if file.unsent]

    def prepare(self) -> None:
        """Make the directory if need be, and take over what was left behind.

        Raises:
            OSError: it cannot be used.
        """
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        ours = {file.path for file in self._files()}
        for path in sorted(self.directory.glob(f"*{SUFFIX}")):
            if path not in ours:
                with suppress(FileNotFoundError, PermissionError):  # sent meanwhile; of somebody else
                    if file := SpillFile.adopt(path):
                        self._adopted.append(file)
        for file in [file for file in self._adopted if file.done]:
            self._adopted.remove(file)
            file.close()

    def append(self, records: Sequence[Outgoing]) -> None:
        """Keep events, on the disk when this returns.

        Raises:
            OSError: they cannot be kept there; nothing was.
        """
        if self._own is None:
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._own = SpillFile.create(self.directory)
        self._own.append([record.value for record in records])

    def read(self) -> Chunk | None:
        """Some lines that are not confirmed, None if there are none."""
        for file in self._files():
            if chunk := file.read():
                return chunk
        return None

    def confirm(self, chunk: Chunk) -> None:
        """Count these lines as done."""
        chunk.file.confirm(chunk)
        if chunk.file in self._adopted and chunk.file.done:
            self._adopted.remove(chunk.file)
            chunk.file.close()

    def refuse(self, value: bytes) -> None:
        """Put aside what will never be taken.

        Raises:
            OSError: it cannot be kept there.
        """
        with (self.directory / REFUSED).open("ab") as file:
            file.write(value + b"\n")

    def close(self) -> None:
        """Let go of all files; unsent events stay for the next publisher."""
        for file in self._files():
            file.close()
        self._own, self._adopted = None, []

    def forget(self) -> None:
        """Let go of all files in a forked process."""
        for file in self._files():
            file.forget()
        self._own, self._adopted = None, []

    def _files(self) -> Iterator[SpillFile]:
        yield from list(self._adopted)
        if self._own is not None:
            yield self._own


def _sync_directory(directory: Path) -> None:
    """The name of a new file survives a power cut."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
