"""Unpacking Kafka's record batches with a bound on what comes out.

1,000 MiB of zeros pack into less than a broker's limit. No size that a batch claims is trusted.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import cramjam
from aiokafka.codec import snappy_decode

MAX_UNPACKED_BYTES = 32 * 1024 * 1024
"""Limit of one record batch. Producers make batches of 16 KB to 1 MB; an event has 1 MiB at most."""

_FIRST_BUFFER_RATIO = 16
_FIRST_BUFFER_BYTES = 64 * 1024


class UnreadableBatch(Exception):
    """A record batch that cannot be unpacked; the text says why."""


class BatchTooLarge(UnreadableBatch):
    """A record batch that unpacks to more than is allowed."""

    def __init__(self) -> None:
        super().__init__(f"unpacks to more than {MAX_UNPACKED_BYTES:,} bytes, which are allowed")


def _unpacked_gzip(payload: Any) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(payload)) as packed:
            found = packed.read(MAX_UNPACKED_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise UnreadableBatch(f"is damaged gzip: {error}") from error
    if len(found) > MAX_UNPACKED_BYTES:
        raise BatchTooLarge()
    return found


def _unpacked_snappy(payload: Any) -> bytes:
    """Each block of snappy says how large it is, and is no larger."""
    try:
        sizes = _snappy_sizes(memoryview(payload))
        if sum(sizes) > MAX_UNPACKED_BYTES:
            raise BatchTooLarge()
        return bytes(snappy_decode(payload))
    except (cramjam.DecompressionError, ValueError, IndexError) as error:
        raise UnreadableBatch(f"is damaged snappy: {error}") from error


def _snappy_sizes(payload: memoryview) -> Iterator[int]:
    """Unpacked sizes of the blocks: one, or several where the Java library framed them."""
    if payload[:8].tobytes() != b"\x82SNAPPY\x00":
        yield cramjam.snappy.decompress_raw_len(payload)
        return
    at = 16
    while at < len(payload):
        size = int.from_bytes(payload[at : at + 4], "big")
        yield cramjam.snappy.decompress_raw_len(payload[at + 4 : at + 4 + size])
        at += 4 + size


def _unpacked_by(codec: Any) -> Callable[[Any], bytes]:
    """For lz4 and zstd, which say nothing of sizes that one could trust: into buffers that grow."""

    def unpacked(payload: Any) -> bytes:
        size = min(max(_FIRST_BUFFER_RATIO * len(payload), _FIRST_BUFFER_BYTES), MAX_UNPACKED_BYTES)
        while True:
            buffer = bytearray(size)
            try:
                return bytes(memoryview(buffer)[: codec.decompress_into(payload, buffer)])
            except cramjam.DecompressionError as error:
                if "whole buffer" not in str(error):
                    raise UnreadableBatch(f"is damaged: {error}") from error
                if size == MAX_UNPACKED_BYTES:
                    raise BatchTooLarge() from error
            size = min(8 * size, MAX_UNPACKED_BYTES)

    return unpacked


UNPACKERS: dict[str, Callable[[Any], bytes]] = {
    "gzip": _unpacked_gzip,
    "snappy": _unpacked_snappy,
    "lz4": _unpacked_by(cramjam.lz4),
    "zstd": _unpacked_by(cramjam.zstd),
}
"""Kafka's codecs; each takes packed bytes and raises UnreadableBatch for what is damaged or too large."""
