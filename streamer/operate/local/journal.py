"""The journal: every acknowledged event on disk, because the embedded broker keeps nothing.

Its files hold Kafka record batches in frames with checksums:

    file  = MAGIC | frame | frame ...
    frame = FRAME_START | partition u32 | first u64 | events u32 | length u32 | body crc u32 | head crc u32
            | body

Numbers are big-endian, checksums CRC-32. The body is one record batch, as its producer packed it. `first` is
the number of the frame's first event within its partition, so that a gap shows how many events are lost.
After damage, reading continues at the next FRAME_START with a good frame.

`counts.json` holds the number of synced events of each partition: {"version": 1, "events": {PARTITION:
COUNT}}. It reveals a missing end. It is written after each sync, so it may say too few after a power cut, but
never too many. Earlier releases ignore it.

Files of the earlier version begin with MAGIC_1 and hold one record per frame:

    frame = length u32 | crc u32 | body
    body  = partition u32 | timestamp i64 | key length i32 | value length i32 | key | value

>>> frame = Frame(partition=3, first=7, events=1, batch=b"batch")
>>> list(read_frames(MAGIC + encode(frame))) == [frame]
True
>>> list(read_frames(MAGIC + encode(frame)[:-1]))
[Damage(at=8, size=36, torn=True, head=None)]
"""

from __future__ import annotations

import asyncio
import json
import os
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

from streamer.client.capture import AppendOnlyFile, sync_directory
from streamer.operate.local.processes import Connection, ProduceResult
from streamer.storage.log import UNPACKERS, BatchTooLarge, UnreadableBatch
from streamer.text import counted

# -----------------------------------------------------------------------------
# Kafka's record batches: checked before they are accepted, unpacked within limits, packed into larger ones.
#
# The embedded broker does not look into batches. So batches that Apache Kafka would refuse are refused here.


MAX_BATCH_BYTES = 16 * 1024 * 1024
PACKED_BYTES = 512 * 1024
"""The size to which small batches are packed, because the embedded broker reads many small ones slowly."""

WORTH_PACKING = 2

CORRUPT, TOO_LARGE, UNSUPPORTED_FORMAT, INVALID = 2, 10, 43, 87

RECORD_BATCH = 2
"""Magic byte of the only accepted format."""

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
_CODEC_BITS, _TRANSACTION_OR_CONTROL = 0x07, 0x30
_NAMES = {number: name for name, number in CODECS.items()}

_HEADER = struct.Struct(">qiibIhiqqqhii")
_LENGTH_AT, _BEFORE_LENGTH = 8, 12
_CRC_AT, _CRC_FROM = 17, 21
_ATTRIBUTES_AT, _PRODUCER_AT = 21, 43
_PRODUCER = struct.Struct(">qhi")
_NO_PRODUCER = _PRODUCER.pack(-1, -1, -1)


class BatchRefused(Exception):
    """A batch that is not accepted, with the error code of Kafka's protocol for its producer."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class RecordBatch(NamedTuple):
    events: int
    data: bytes


class ProducerSequence(NamedTuple):
    """An idempotent producer's marks in a batch: its identity, and the number of the first event.

    It numbers the events of each partition from 0. A higher epoch begins at 0 again.
    """

    producer: int
    epoch: int
    first: int


def sequence_of(batch: bytes) -> ProducerSequence | None:
    sequence = ProducerSequence(*_PRODUCER.unpack_from(batch, _PRODUCER_AT))
    return None if sequence.producer < 0 else sequence


def without_sequence(batch: bytes) -> bytes:
    """A batch without its idempotent producer's marks, which the embedded broker refuses."""
    numbers = slice(_PRODUCER_AT, _PRODUCER_AT + _PRODUCER.size)
    if len(batch) < _HEADER.size or batch[numbers] == _NO_PRODUCER:
        return batch
    _, _, _, magic, crc, *_ = _HEADER.unpack_from(batch)
    if magic != RECORD_BATCH or crc != calc_crc32c(batch[_CRC_FROM:]):
        return batch
    changed = bytearray(batch)
    changed[numbers] = _NO_PRODUCER
    return _sealed(bytes(changed))


