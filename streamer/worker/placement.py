"""Where a run belongs, and records that came to the wrong place.

Producers' default partitioners differ, so equal keys do not mean equal partitions. A record that does not
lie in partition murmur2(run_id) mod N is sent there once, marked, and awaited. A marked record that is
still misplaced is rejected: otherwise workers that disagree would send it around for ever.
"""

from __future__ import annotations

from functools import lru_cache

from aiokafka.partitioner import murmur2

from schemas.decode import Reason
from streamer.pipeline import Record, Rejected, reject
from streamer.worker.output import Out

FORWARDED = "streamer-forwarded"
"""Header of a record that was sent to its partition by a worker."""


@lru_cache(maxsize=65_536)
def partition_of(run_id: str, partitions: int) -> int:
    """Partition of a run, as Java's default partitioner would choose for the key `run_id`.

    >>> partition_of("run-1", 8)
    5
    """
    return int(murmur2(run_id.encode("utf-8")) & 0x7FFFFFFF) % partitions


def forward(misplaced: list[tuple[Record, str]], partitions: int) -> tuple[list[Out], list[Rejected]]:
    """Misplaced records with their run ids -> what to send on, what to reject."""
    forwards, rejections = [], []
    for record, run_id in misplaced:
        target = partition_of(run_id, partitions)
        if any(name == FORWARDED for name, _ in record.headers):
            rejections.append(reject(record, _still_misplaced(record, target, partitions), run_id))
        else:
            forwards.append(_forwarded(record, run_id, target))
    return forwards, rejections


def _forwarded(record: Record, run_id: str, target: int) -> Out:
    origin = f"{record.partition}:{record.offset}".encode()
    return Out(
        record.topic,
        target,
        run_id.encode("utf-8"),
        record.value,
        record.timestamp_ms,
        [*record.headers, (FORWARDED, origin)],
    )


def _still_misplaced(record: Record, target: int, partitions: int) -> Reason:
    return Reason(
        "misplaced",
        f"The record was forwarded once and lies in partition {record.partition} of {partitions}, not in "
        f"{target}, where its run belongs. Workers disagree about the partition count: set "
        "STREAMER_PARTITIONS alike everywhere, then publish the event again.",
    )
