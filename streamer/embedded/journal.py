"""The journal: every event that was acknowledged, on the disk, since the embedded broker keeps nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from streamer.embedded.journal_format import MAGIC, Damage, Frame, encode, read_frames

SEGMENT_BYTES = 64 * 1024 * 1024
SUFFIX = ".journal"

Say = Callable[[str], None]


class Journal:
    """Segments `00000001.journal`, ... in one folder; each start of a writer begins a new one.

    Read it to the end before the first write: events are numbered, by partition.

    Args:
        directory: created if missing; one process at a time (`up` locks its data directory).
        segment_bytes: a segment that has grown beyond this is closed.
    """

    def __init__(self, directory: Path, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._next: dict[int, int] = {}
        self._path: Path | None = None
        self._file = -1
        self._size = 0
        directory.mkdir(parents=True, exist_ok=True)

    def segments(self) -> list[Path]:
        """The segment files, oldest first."""
        return sorted(self._directory.glob(f"*{SUFFIX}"))

    def read(
        self, warn: Say, progress: Callable[[int, int], None] = lambda _done, _all: None
    ) -> Iterator[Frame]:
        """All frames, in the order they were written.

        Args:
            warn: called with a sentence for each damage, and with how many events are missing.
            progress: called after each segment with the bytes read so far, and the bytes of all segments.
        """
        segments = self.segments()
        total, done, missing = sum(path.stat().st_size for path in segments), 0, 0
        for path in segments:
            data = path.read_bytes()
            for found in read_frames(data):
                if isinstance(found, Frame):
                    missing += self._count(found.partition, found.first, found.events)
                    yield found
                    continue
                if found.torn:
                    _cut(path, found, data, warn)
                    continue
                if found.head is not None:
                    missing += found.head.events + self._count(*found.head)
                warn(_words(path, found))
            done += len(data)
            progress(done, total)
        if missing:
            warn(f"Of the journal in {self._directory}, {missing:,} events are missing for these reasons.")

    def write(self, batches: Sequence[tuple[int, int, bytes]]) -> None:
        """Append batches, each with its partition and its number of events, and sync them to the disk.

        When this returns, they survive SIGKILL and a power cut.

        Raises:
            OSError: the journal has not taken any of them. It may be tried again.
        """
        numbers, frames = dict(self._next), []
        for partition, events, batch in batches:
            first = numbers.get(partition, 0)
            frames.append(encode(Frame(partition, first, events, batch)))
            numbers[partition] = first + events
        data = b"".join(frames)
        try:
            if self._path is None:
                self._begin_segment()
            _write_all(self._file, data)
            os.fsync(self._file)
        except OSError:
            self._take_back()
            raise
        self._next = numbers
        self._size += len(data)
        if self._size >= self._segment_bytes:
            self.close()

    def close(self) -> None:
        """Close the segment; a later write begins a new one."""
        if self._path is not None:
            os.close(self._file)
            self._path = None

    def _count(self, partition: int, first: int | None, events: int) -> int:
        """Note that these events were read; how many before them are missing."""
        expected = self._next.get(partition, 0)
        first = expected if first is None else first
        self._next[partition] = max(expected, first + events)
        return max(0, first - expected)

    def _begin_segment(self) -> None:
        existing = self.segments()
        number = int(existing[-1].stem) + 1 if existing else 1
        path = self._directory / f"{number:08d}{SUFFIX}"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        self._path, self._size = path, 0
        _write_all(self._file, MAGIC)
        self._size = len(MAGIC)
        _sync_directory(self._directory)

    def _take_back(self) -> None:
        """Remove what a failed write left. A file whose sync failed is not written again."""
        if self._path is None:
            return
        with suppress(OSError):
            os.truncate(self._path, self._size)
            if self._size <= len(MAGIC):
                self._path.unlink()
        with suppress(OSError):
            self.close()


def _words(path: Path, damage: Damage) -> str:
    events = "An unknown number of" if damage.head is None else f"{damage.head.events:,}"
    return (
        f"The journal {path} is damaged from byte {damage.at:,} to {damage.at + damage.size:,} "
        f"({damage.size:,} bytes). {events} events there cannot be read; everything behind them is. "
        "Restore the file from a copy, or publish them again."
    )


def _cut(path: Path, torn: Damage, data: bytes, warn: Say) -> None:
    kept = path.with_suffix(".cut")
    kept.write_bytes(data[torn.at :])
    os.truncate(path, torn.at)
    warn(
        f"The journal {path} ends in {torn.size:,} bytes of an event that was not written to its end, so it "
        f"was not acknowledged either. They are cut off and kept in {kept}."
    )


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