def accepted(records: bytes | None) -> RecordBatch:
    """The single batch of a produce request, in its stored form.

    A batch that compression hardly shrinks, such as a single event, is kept unpacked, which loads ten times
    as fast. Raises BatchRefused if it is missing, damaged, too large, part of a transaction, or not numbered
    0, 1, 2 and so on.
    """
    events, plain = _checked(records, MAX_BATCH_BYTES)
    assert records is not None
    if (sequence := sequence_of(records)) is not None and min(sequence) < 0:
        raise BatchRefused(INVALID)
    return RecordBatch(events, _sealed(plain if len(plain) < WORTH_PACKING * len(records) else records))


def _checked(records: bytes | None, most_bytes: int) -> tuple[int, bytes]:
    if records is None or len(records) < _HEADER.size:
        raise BatchRefused(INVALID)
    _, length, _, magic, crc, attributes, last_delta, *_, events = _HEADER.unpack_from(records)
    if magic != RECORD_BATCH:
        raise BatchRefused(UNSUPPORTED_FORMAT)
    if len(records) > most_bytes:
        raise BatchRefused(TOO_LARGE)
    if length + _BEFORE_LENGTH != len(records) or attributes & _TRANSACTION_OR_CONTROL:
        raise BatchRefused(INVALID)
    if crc != calc_crc32c(records[_CRC_FROM:]):
        raise BatchRefused(CORRUPT)
    try:
        plain = _plain(records)
        result = _numbered(plain)
    except CorruptRecordException:
        raise BatchRefused(INVALID) from None
    if not result == events == last_delta + 1:
        raise BatchRefused(INVALID)
    return events, plain


def _numbered(plain: bytes) -> int:
    """The number of records in the batch. Raises CorruptRecordException unless they are numbered 0, 1, 2, ...

    Apache Kafka trusts the numbers of an uncompressed batch, and its readers would continue after them.
    """
    (base,) = struct.unpack_from(">q", plain)
    count = 0
    for record in _records(plain):
        if record.offset != base + count:
            raise CorruptRecordException(f"record {count} has the number {record.offset - base}")
        count += 1
    return count


def unpacked(batch: bytes) -> Iterator[Any]:
    return _records(_plain(batch))


def one_record(timestamp_ms: int, key: bytes | None, value: bytes | None) -> bytes:
    builder = _builder(0)
    builder.append(0, timestamp_ms, key, value, [])
    return bytes(builder.build())


class Packer:
    """A packer of one partition's records into batches of about PACKED_BYTES, in order."""

    def __init__(self, compression: str) -> None:
        self._codec = CODECS[compression]
        self._open: Any = None
        self._events = 0

    def add(self, batch: RecordBatch) -> Iterator[RecordBatch]:
        if len(batch.data) >= PACKED_BYTES // 4:
            yield from self.rest()
            yield RecordBatch(batch.events, without_sequence(batch.data))
            return
        for record in unpacked(batch.data):
            if self._open is not None and not self._append(record):
                yield from self.rest()
            if self._open is None:
                self._open = _builder(self._codec)
                self._append(record)  # the first one always fits

    def rest(self) -> Iterator[RecordBatch]:
        if self._open is not None:
            yield RecordBatch(self._events, bytes(self._open.build()))
            self._open, self._events = None, 0

    def _append(self, record: Any) -> bool:
        added = self._open.append(self._events, record.timestamp, record.key, record.value, record.headers)
        self._events += added is not None
        return added is not None


def _builder(codec_number: int) -> Any:
    return DefaultRecordBatchBuilder(2, codec_number, 0, -1, -1, -1, PACKED_BYTES)


def _records(plain: bytes) -> Iterator[Any]:
    try:
        yield from DefaultRecordBatch(plain)
    except (UnicodeDecodeError, OverflowError) as error:
        raise CorruptRecordException(f"name of a header, or a length: {error}") from None


def _plain(batch: bytes) -> bytes:
    (attributes,) = struct.unpack_from(">h", batch, _ATTRIBUTES_AT)
    number = attributes & _CODEC_BITS
    if not number:
        return batch
    header = bytearray(batch[: _HEADER.size])
    struct.pack_into(">h", header, _ATTRIBUTES_AT, attributes & ~_CODEC_BITS)
    return bytes(header) + _unpack(number, batch[_HEADER.size :])


