"""Record batches, read by the consumer that everything here reads with."""

from __future__ import annotations

from typing import Any

from aiokafka.consumer import fetcher
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import TopicPartition

import streamer.storage.log  # noqa: F401  (gives the fetcher our bound)

EVENTS = TopicPartition("team.trial-events", 3)
VALUES = [b"first", b"", b"third" * 1000]


def at_offset(batch: bytes, offset: int) -> bytes:
    return offset.to_bytes(8, "big") + batch[8:]


def placed(*batches: bytes, tp: TopicPartition = EVENTS, start: int = 0) -> Any:
    """What a consumer has fetched of these batches, the first of which is at offset 0."""
    fetched, offset = b"", 0
    for batch in batches:
        fetched += at_offset(batch, offset)
        offset += int.from_bytes(batch[23:27], "big") + 1
    return fetcher.PartitionRecords(tp, MemoryRecords(fetched), [], start, None, None, True, 0)


def read(*batches: bytes, tp: TopicPartition = EVENTS, start: int = 0) -> list[Any]:
    return list(placed(*batches, tp=tp, start=start))
