"""One journalled record as bytes: length, CRC-32, then partition, timestamp, key and value.

    frame = length u32 | crc u32 | body          length: bytes of the body; crc: of the length and the body
    body  = partition u32 | timestamp i64 | key length i32 | value length i32 | key | value

All big-endian; a length of -1 means null. A file of frames starts with MAGIC.

>>> entry = Entry(partition=3, timestamp_ms=1, key=b"run-1", value=None)
>>> list(read_frames(MAGIC + encode(entry))) == [entry]
True
>>> list(read_frames(MAGIC + encode(entry)[:-1]))
[Damage(at=8, size=32)]
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

MAGIC = b"STRJRNL1"

_HEADER = struct.Struct(">II")
_BODY = struct.Struct(">Iqii")
_LENGTH = struct.Struct(">I")


class Entry(NamedTuple):
    """One record of the event topic. `timestamp_ms` is Unix milliseconds, -1 if it had none."""

    partition: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


class Damage(NamedTuple):
    """Bytes that are no frame: from position `at` of the file on, `size` bytes."""

    at: int
    size: int


def encode(entry: Entry) -> bytes:
    """One entry as a frame."""
    key, value = entry.key or b"", entry.value or b""
    key_length = -1 if entry.key is None else len(key)
    value_length = -1 if entry.value is None else len(value)
    head = _BODY.pack(entry.partition, entry.timestamp_ms, key_length, value_length)
    body = b"".join((head, key, value))
    return _HEADER.pack(len(body), _crc(body)) + body


def read_frames(data: bytes) -> Iterator[Entry | Damage]:
    """Entries of a file in order. A damaged frame is stepped over if a good one follows it.

    What follows a damaged frame is only found through its length: if no good frame begins there, the rest
    of the file is one Damage. A file without MAGIC is all damage; an empty one holds nothing.
    """
    if not data.startswith(MAGIC):
        if data:
            yield Damage(0, len(data))
        return
    at = len(MAGIC)
    while at < len(data):
        entry, end = _decode(data, at)
        if entry is not None:
            yield entry
        elif end is not None and _decode(data, end)[0] is not None:
            yield Damage(at, end - at)
        else:
            yield Damage(at, len(data) - at)
            return
        at = end if end is not None else len(data)


def _crc(body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(_LENGTH.pack(len(body))))


def _decode(data: bytes, at: int) -> tuple[Entry | None, int | None]:
    """The frame at a position (None: no good frame) and where it says it ends (None: beyond the data)."""
    start = at + _HEADER.size
    if start > len(data):
        return None, None
    length, crc = _HEADER.unpack_from(data, at)
    end = start + length
    if end > len(data) or length < _BODY.size:
        return None, None
    body = data[start:end]
    if _crc(body) != crc:
        return None, end
    partition, timestamp, key_length, value_length = _BODY.unpack_from(body)
    split = _BODY.size + max(key_length, 0)
    key = body[_BODY.size : split] if key_length >= 0 else None
    value = body[split:] if value_length >= 0 else None
    return Entry(partition, timestamp, key, value), end
