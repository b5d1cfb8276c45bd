"""Record batches: what is refused, and how the others are kept."""

from __future__ import annotations

import os
import struct
import zlib

import cramjam
import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

from streamer.operate.local.journal import (
    CODECS,
    CORRUPT,
    INVALID,
    TOO_LARGE,
    UNSUPPORTED_FORMAT,
    BatchRefused,
    accepted,
    unpacked,
)
from streamer.storage.log import MAX_UNPACKED_BYTES


def batch(count: int = 1, *, codec: int = 0, transactional: int = 0, value: bytes = b"v") -> bytearray:
    """A record batch as a producer packs it."""
    builder = DefaultRecordBatchBuilder(2, codec, transactional, -1, -1, -1, 10**9)
    for number in range(count):
        builder.append(number, 1_700_000_000_000, b"k", value, [])
    return bytearray(builder.build())


def changed(records: bytearray, layout: str, at: int, number: int, *, checksum: bool = True) -> bytes:
    """The batch with one number changed."""
    struct.pack_into(layout, records, at, number)
    if checksum:
        struct.pack_into(">I", records, 17, calc_crc32c(bytes(records[21:])))
    return bytes(records)


def sealed(records: bytes) -> bytes:
    """The batch with the checksum that belongs to it."""
    return changed(bytearray(records), ">i", 8, len(records) - 12)


REFUSED = {
    "none": (None, INVALID),
    "an empty one": (b"", INVALID),
    "of an old format": (changed(batch(), ">b", 16, 1), UNSUPPORTED_FORMAT),
    "with a wrong checksum": (changed(batch(), ">h", 21, 4, checksum=False), CORRUPT),
    "of a transaction": (bytes(batch(transactional=1)), INVALID),
    "of control records": (changed(batch(), ">h", 21, 0x20), INVALID),
    "of another length": (bytes(batch()) + b"more", INVALID),
    "two in one": (bytes(batch()) * 2, INVALID),
    "with fewer records than it says": (changed(batch(), ">i", 57, 2), INVALID),
    "with a hole in its offsets": (changed(batch(), ">i", 23, 9), INVALID),
    "of an unknown codec": (changed(batch(), ">h", 21, 7), INVALID),
    "that does not unpack": (changed(batch(), ">h", 21, 2), INVALID),
    "that unpacks to garbage": (
        sealed(changed(bytearray(batch()[:61]), ">h", 21, 4) + bytes(cramjam.zstd.compress(b"garbage"))),
        INVALID,
    ),
    "a bomb": (
        sealed(
            changed(bytearray(batch()[:61]), ">h", 21, 1)
            + zlib.compress(bytes(2 * MAX_UNPACKED_BYTES), wbits=31)
        ),
        TOO_LARGE,
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_batch_that_no_consumer_could_read_is_refused_with_its_code(what: str) -> None:
    records, code = REFUSED[what]
    with pytest.raises(BatchRefused) as refused:
        accepted(records)
    assert refused.value.code == code


@pytest.mark.parametrize("codec", CODECS.values())
def test_what_compression_hardly_makes_smaller_is_kept_unpacked(codec: int) -> None:
    single = bytes(batch(codec=codec, value=os.urandom(500)))
    many = bytes(batch(100, codec=codec, value=b"the same words in each of them" * 20))
    assert DefaultRecordBatch(accepted(single).data).compression_type == 0
    assert DefaultRecordBatch(accepted(many).data).compression_type == codec
    for given in (single, many):
        kept = accepted(given).data
        assert DefaultRecordBatch(kept).validate_crc()
        assert accepted(kept).data == kept
        assert [(r.offset, r.value) for r in unpacked(kept)] == [(r.offset, r.value) for r in unpacked(given)]
