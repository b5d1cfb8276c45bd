"""The producer of a worker, which awaits every record, and the worker's sizes and clock.

Faust only logs a failed send, and its flush does not wait for everything. So a worker writes through an
outbox, in record batches (3.8 microseconds a record, against 92 with Faust's `send_soon`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from streamer.settings import Settings
from streamer.storage.outbox import MAX_RECORD_BYTES, NotStored, Outbox, ProducerRecord

# -----------------------------------------------------------------------------
# Sizes and times of the worker, each with its unit and reason.


MAX_POLL_RECORDS = 4_000
"""Most records in one batch: about 2 MB, and a few tens of milliseconds of folding."""

PAGES_PER_TURN = 50
"""State pages loaded per turn of the event loop: about 30 ms."""

MAX_UNDONE_RECORDS = 8_000
"""Records in processing at which the transport stops fetching, to bound the memory."""

USUAL_RECORD_BYTES = 4 * 1024
"""A larger record counts as several, so records in processing take at most 32 MB and one batch."""

FETCH_TURN_SECONDS = 0.2
"""How long one fetch waits for records; partitions resumed meanwhile wait, too."""

GATHER_MS, GATHER_BYTES = 100, 64 * 1024
"""Time or bytes for which a fetch waits while records come together, or within half of that time. So more
records share its cost. A record on its own does not wait.
"""

EMBEDDED_FETCH_WAIT_MS = 10
"""The embedded broker never wakes a fetch, so this is the latency (p50 3 ms at 10, 130 ms at 500)."""

BROKER_PATIENCE_SECONDS = 300.0
"""How long a request to the broker may take; an abandoned request may still take effect later."""

EMBEDDED_SESSION_TIMEOUT_SECONDS = 3.0
"""The embedded broker waits half the session timeout at each join, rounded up to whole seconds."""


# -----------------------------------------------------------------------------
# Everything that a worker writes to Kafka passes through here, and is awaited.


class RecordTooLarge(ValueError):
    """A record too large for a worker or for the broker; it was not written."""

    def __init__(self, record: ProducerRecord, limit: str) -> None:
        super().__init__(f"a record for {record.topic} has {record.size:,} bytes, {limit}")


class RecordsRefused(Exception):
    """Records that the broker refuses for their size; all others of the same write are written."""

    def __init__(self, records: list[ProducerRecord]) -> None:
        self.records = records
        super().__init__(f"the broker refuses {len(records)} records as too large")


def fitting(records: list[ProducerRecord]) -> list[ProducerRecord]:
    for record in records:
        if record.size > MAX_RECORD_BYTES:
            raise RecordTooLarge(record, f"at most {MAX_RECORD_BYTES:,} are written")
    return records


class TopicRecreated(RuntimeError):
    def __init__(self, topic: str) -> None:
        super().__init__(f"topic {topic} was deleted and recreated. The worker ends; the next one fills it")


class Producer:
    """The outbox of the worker, which tracks its own offsets and the ranges that others have written.

    It is idempotent if the broker can be; the embedded one cannot. A request that timed out and took effect
    later must not put an old page over a newer one. A wrong clock does not end the worker.

    `written` is called with acknowledged records: topic, partition, offset of the first, records.
    """

    def __init__(
        self,
        settings: Settings,
        check_alive: Callable[[], None],
        written: Callable[[str, int, int, Sequence[ProducerRecord]], None],
    ) -> None:
        self._written = written
        self._idempotent = not settings.embedded
        self._written_to: dict[tuple[str, int], int] = {}
        self._ends: dict[tuple[str, int], int] = {}
        self._foreign_ranges: dict[tuple[str, int], list[tuple[int, int]]] = {}
        self.outbox = Outbox(
            settings,
            patience_seconds=BROKER_PATIENCE_SECONDS,
            idempotent=self._idempotent,
            keeps_time=False,
            check=check_alive,
            stored=self._note,
        )
        self.start, self.stop = self.outbox.start, self.outbox.stop

    async def write(self, records: Iterable[ProducerRecord]) -> None:
        """Write, and wait until the broker has acknowledged every record.

        Raises RecordsRefused if some are too large for the broker; all others are written. After a KafkaError
        some may be written.
        """
        records = list(records)
        refused = []
        for record, result in zip(records, await self.outbox.write(records), strict=True):
            if isinstance(result, NotStored):
                if not result.too_large:
                    raise result.error
                refused.append(record)
        if refused:
            raise RecordsRefused(refused)

    def written_to(self, topic: str, partition: int) -> int:
        return self._written_to.get((topic, partition), 0)

    def answered_to(self, topic: str, partition: int) -> int:
        """`written_to`, or a lower offset that others wrote and that is not yet checked."""
        foreign = self._foreign_ranges.get((topic, partition), ())
        return min([self.written_to(topic, partition), *(start for start, _ in foreign)])

    def note_ends(self, ends: Mapping[tuple[str, int], int]) -> None:
        self._ends |= ends
        for place in ends:
            self._foreign_ranges.pop(place, None)

    def take_foreign_ranges(self, topic: str, partition: int, end: int) -> list[tuple[int, int]]:
        """Take the ranges of offsets, up to `end`, that others wrote among ours."""
        place = (topic, partition)
        known = self._ends.setdefault(place, end)
        self._ends[place] = max(known, end)
        tail = [(known, end)] if end > known else []
        return self._foreign_ranges.pop(place, []) + tail

    def note_foreign_range(self, topic: str, partition: int, start: int, stop: int) -> None:
        self._foreign_ranges.setdefault((topic, partition), []).append((start, stop))

    def _note(self, topic: str, partition: int, first: int, records: Sequence[ProducerRecord]) -> None:
        self._written(topic, partition, first, records)
        place, end = (topic, partition), first + len(records)
        if self._idempotent and 0 <= first < self.written_to(topic, partition):
            raise TopicRecreated(topic)
        self._written_to[place] = max(self.written_to(topic, partition), end)
        if place in self._ends:
            if first > self._ends[place]:
                self.note_foreign_range(topic, partition, self._ends[place], first)
            self._ends[place] = max(self._ends[place], end)


# -----------------------------------------------------------------------------
# The clock of the worker's intervals, which runs on while the machine is suspended.


def clock() -> float:
    """Seconds that pass even while the process or machine sleeps."""
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boottime is None else time.clock_gettime(boottime)
