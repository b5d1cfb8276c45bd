"""Record batches packed piece by piece, so that a test can make one larger than its own memory."""

from __future__ import annotations

import asyncio
import struct
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import cramjam
from aiokafka import AIOKafkaProducer
from aiokafka.record.util import calc_crc32c, encode_varint

MIB = 1024**2
FALSE_OFFSETS = [(1000, 1001, 2), (5, 7, 2), (0, 0, 2), (0, 2**31, 2), (2, 1, 0), (0, 1, 3), (-1, 1, 2)]
"""Offsets of three records, from that of their batch on, that no batch can have."""

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
"""By their numbers in a record batch's attributes."""

_HEAD = struct.Struct(">qiibIhiqqqhii")
_CRC_FROM = 21


def record(offset: int, value_bytes: int, value: bytes | None = None) -> Iterator[bytes]:
    """One record in pieces: of that value, or of so many zeros."""
    size = value_bytes if value is None else len(value)
    head = bytearray(b"\0")  # attributes
    for number in (0, offset, -1, size):  # timestamp and offset, from the batch's; no key; the value's length
        encode_varint(number, head.append)
    length = bytearray()
    encode_varint(len(head) + size + 1, length.append)
    yield bytes(length + head)
    if value is not None:
        yield value
    else:
        for start in range(0, size, MIB):
            yield bytes(min(MIB, size - start))
    yield b"\0"  # no headers


def packed(codec: str, pieces: Iterable[bytes]) -> bytes:
    """What the pieces pack into, all together."""
    if codec == "none":
        return b"".join(pieces)
    if codec == "snappy":
        return bytes(cramjam.snappy.compress_raw(b"".join(pieces)))
    if codec == "gzip":
        packer = zlib.compressobj(6, wbits=31)
        return b"".join(map(packer.compress, pieces)) + packer.flush()
    if codec == "lz4":
        streaming = cramjam.lz4.Compressor(content_checksum=False, block_linked=False)  # as Kafka reads it
    else:
        streaming = cramjam.zstd.Compressor()
    for piece in pieces:
        streaming.compress(piece)
    return bytes(streaming.finish())


def record_batch(codec: str, body: bytes, count: int, timestamp_ms: int | None = None) -> bytes:
    """A record batch (version 2) with that body, which holds so many records, or claims to."""
    at = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
    length = _HEAD.size - 12 + len(body)

    def head(crc: int) -> bytes:
        return _HEAD.pack(0, length, -1, 2, crc, CODECS[codec], count - 1, at, at, -1, -1, -1, count)

    return head(calc_crc32c(head(0)[_CRC_FROM:] + body)) + body


def a_bomb(codec: str, value_bytes: int) -> bytes:
    """A batch of one record whose value is so many zeros."""
    return record_batch(codec, packed(codec, record(0, value_bytes)), 1)


def a_batch(codec: str, values: list[bytes], timestamp_ms: int | None = None) -> bytes:
    """A batch of these values."""
    pieces = (piece for offset, value in enumerate(values) for piece in record(offset, 0, value))
    return record_batch(codec, packed(codec, pieces), len(values), timestamp_ms)


def a_batch_at(codec: str, offsets: Sequence[int], value: bytes = b"v") -> bytes:
    """A batch that claims as many records as there are offsets, and gives them these, from its own on."""
    pieces = (piece for offset in offsets for piece in record(offset, 0, value))
    return record_batch(codec, packed(codec, pieces), len(offsets))


def send_batches(bootstrap: str, topic: str, partition: int, batches: list[tuple[bytes, int]]) -> list[int]:
    """Publish batches as they are; each with the number of its records. The offset of each."""
    return asyncio.run(_send(bootstrap, topic, partition, batches))


async def _send(bootstrap: str, topic: str, partition: int, batches: list[tuple[bytes, int]]) -> list[int]:
    offsets = []
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, max_request_size=4 * MIB) as producer:
        for made, count in batches:
            builder: Any = producer.create_batch()
            builder.append(key=None, value=b"", timestamp=None)
            builder.close()
            builder._buffer, builder._relative_offset = bytearray(made), count
            offsets.append((await (await producer.send_batch(builder, topic, partition=partition))).offset)
    return offsets
