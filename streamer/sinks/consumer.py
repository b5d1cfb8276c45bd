"""The Kafka consumer that everything here reads with: what it unpacks and hands on has a bound.

Producers pack records, and 1,000 MiB of zeros pack into less than a broker's limit. So this module changes
three things in aiokafka, for the whole process:

- A record batch is unpacked up to :data:`MAX_UNPACKED_BYTES`. In the event topic, a batch that is larger,
  or that cannot be unpacked, becomes one record whose value is :class:`~schemas.decode.Unread`. The
  pipeline rejects it, and the message names the partition and the offsets. In other topics it is left out,
  and the log says so. The next batch is read as ever.
- One call hands on at most :data:`MAX_HANDED_BYTES` of a partition; the rest waits, packed.

Import `AIOKafkaConsumer` from here, never from aiokafka.
"""

from __future__ import annotations

import gzip
import importlib
import io
import logging
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import cramjam
from aiokafka import AIOKafkaConsumer
from aiokafka.codec import snappy_decode
from aiokafka.consumer import fetcher
from aiokafka.errors import CorruptRecordException
from aiokafka.record import default_records, legacy_records
from aiokafka.structs import ConsumerRecord

from schemas.decode import Reason, Unread

__all__ = ["MAX_HANDED_BYTES", "MAX_UNPACKED_BYTES", "AIOKafkaConsumer"]

MAX_UNPACKED_BYTES = 32 * 1024 * 1024
"""Of one record batch. Producers make batches of 16 KB to 1 MB; an event has 1 MiB at most."""

MAX_HANDED_BYTES = 16 * 1024 * 1024
"""Of the records of one partition that one call hands on, but for the last of them."""

_EVENTS = "trial-events"
_FIRST_BUFFER_RATIO = 16
_FIRST_BUFFER_BYTES = 64 * 1024
_logger = logging.getLogger(__name__)


class _UnreadableBatch(Exception):
    """A record batch that cannot be unpacked; the text says why."""

    @classmethod
    def too_large(cls) -> _UnreadableBatch:
        return cls(f"unpacks to more than {MAX_UNPACKED_BYTES:,} bytes, which are allowed")


def _unpacked_gzip(payload: Any) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(payload)) as packed:
            found = packed.read(MAX_UNPACKED_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise _UnreadableBatch(f"is damaged gzip: {error}") from error
    if len(found) > MAX_UNPACKED_BYTES:
        raise _UnreadableBatch.too_large()
    return found


def _unpacked_snappy(payload: Any) -> bytes:
    """Each block of snappy says how large it is, and is no larger."""
    try:
        sizes = _snappy_sizes(memoryview(payload))
        if sum(sizes) > MAX_UNPACKED_BYTES:
            raise _UnreadableBatch.too_large()
        return bytes(snappy_decode(payload))
    except (cramjam.DecompressionError, ValueError, IndexError) as error:
        raise _UnreadableBatch(f"is damaged snappy: {error}") from error


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
                    raise _UnreadableBatch(f"is damaged: {error}") from error
                if size == MAX_UNPACKED_BYTES:
                    raise _UnreadableBatch.too_large() from error
            size = min(8 * size, MAX_UNPACKED_BYTES)

    return unpacked


class _Batches:
    """The batches of one fetch; remembers which one is being read."""

    def __init__(self, records: Any) -> None:
        self._records = records
        self.has_next = records.has_next
        self.current: Any = None

    def next_batch(self) -> Any:
        self.current = self._records.next_batch()
        return self.current


class _PartitionRecords(fetcher.PartitionRecords):  # type: ignore[misc]
    """aiokafka's reading of a fetched partition, which goes on behind a batch that it cannot unpack."""

    next_fetch_offset: int
    _records: Any
    _tp: Any

    def _unpack_records(self) -> Iterator[Any]:
        batches = self._records = _Batches(self._records)
        while batches.has_next():
            try:
                yield from super()._unpack_records()
            except _UnreadableBatch as error:
                yield from self._instead_of(batches.current, str(error))
            except CorruptRecordException as error:
                if "Invalid CRC" in str(error):  # damaged on its way: fetched again
                    raise
                yield from self._instead_of(batches.current, f"does not hold what it claims: {error}")

    def _instead_of(self, batch: Any, why: str) -> Iterator[Any]:
        """One record at the end of an unreadable batch, in the event topic."""
        first, after = batch.base_offset, batch.next_offset
        if after <= self.next_fetch_offset:
            return
        self.next_fetch_offset = after
        message = (
            f"The record batch at offsets {first} to {after - 1} of partition {self._tp.partition} {why}. "
            "None of its records from there on was read. Send the events again, in smaller batches."
        )
        if not self._tp.topic.endswith(_EVENTS):
            _logger.error("Topic %s: %s", self._tp.topic, message)
            return
        value = Unread(Reason("unreadable_batch", message))
        yield ConsumerRecord(
            self._tp.topic,
            self._tp.partition,
            after - 1,
            getattr(batch, "max_timestamp", None) or -1,
            0,
            None,
            value,
            None,
            -1,
            0,
            (),
        )


class _FetchResult(fetcher.FetchResult):  # type: ignore[misc]
    """aiokafka's records of one partition, of which one call hands on a bounded number of bytes."""

    _partition_records: Any

    def getall(self, max_records: int | None = None) -> list[Any]:
        if not self.check_assignment(self._topic_partition) or not self.has_more():
            return []
        found, size = [], 0
        for record in self._partition_records:
            found.append(record)
            size += len(record.value or b"")
            if size >= MAX_HANDED_BYTES or (max_records is not None and len(found) >= max_records):
                self._update_position()
                return found
        self._update_position()
        self._partition_records = None
        return found


def _install() -> None:
    """Put the above in the places where aiokafka looks its own up."""
    lz4, zstd = _unpacked_by(cramjam.lz4), _unpacked_by(cramjam.zstd)
    codecs = {"gzip": _unpacked_gzip, "snappy": _unpacked_snappy, "lz4": lz4, "zstd": zstd}
    for batches in (default_records.DefaultRecordBatch, legacy_records.LegacyRecordBatch):
        module = importlib.import_module(batches.__module__)
        for name, decode in codecs.items():
            if hasattr(module, f"{name}_decode"):
                setattr(module, f"{name}_decode", decode)
    fetcher.PartitionRecords = _PartitionRecords
    fetcher.FetchResult = _FetchResult


_install()
