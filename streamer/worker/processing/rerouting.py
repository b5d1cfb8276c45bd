"""Where a run belongs, and records that came to the wrong place.

Producers' default partitioners differ, so equal keys do not mean equal partitions. A record that does not
lie in partition murmur2(run_id) mod N is sent there. Only where it lies decides that, no header: clients
write headers too. The copy lies right, so it is never sent on, as long as workers agree about N. They do:
each checks N against the topics whenever partitions are assigned, and ends if it differs.
"""

from __future__ import annotations

from streamer.kafka.partitioner import partition_of
from streamer.records import LogRecord
from streamer.worker.faust.producer import ProducerRecord

FORWARDED = "streamer-forwarded"
"""Header of a copy, for people who look at the log: partition and offset of the original."""


def reroute(misplaced: list[tuple[LogRecord, str]], partitions: int) -> list[ProducerRecord]:
    """Misplaced records with their run ids -> what to send on."""
    return [_copy(record, run_id, partition_of(run_id, partitions)) for record, run_id in misplaced]


def _copy(record: LogRecord, run_id: str, target: int) -> ProducerRecord:
    origin = f"{record.partition}:{record.offset}".encode()
    return ProducerRecord(
        record.topic,
        target,
        run_id.encode("utf-8"),
        record.value,
        record.timestamp if record.timestamp >= 0 else None,
        [*(header for header in record.headers if header[0] != FORWARDED), (FORWARDED, origin)],
    )
