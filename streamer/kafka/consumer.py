"""The Kafka consumer that everything here reads with: what it unpacks and hands on has a bound.

Producers pack records, and 1,000 MiB of zeros pack into less than a broker's limit. So this module changes
three things in aiokafka, for the whole process:

- A record batch is unpacked up to :data:`MAX_UNPACKED_BYTES`. In the event topic, a batch that is larger,
  or that cannot be unpacked, becomes one record whose value is :class:`~streamer.schemas.decode.Unread`. The
  pipeline rejects it, and the message names the partition and the offsets. In other topics it is left out,
  and the log says so. The next batch is read as ever.
- One call hands on at most :data:`MAX_HANDED_BYTES` of a partition; the rest waits, packed.

Import `AIOKafkaConsumer` from here, never from aiokafka.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.consumer import fetcher
from aiokafka.errors import CorruptRecordException
from aiokafka.record import default_records, legacy_records
from aiokafka.structs import ConsumerRecord

from streamer.kafka.unpack import UNPACKERS, UnreadableBatch
from streamer.schemas.decode import Reason, Unread

__all__ = ["MAX_HANDED_BYTES", "AIOKafkaConsumer"]

MAX_HANDED_BYTES = 16 * 1024 * 1024
"""Applies to the records of one partition that one call hands on, except the last of them."""

_EVENTS = "trial-events"
_logger = logging.getLogger(__name__)


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
            except UnreadableBatch as error:
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
    for batches in (default_records.DefaultRecordBatch, legacy_records.LegacyRecordBatch):
        module = importlib.import_module(batches.__module__)
        for name, decode in UNPACKERS.items():
            if hasattr(module, f"{name}_decode"):
                setattr(module, f"{name}_decode", decode)
    fetcher.PartitionRecords = _PartitionRecords
    fetcher.FetchResult = _FetchResult


_install()