def _sealed(batch: bytes) -> bytes:
    changed = bytearray(batch)
    struct.pack_into(">i", changed, _LENGTH_AT, len(batch) - _BEFORE_LENGTH)
    struct.pack_into(">I", changed, _CRC_AT, calc_crc32c(bytes(changed[_CRC_FROM:])))
    return bytes(changed)


def _unpack(number: int, packed: bytes) -> bytes:
    try:
        return UNPACKERS[_NAMES[number]](packed)
    except BatchTooLarge:
        raise BatchRefused(TOO_LARGE) from None
    except (KeyError, UnreadableBatch) as error:
        raise CorruptRecordException(f"codec {number}: {error}") from None


# -----------------------------------------------------------------------------
# Frames, as the files hold them.


MAGIC = b"STRJRNL2"
MAGIC_1 = b"STRJRNL1"
FRAME_START = b"\xf1\xa6\x1e\x0b"

_HEAD = struct.Struct(">4sIQIII")
_CRC = struct.Struct(">I")
HEAD_BYTES = _HEAD.size + _CRC.size

_HEAD_1 = struct.Struct(">II")
_BODY_1 = struct.Struct(">Iqii")
LONGEST_1 = 64 * 1024 * 1024


class Head(NamedTuple):
    partition: int
    first: int
    events: int


class Frame(NamedTuple):
    """Consecutive events of one partition. `first` is None in version 1, which does not number them."""

    partition: int
    first: int | None
    events: int
    batch: bytes


class Damage(NamedTuple):
    """Bytes of a file that are not a frame: `size` bytes from position `at`.

    `torn`: the file ends within a frame, because its writer was interrupted. `head`: the frame's head, if
    only its body is damaged.
    """

    at: int
    size: int
    torn: bool
    head: Head | None


Decode = Callable[[bytes, int], tuple[Frame | Damage, int]]


def encode(frame: Frame) -> bytes:
    body_crc = zlib.crc32(frame.batch)
    head = _HEAD.pack(FRAME_START, frame.partition, frame.first, frame.events, len(frame.batch), body_crc)
    return b"".join((head, _CRC.pack(zlib.crc32(head)), frame.batch))


def read_frames(data: bytes) -> Iterator[Frame | Damage]:
    return (frame for _, _, frame in _placed(data))


def _placed(data: bytes) -> Iterator[tuple[int, int, Frame | Damage]]:
    version_1 = data.startswith(MAGIC_1) or not (data.startswith(MAGIC) or FRAME_START in data)
    decode, begin = (_decode_1, _any_place) if version_1 else (_decode, _next_frame_start)
    at = len(MAGIC) if data.startswith((MAGIC, MAGIC_1)) else 0
    while at < len(data):
        result, end = decode(data, at)
        if isinstance(result, Damage):
            end = _next_frame(data, end, decode, begin)
            result = result._replace(size=end - at, torn=result.torn and end == len(data))
        yield at, end, result
        at = end


def _next_frame(data: bytes, at: int, decode: Decode, begin: Callable[[bytes, int], int]) -> int:
    at = begin(data, at)
    while at < len(data) and isinstance(decode(data, at)[0], Damage):
        at = begin(data, at + 1)
    return at


def _next_frame_start(data: bytes, at: int) -> int:
    start = data.find(FRAME_START, at)
    return len(data) if start < 0 else start


def _any_place(data: bytes, at: int) -> int:
    return min(at, len(data))


def _decode(data: bytes, at: int) -> tuple[Frame | Damage, int]:
    body = at + HEAD_BYTES
    if body > len(data):
        begins = FRAME_START.startswith(data[at : at + len(FRAME_START)])
        return Damage(at, 0, begins, None), at + 1
    start, partition, first, events, length, body_crc = _HEAD.unpack_from(data, at)
    (head_crc,) = _CRC.unpack_from(data, at + _HEAD.size)
    if start != FRAME_START or head_crc != zlib.crc32(data[at : at + _HEAD.size]):
        return Damage(at, 0, False, None), at + 1
    end = body + length
    if end > len(data):
        return Damage(at, 0, True, None), at + 1
    batch = data[body:end]
    if body_crc != zlib.crc32(batch):
        return Damage(at, 0, False, Head(partition, first, events)), end
    return Frame(partition, first, events, batch), end


