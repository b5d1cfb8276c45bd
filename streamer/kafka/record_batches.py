"""Kafka's record batches: checked before they are accepted, unpacked within limits, packed into larger ones.

The embedded broker looks into no batch. So what Apache Kafka would refuse is refused here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

from streamer.kafka.unpack import UNPACKERS, BatchTooLarge, UnreadableBatch

MAX_BATCH_BYTES = 16 * 1024 * 1024
PACKED_BYTES = 512 * 1024
"""Size of the batches that small ones are packed into: the embedded broker reads many small ones slowly."""

WORTH_PACKING = 2
"""A batch that compression makes smaller by less than this factor is kept unpacked."""

CORRUPT, TOO_LARGE, UNSUPPORTED_FORMAT, INVALID = 2, 10, 43, 87
"""Error codes of Kafka's protocol."""

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
_CODEC_BITS, _TRANSACTION_OR_CONTROL = 0x07, 0x30
_NAMES = {number: name for name, number in CODECS.items()}

_HEADER = struct.Struct(">qiibIhiqqqhii")
_LENGTH_AT, _BEFORE_LENGTH = 8, 12
_CRC_AT, _CRC_FROM = 17, 21
_ATTRIBUTES_AT, _PRODUCER_AT = 21, 43
_NO_PRODUCER = struct.pack(">qhi", -1, -1, -1)


class BatchRefused(Exception):
    """A batch that is not accepted, with the code of Kafka's protocol that tells its producer so."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class RecordBatch(NamedTuple):
    """A record batch and how many events it has."""

    events: int
    data: bytes


def accepted(records: bytes | None) -> RecordBatch:
    """The one batch of a produce request, as it is kept: without its producer's numbers.

    A repeated send is an event twice, which counts once (R17). The numbers would make the broker refuse the
    batch when it is loaded at the next start. What compression hardly makes smaller, as single events, is
    kept unpacked: it loads ten times as fast.

    Raises:
        BatchRefused: no batch, a damaged one, one of a transaction, or too large.
    """
    if records is None or len(records) < _HEADER.size:
        raise BatchRefused(INVALID)
    _, length, _, magic, crc, attributes, last_delta, *_, events = _HEADER.unpack_from(records)
    if magic != 2:
        raise BatchRefused(UNSUPPORTED_FORMAT)
    if len(records) > MAX_BATCH_BYTES:
        raise BatchRefused(TOO_LARGE)
    if length + _BEFORE_LENGTH != len(records) or attributes & _TRANSACTION_OR_CONTROL:
        raise BatchRefused(INVALID)
    if crc != calc_crc32c(records[_CRC_FROM:]):
        raise BatchRefused(CORRUPT)
    try:
        plain = _plain(records)
        found = sum(1 for _ in _records(plain))
    except CorruptRecordException:
        raise BatchRefused(INVALID) from None
    if not found == events == last_delta + 1:
        raise BatchRefused(INVALID)
    return RecordBatch(events, _sealed(plain if len(plain) < WORTH_PACKING * len(records) else records))


def unpacked(batch: bytes) -> Iterator[Any]:
    """Its records, as aiokafka has them.

    Raises:
        BatchRefused: it is larger than `MAX_UNPACKED_BYTES` when unpacked.
        CorruptRecordException: it cannot be unpacked.
    """
    return _records(_plain(batch))


def one_record(timestamp_ms: int, key: bytes | None, value: bytes | None) -> bytes:
    """A batch of one record."""
    builder = _builder(0)
    builder.append(0, timestamp_ms, key, value, [])
    return bytes(builder.build())


class Packer:
    """Packs the records of one partition into batches of about PACKED_BYTES, in order."""

    def __init__(self, compression: str) -> None:
        self._codec = CODECS[compression]
        self._open: Any = None
        self._events = 0

    def add(self, batch: RecordBatch) -> Iterator[RecordBatch]:
        """Take a batch; what is full now. A large one stays as it is."""
        if len(batch.data) >= PACKED_BYTES // 4:
            yield from self.rest()
            yield batch
            return
        for record in unpacked(batch.data):
            if self._open is not None and not self._append(record):
                yield from self.rest()
            if self._open is None:
                self._open = _builder(self._codec)
                self._append(record)  # the first one always fits

    def rest(self) -> Iterator[RecordBatch]:
        """What is not full yet."""
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
    except UnicodeDecodeError as error:
        raise CorruptRecordException(f"name of a header: {error}") from None


def _plain(batch: bytes) -> bytes:
    """The batch without compression; its length and checksum are still the old ones."""
    (attributes,) = struct.unpack_from(">h", batch, _ATTRIBUTES_AT)
    number = attributes & _CODEC_BITS
    if not number:
        return batch
    header = bytearray(batch[: _HEADER.size])
    struct.pack_into(">h", header, _ATTRIBUTES_AT, attributes & ~_CODEC_BITS)
    return bytes(header) + _unpack(number, batch[_HEADER.size :])


def _sealed(batch: bytes) -> bytes:
    """The batch without its producer's numbers, with its own length and checksum."""
    changed = bytearray(batch)
    struct.pack_into(">i", changed, _LENGTH_AT, len(batch) - _BEFORE_LENGTH)
    changed[_PRODUCER_AT : _PRODUCER_AT + len(_NO_PRODUCER)] = _NO_PRODUCER
    struct.pack_into(">I", changed, _CRC_AT, calc_crc32c(bytes(changed[_CRC_FROM:])))
    return bytes(changed)


def _unpack(number: int, packed: bytes) -> bytes:
    try:
        return UNPACKERS[_NAMES[number]](packed)
    except BatchTooLarge:
        raise BatchRefused(TOO_LARGE) from None
    except (KeyError, UnreadableBatch) as error:
        raise CorruptRecordException(f"codec {number}: {error}") from None
