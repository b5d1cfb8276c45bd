"""Batches of events, and which of them are done: what may be committed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from streamer.worker.constants import USUAL_RECORD_BYTES

RECORDS_PER_TURN = 500
"""Records folded before the event loop gets its turn: about 10 ms."""


@dataclass(eq=False, slots=True)
class FetchedBatch:
    """Records of one partition, as one fetch brought them; never empty.

    Attributes:
        records: aiokafka's ConsumerRecords, offsets rising (with gaps, where the log has them).
        folded: true once the records are folded and their pages saved (`release`).
        done: true once everything that follows from the records is safe (`finish`).
    """

    topic: str
    partition: int
    records: list[Any]
    folded: bool = False
    done: bool = False

    @property
    def last_offset(self) -> int:
        """Offset of the last record: the offset of the batch."""
        return int(self.records[-1].offset)

    def release(self) -> None:
        """The batch is folded and saved: its records are not needed any more."""
        self.folded = True
        self.records = []

    def finish(self) -> None:
        """The batch is done (the commit may be seconds away)."""
        self.release()
        self.done = True


@dataclass(eq=False, slots=True)
class _Handed:
    batch: FetchedBatch
    last_offset: int
    count: int


class HandedBatches:
    """Batches handed on, per partition in log order, until they are done and committed.

    >>> from types import SimpleNamespace as Record
    >>> handed = HandedBatches()
    >>> first, second = (FetchedBatch("t", 0, [Record(offset=n, value=b"")]) for n in (0, 7))
    >>> handed.note("t0", first), handed.note("t0", second), handed.undone
    (None, None, 2)
    >>> second.finish(); handed.end_of_done("t0") is None
    True
    >>> first.finish(); handed.end_of_done("t0")
    8
    >>> handed.undone
    0
    """

    def __init__(self) -> None:
        self._by_tp: dict[Any, deque[_Handed]] = {}

    @property
    def undone(self) -> int:
        """Records handed on and not folded, a large one counted as several: they take memory."""
        return sum(item.count for items in self._by_tp.values() for item in _unfolded(items))

    def waiting(self, tp: Any) -> bool:
        """True if the partition has batches that are not folded."""
        return any(True for _ in _unfolded(self._by_tp.get(tp, deque())))

    def partitions(self) -> list[Any]:
        """Partitions that have batches noted."""
        return [tp for tp, items in self._by_tp.items() if items]

    def note(self, tp: Any, batch: FetchedBatch) -> None:
        """Remember a batch that is being handed on."""
        self._by_tp.setdefault(tp, deque()).append(_Handed(batch, batch.last_offset, _weight(batch.records)))

    def note_gap(self, tp: Any, end: int) -> None:
        """No event lies between what was handed on and the offset `end`: it is done when that is."""
        gap = FetchedBatch(tp.topic, tp.partition, [], folded=True, done=True)
        self._by_tp.setdefault(tp, deque()).append(_Handed(gap, end - 1, 0))

    def end_of_done(self, tp: Any) -> int | None:
        """Forget the leading batches that are done; the offset after them, None if there is none."""
        items = self._by_tp.get(tp, deque())
        end = None
        while items and items[0].batch.done:
            end = items.popleft().last_offset + 1
        return end

    def forget(self, tps: Any = None) -> None:
        """Forget the batches of these partitions (of all): they will be read again."""
        for tp in list(self._by_tp if tps is None else tps):
            self._by_tp.pop(tp, None)


def _unfolded(items: deque[_Handed]) -> Iterator[_Handed]:
    """The last of them: batches of a partition are folded in order, and many may wait to be done."""
    return takewhile(lambda item: not item.batch.folded, reversed(items))


def _weight(records: list[Any]) -> int:
    """How many records of the usual size take so much memory; at least as many as there are."""
    size = sum(len(record.value or b"") for record in records)
    return max(len(records), size // USUAL_RECORD_BYTES)


def portions(records: list[Any], silent_to: int) -> Iterator[list[Any]]:
    """Cut records into what is folded in one turn; none reaches from before `silent_to` beyond it.

    >>> from types import SimpleNamespace as Record
    >>> cut = portions([Record(offset=offset) for offset in (3, 5, 8)], 5)
    >>> [[record.offset for record in portion] for portion in cut]
    [[3], [5, 8]]
    """
    before = 0
    if records and records[0].offset < silent_to:
        before = sum(record.offset < silent_to for record in records)
    for part in (records[:before], records[before:]):
        for start in range(0, len(part), RECORDS_PER_TURN):
            yield part[start : start + RECORDS_PER_TURN]
