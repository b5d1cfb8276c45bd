"""The journal: every record of the event topic in append-only segment files, since the broker keeps nothing.

What survives: an appended record is in the system's page cache at once, so it survives the end of any of our
processes, SIGKILL included. `sync` brings it to the disk: a reboot or a power cut loses at most what was
appended since the last one (the journaller calls it at most every 100 ms, and when it ends).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from streamer.embedded.frames import MAGIC, Damage, Entry, encode, read_frames

SEGMENT_BYTES = 64 * 1024 * 1024
SUFFIX = ".journal"


class Journal:
    """Segments `00000001.journal`, ... in one folder; each start of a writer begins a new one.

    Args:
        directory: created if missing; one process at a time (see `locks`).
        segment_bytes: a segment that has grown beyond this is closed.
    """

    def __init__(self, directory: Path, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._file: int | None = None
        self._written = 0
        self.dirty = False
        """True if something was appended since the last sync."""
        directory.mkdir(parents=True, exist_ok=True)

    def segments(self) -> list[Path]:
        """The segment files, oldest first."""
        return sorted(self._directory.glob(f"*{SUFFIX}"))

    def read(self, warn: Callable[[str], None]) -> Iterator[Entry]:
        """All entries, in the order they were appended.

        A torn tail of the last segment (its writer was killed in the middle) is cut off, and kept beside it
        as `.cut`. Damage anywhere else is stepped over and stays in place. `warn` is told of either.
        """
        segments = self.segments()
        for path in segments:
            data = path.read_bytes()
            for found in read_frames(data):
                if isinstance(found, Entry):
                    yield found
                elif path == segments[-1] and found.at + found.size == len(data):
                    _cut(path, found, data, warn)
                else:
                    warn(
                        f"The journal {path} is damaged: {found.size} bytes from byte {found.at} on cannot "
                        "be read; the events in them are left out. Restore the file from a copy, or publish "
                        "them again."
                    )

    def append(self, entries: Iterable[Entry]) -> None:
        """Append entries; when this returns they survive SIGKILL. OSError if the disk is full."""
        data = b"".join(map(encode, entries))
        if not data:
            return
        if self._file is None:
            self._file, self._written = self._new_segment(), 0
        _write_all(self._file, data)
        self.dirty = True
        self._written += len(data)
        if self._written >= self._segment_bytes:
            self.close()

    def sync(self) -> None:
        """When this returns, everything appended survives a power cut."""
        if self._file is not None:
            os.fsync(self._file)
        self.dirty = False

    def close(self) -> None:
        """Sync and close; a later append begins a new segment."""
        self.sync()
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _new_segment(self) -> int:
        existing = self.segments()
        number = int(existing[-1].stem) + 1 if existing else 1
        path = self._directory / f"{number:08d}{SUFFIX}"
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        _write_all(file, MAGIC)
        _sync_directory(self._directory)
        return file


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _cut(path: Path, torn: Damage, data: bytes, warn: Callable[[str], None]) -> None:
    kept = path.with_suffix(".cut")
    kept.write_bytes(data[torn.at :])
    os.truncate(path, torn.at)
    warn(
        f"The journal {path} ends in {torn.size} bytes that are no whole event: its writer was ended while "
        f"it wrote. They are cut off and kept in {kept}; all events before them are loaded."
    )
