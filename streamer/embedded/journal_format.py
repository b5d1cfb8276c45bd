"""The journal's file format: Kafka record batches in frames with checksums.

    file  = MAGIC | frame | frame ...
    frame = FRAME_START | partition u32 | first u64 | events u32 | length u32 | body crc u32 | head crc u32
            | body

All numbers are big-endian, both checksums CRC-32. The body is one record batch, as its producer packed it.
`first` numbers the first event of the frame among all events of its partition: a gap shows how many events
damage has cost. Behind damage, reading goes on at the next FRAME_START that begins a good frame.

Files of the version before begin with MAGIC_1 and hold one record per frame:

    frame = length u32 | crc u32 | body
    body  = partition u32 | timestamp i64 | key length i32 | value length i32 | key | value

>>> frame = Frame(partition=3, first=7, events=1, batch=b"batch")
>>> list(read_frames(MAGIC + encode(frame))) == [frame]
True
>>> list(read_frames(MAGIC + encode(frame)[:-1]))
[Damage(at=8, size=36, torn=True, head=None)]
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

from streamer.kafka.record_batches import one_record

MAGIC = b"STRJRNL2"
MAGIC_1 = b"STRJRNL1"
FRAME_START = b"\xf1\xa6\x1e\x0b"

_HEAD = struct.Struct(">4sIQIII")
_CRC = struct.Struct(">I")
HEAD_BYTES = _HEAD.size + _CRC.size

_HEAD_1 = struct.Struct(">II")
_BODY_1 = struct.Struct(">Iqii")
LONGEST_1 = 64 * 1024 * 1024
"""No frame of version 1 is longer: a greater length is damage."""


class Head(NamedTuple):
    """The facts in a frame about its body."""

    partition: int
    first: int
    events: int


class Frame(NamedTuple):
    """Some events of one partition. `first` is None in files of version 1, which do not number them."""

    partition: int
    first: int | None
    events: int
    batch: bytes


class Damage(NamedTuple):
    """Bytes that are no frame: `size` of them, from position `at` of the file on.

    `torn`: a frame begins there, and the file ends before the frame does; its writer was interrupted.
    `head`: of a frame whose body alone is damaged, else None.
    """

    at: int
    size: int
    torn: bool
    head: Head | None


Decode = Callable[[bytes, int], tuple[Frame | Damage, int]]
"""What begins at a position, and where to look for the next frame. The damage's size is not known yet."""


def encode(frame: Frame) -> bytes:
    """One numbered frame as bytes."""
    body_crc = zlib.crc32(frame.batch)
    head = _HEAD.pack(FRAME_START, frame.partition, frame.first, frame.events, len(frame.batch), body_crc)
    return b"".join((head, _CRC.pack(zlib.crc32(head)), frame.batch))


def read_frames(data: bytes) -> Iterator[Frame | Damage]:
    """Frames of a file in order, of either version, and the damage between them."""
    version_1 = data.startswith(MAGIC_1) or not (data.startswith(MAGIC) or FRAME_START in data)
    decode, begin = (_decode_1, _any_place) if version_1 else (_decode, _next_frame_start)
    at = len(MAGIC) if data.startswith((MAGIC, MAGIC_1)) else 0
    while at < len(data):
        found, end = decode(data, at)
        if isinstance(found, Damage):
            end = _next_frame(data, end, decode, begin)
            found = found._replace(size=end - at, torn=found.torn and end == len(data))
        yield found
        at = end


def _next_frame(data: bytes, at: int, decode: Decode, begin: Callable[[bytes, int], int]) -> int:
    """Where the next good frame begins; the end of the data if there is no further one."""
    at = begin(data, at)
    while at < len(data) and isinstance(decode(data, at)[0], Damage):
        at = begin(data, at + 1)
    return at


def _next_frame_start(data: bytes, at: int) -> int:
    found = data.find(FRAME_START, at)
    return len(data) if found < 0 else found


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