def _decode_1(data: bytes, at: int) -> tuple[Frame | Damage, int]:
    begin = at + _HEAD_1.size
    if begin > len(data):
        return Damage(at, 0, True, None), at + 1
    length, crc = _HEAD_1.unpack_from(data, at)
    if not _BODY_1.size <= length <= LONGEST_1:
        return Damage(at, 0, False, None), at + 1
    if begin + length > len(data):
        return Damage(at, 0, True, None), at + 1
    body = data[begin : begin + length]
    if crc != zlib.crc32(body, zlib.crc32(data[at : at + 4])):
        return Damage(at, 0, False, None), at + 1
    partition, timestamp, key_length, value_length = _BODY_1.unpack_from(body)
    split = _BODY_1.size + max(key_length, 0)
    key = body[_BODY_1.size : split] if key_length >= 0 else None
    value = body[split:] if value_length >= 0 else None
    return Frame(partition, None, 1, one_record(timestamp, key, value)), begin + length


# -----------------------------------------------------------------------------
# The journal's segments on the disk.


SEGMENT_BYTES = 64 * 1024 * 1024
GROUP_BYTES = 64 * 1024 * 1024
"""The size of batches that share a sync, exceeded by at most one batch."""

MOST_SEGMENT_BYTES = 1024 * 1024 * 1024
"""The limit for a segment, which ends with the group that exceeds SEGMENT_BYTES."""

SUFFIX = ".journal"
COUNTS = "counts.json"
COUNTS_VERSION = 1

Say = Callable[[str], None]


def holds_its_events(frame: Frame) -> bool:
    """Whether the frame's batch can be loaded and has as many events as the frame says."""
    try:
        return _checked(frame.batch, WORTH_PACKING * MAX_BATCH_BYTES)[0] == frame.events
    except BatchRefused:
        return False


