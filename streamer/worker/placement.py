"""Where a run belongs, and records that came to the wrong place.

Producers' default partitioners differ, so equal keys do not mean equal partitions. A record that does not
lie in partition murmur2(run_id) mod N is sent there once, marked, and awaited. A marked record that is
still misplaced is rejected: otherwise workers that disagree would send it around for ever.
"""

from __future__ import annotations

from schemas.decode import Reason
from streamer.pipeline import LogRecord, Rejected, reject
from streamer.sinks.partitioner import partition_of
from streamer.worker.output import Out

FORWARDED = "streamer-forwarded"
"""Header of a record that was sent to its partition by a worker."""


def forward(misplaced: list[tuple[LogRecord, str]], partitions: int) -> tuple[list[Out], list[Rejected]]:
    """Misplaced records with their run ids -> what to send on, what to reject."""
    forwards, rejections = [], []
    for record, run_id in misplaced:
        target = partition_of(run_id, partitions)
        if any(name == FORWARDED for name, _ in record.headers):
            rejections.append(reject(record, _still_misplaced(record, target, partitions), run_id))
        else:
            forwards.append(_forwarded(record, run_id, target))
    return forwards, rejections


def _forwarded(record: LogRecord, run_id: str, target: int) -> Out:
    origin = f"{record.partition}:{record.offset}".encode()
    return Out(
        record.topic,
        target,
        run_id.encode("utf-8"),
        record.value,
        record.timestamp if record.timestamp >= 0 else None,
        [*record.headers, (FORWARDED, origin)],
    )


def _still_misplaced(record: LogRecord, target: int, partitions: int) -> Reason:
    return Reason(
        "misplaced",
        f"The record was forwarded once and lies in partition {record.partition} of {partitions}, not in "
        f"{target}, where its run belongs. Workers disagree about the partition count: set "
        "STREAMER_PARTITIONS alike everywhere, then publish the event again.",
    )