class Journal:
    """Segments `00000001.journal`, ... in one folder; each start of a writer begins a new one.

    Read it to the end before the first write, because events are numbered by partition. Only one process may
    use it at a time (`up` locks its data directory).
    """

    def __init__(self, directory: Path, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._next: dict[int, int] = {}
        self._file: AppendOnlyFile | None = None
        self._damaged = False
        self._missing = Counter[int]()
        directory.mkdir(parents=True, exist_ok=True)

    def segments(self) -> list[Path]:
        return sorted(self._directory.glob(f"*{SUFFIX}"))

    def read(
        self,
        warn: Say,
        progress: Callable[[int, int], None] = lambda _done, _all: None,
        is_good: Callable[[Frame], bool] = lambda _: True,
    ) -> Iterator[Frame]:
        """All frames, in the order they were written.

        `warn` gets a sentence for each damage, and one for missing events. A frame that `is_good` refuses
        counts as damage.
        """
        self._damaged, self._missing, torn = False, Counter[int](), list[str]()
        segments = list(self._of_possible_size(warn))
        total, done = sum(path.stat().st_size for path in segments), 0
        for path in segments:
            data = path.read_bytes()
            for at, end, frame in _placed(data):
                if isinstance(frame, Damage):
                    if frame.torn:
                        torn.append(_cut(path, frame, data))
                    else:
                        self._note(path, frame, warn)
                elif is_good(frame):
                    self._count(frame.partition, frame.first, frame.events)
                    yield frame
                else:
                    head = None if frame.first is None else Head(frame.partition, frame.first, frame.events)
                    self._note(path, Damage(at, end - at, False, head), warn)
            done += len(data)
            progress(done, total)
        self._tell_missing(torn, warn)

    def write(self, batches: Sequence[tuple[int, int, bytes]]) -> None:
        """Append batches, each with its partition and its number of events, and sync them to the disk.

        When this returns, they survive SIGKILL and a power cut. After an OSError the journal has none of the
        batches, and the call may be repeated.
        """
        numbers, frames = dict(self._next), []
        for partition, events, batch in batches:
            first = numbers.get(partition, 0)
            frames.append(encode(Frame(partition, first, events, batch)))
            numbers[partition] = first + events
        if self._file is None:
            number = int(self.segments()[-1].stem) + 1 if self.segments() else 1
            self._file = AppendOnlyFile.create(self._directory / f"{number:08d}{SUFFIX}", MAGIC)
        try:
            self._file.append(b"".join(frames))
        except OSError:  # a file whose sync failed is not written again
            if self._file.size <= len(MAGIC):
                with suppress(OSError):
                    self._file.path.unlink()
            self.close()
            raise
        self._next = numbers
        self._keep_counts()
        if self._file.size >= self._segment_bytes:
            self.close()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
            self._keep_counts(sync=True)

    def _of_possible_size(self, warn: Say) -> Iterator[Path]:
        for path in self.segments():
            if (size := path.stat().st_size) <= MOST_SEGMENT_BYTES:
                yield path
                continue
            self._damaged = True
            warn(
                f"The journal {path} has {size:,} bytes, but a segment has at most {MOST_SEGMENT_BYTES:,}. "
                "It is not read, so its events are missing. Restore the file from a copy, or publish them "
                "again and move the file away."
            )

    def _note(self, path: Path, damage: Damage, warn: Say) -> None:
        self._damaged = True
        if damage.head is not None:
            self._count(*damage.head)
            self._missing[damage.head.partition] += damage.head.events
        warn(_words(path, damage))

    def _count(self, partition: int, first: int | None, events: int) -> None:
        expected = self._next.get(partition, 0)
        first = expected if first is None else first
        self._next[partition] = max(expected, first + events)
        self._missing[partition] += max(0, first - expected)

    def _tell_missing(self, torn: list[str], warn: Say) -> None:
        """Report missing events. Later events get higher numbers, so these stay missing."""
        short = Counter[int]()
        for partition, count in self._counts(warn).items():
            if (less := count - self._next.get(partition, 0)) > 0:
                short[partition] = less
                self._next[partition] = count
        for line in torn:
            warn(line + ("" if short else " It was not acknowledged either."))
        if self._damaged and (missing := self._missing.total()):
            warn(f"The journal in {self._directory} lacks {counted(missing, 'event')} for these reasons.")
        elif not self._damaged:
            short += self._missing
        for partition, events in sorted(short.items()):
            warn(
                f"{counted(events, 'acknowledged event')} of partition {partition} "
                f"{'is' if events == 1 else 'are'} missing from the journal in {self._directory}: a file, or "
                "its end, is gone. Restore it from a copy, or publish them again."
            )

    def _counts(self, warn: Say) -> dict[int, int]:
        path = self._directory / COUNTS
        try:
            kept = json.loads(path.read_bytes())
            if kept["version"] == COUNTS_VERSION:
                return {int(partition): int(count) for partition, count in kept["events"].items()}
            why = f"has version {kept['version']}, but only {COUNTS_VERSION} is known"
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            why = "cannot be read"
        warn(f"{path} {why}. So nothing shows whether the end of the journal is missing. It is rewritten.")
        return {}

    def _keep_counts(self, *, sync: bool = False) -> None:
        """Write the counts. If that fails they are too low, which only hides a loss."""
        path, events = self._directory / COUNTS, {str(one): self._next[one] for one in sorted(self._next)}
        partial = path.with_suffix(".partial")
        with suppress(OSError):
            # Written under another name, synced, then renamed: a crash leaves the old counts or the new ones.
            with partial.open("wb") as file:
                file.write(json.dumps({"version": COUNTS_VERSION, "events": events}).encode() + b"\n")
                if sync:
                    file.flush()
                    os.fsync(file.fileno())
            partial.replace(path)
            if sync:
                sync_directory(self._directory)


def _words(path: Path, damage: Damage) -> str:
    events = "An unknown number of events" if damage.head is None else counted(damage.head.events, "event")
    return (
        f"The journal {path} is damaged from byte {damage.at:,} to {damage.at + damage.size:,} "
        f"({damage.size:,} bytes). {events} there cannot be read; everything after that can. Restore the "
        "file from a copy, or publish them again."
    )


def _cut(path: Path, torn: Damage, data: bytes) -> str:
    kept = path.with_suffix(".cut")
    kept.write_bytes(data[torn.at :])
    os.truncate(path, torn.at)
    return (
        f"The journal {path} ends in {torn.size:,} bytes of an incomplete event. They are removed and kept "
        f"in {kept}."
    )


# -----------------------------------------------------------------------------
# The durable event topic: a batch is in the journal and synced before the broker sees it.
#
# So consumers see, and producers get acknowledgements for, only events that survive a restart. Batches that
# wait for the disk together share one sync. One connection appends them to the broker, in the order of the
# journal. So offsets are the same after a restart, except behind copies of misplaced records, which the
# worker makes again.


STORAGE_ERROR = 56
"""Kafka's KAFKA_STORAGE_ERROR: producers try again."""

LOAD_BYTES = 4 * 1024 * 1024

Trouble = Callable[[OSError | None], None]
"""A callback with the error if the journal cannot be written, and with None when it can again."""


class _QueuedBatch(NamedTuple):
    partition: int
    batch: RecordBatch
    keep: bool
    answer: asyncio.Future[ProduceResult]


class EventLog:
    """A queue of appends to the event topic.

    `journal` must be read to its end; None keeps nothing. `broker` has no other users. `trouble` is called
    with the disk's error, and with None once it can be written again.
    """

    def __init__(self, topic: str, journal: Journal | None, broker: Connection, trouble: Trouble) -> None:
        self.topic = topic
        self._journal = journal
        self._broker = broker
        self._trouble = trouble
        self._failing = False
        self._waiting: asyncio.Queue[_QueuedBatch] = asyncio.Queue()

    async def append(self, partition: int, batch: RecordBatch, *, keep: bool) -> ProduceResult:
        """Journal a batch if `keep`, and append it; STORAGE_ERROR if the disk fails."""
        answer: asyncio.Future[ProduceResult] = asyncio.get_running_loop().create_future()
        await self._waiting.put(_QueuedBatch(partition, batch, keep, answer))
        return await answer

    async def run(self) -> None:
        """Journal and append events until cancelled. Raises ConnectionError if the broker fails."""
        while True:
            group = [await self._waiting.get()]
            size = len(group[0].batch.data)
            while size < GROUP_BYTES and not self._waiting.empty():
                group.append(self._waiting.get_nowait())
                size += len(group[-1].batch.data)
            if self._journal is not None:
                kept = [waiting for waiting in group if waiting.keep]
                if kept and not await self._journalled(kept, self._journal):
                    group = [waiting for waiting in group if not waiting.keep]
            if group:
                await self._append(group)

    async def _journalled(self, group: list[_QueuedBatch], journal: Journal) -> bool:
        batches = [(waiting.partition, *waiting.batch) for waiting in group]
        try:
            await asyncio.to_thread(journal.write, batches)
        except OSError as error:
            self._tell(error)
            for waiting in group:
                _answer(waiting, ProduceResult(waiting.partition, STORAGE_ERROR))
            return False
        self._tell(None)
        return True

    async def _append(self, group: list[_QueuedBatch]) -> None:
        batches = [(waiting.partition, without_sequence(waiting.batch.data)) for waiting in group]
        offsets = await self._broker.append(self.topic, batches)
        for waiting in group:
            _answer(waiting, ProduceResult(waiting.partition, 0, offsets[waiting.partition]))
            offsets[waiting.partition] += waiting.batch.events

    def _tell(self, error: OSError | None) -> None:
        if self._failing != (error is not None):
            self._failing = error is not None
            self._trouble(error)


async def load(
    topic: str, partitions: int, frames: Iterable[Frame], broker: Connection, compression: str
) -> Counter[int]:
    """Append the journal's frames to the fresh topic, small batches packed; returns events by partition.

    Frames of a partition that no longer exists go to another one; the worker forwards their events.
    """
    packers = [Packer(compression) for _ in range(partitions)]
    ready: list[tuple[int, bytes]] = []
    size, events = 0, Counter[int]()
    for frame in frames:
        partition = frame.partition % partitions
        for batch in packers[partition].add(RecordBatch(frame.events, frame.batch)):
            ready.append((partition, batch.data))
            size += len(batch.data)
        events[partition] += frame.events
        if size >= LOAD_BYTES:
            await broker.append(topic, ready)
            ready, size = [], 0
    ready += [(n, batch.data) for n, packer in enumerate(packers) for batch in packer.rest()]
    if ready:
        await broker.append(topic, ready)
    return events


def _answer(waiting: _QueuedBatch, answer: ProduceResult) -> None:
    if not waiting.answer.done():  # its connection may have ended
        waiting.answer.set_result(answer)
