"""The event topic, kept: a batch is in the journal and synced before the broker sees it.

So consumers see, and producers get acknowledged, only what survives a restart. Batches that wait for the disk
together share one sync. One connection appends them to the broker, in the order of the journal. So offsets
are the same after a restart, except behind copies of misplaced records, which the worker makes again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from streamer.embedded.journal import Journal
from streamer.embedded.journal_format import Frame
from streamer.kafka.record_batches import Packer, RecordBatch
from streamer.kafka.wire import Connection, ProduceResult

STORAGE_ERROR = 56
"""Kafka's KAFKA_STORAGE_ERROR: producers try again."""

LOAD_BYTES = 4 * 1024 * 1024
"""The journal is loaded in requests of about this size."""

Trouble = Callable[[OSError | None], None]
"""Called when the journal cannot be written, and with None when it can be written again."""


class _QueuedBatch(NamedTuple):
    partition: int
    batch: RecordBatch
    keep: bool
    answer: asyncio.Future[ProduceResult]


class EventLog:
    """Appends to the event topic.

    Args:
        topic: its name; it must exist.
        journal: read to its end; None: nothing is kept.
        broker: a connection that nothing else uses.
        trouble: called with the disk's error, and with None once it can be written again.
    """

    def __init__(self, topic: str, journal: Journal | None, broker: Connection, trouble: Trouble) -> None:
        self.topic = topic
        self._journal = journal
        self._broker = broker
        self._trouble = trouble
        self._failing = False
        self._waiting: asyncio.Queue[_QueuedBatch] = asyncio.Queue()

    async def append(self, partition: int, batch: RecordBatch, *, keep: bool) -> ProduceResult:
        """Keep a batch, if asked to, and append it; STORAGE_ERROR if the disk does not take it."""
        answer: asyncio.Future[ProduceResult] = asyncio.get_running_loop().create_future()
        await self._waiting.put(_QueuedBatch(partition, batch, keep, answer))
        return await answer

    async def run(self) -> None:
        """Keep and append incoming events until cancelled; ConnectionError if the broker ends or refuses."""
        while True:
            group = [await self._waiting.get()]
            while not self._waiting.empty():
                group.append(self._waiting.get_nowait())
            if self._journal is not None:
                kept = [waiting for waiting in group if waiting.keep]
                if kept and not await self._journalled(kept, self._journal):
                    group = [waiting for waiting in group if not waiting.keep]
            if group:
                await self._append(group)

    async def _journalled(self, group: list[_QueuedBatch], journal: Journal) -> bool:
        """True if the journal has them; otherwise they are answered."""
        batches = [(waiting.partition, *waiting.batch) for waiting in group]
        try:
            await asyncio.to_thread(journal.write, batches)
        except OSError as error:
            self._tell(error)
            for waiting in group:
                _answer(waiting, ProduceResult(waiting.partition, STORAGE_ERROR))
            return False
        self._tell(None)
        return True

    async def _append(self, group: list[_QueuedBatch]) -> None:
        batches = [(waiting.partition, waiting.batch.data) for waiting in group]
        offsets = await self._broker.append(self.topic, batches)
        for waiting in group:
            _answer(waiting, ProduceResult(waiting.partition, 0, offsets[waiting.partition]))
            offsets[waiting.partition] += waiting.batch.events

    def _tell(self, error: OSError | None) -> None:
        if self._failing != (error is not None):
            self._failing = error is not None
            self._trouble(error)


async def load(
    topic: str, partitions: int, frames: Iterable[Frame], broker: Connection, compression: str
) -> Counter[int]:
    """Append the journal's frames to the fresh topic, small batches packed into larger ones.

    Returns how many events each partition got.

    A frame of a partition beyond the count lies in another one; the worker forwards its events.
    """
    packers = [Packer(compression) for _ in range(partitions)]
    ready: list[tuple[int, bytes]] = []
    size, events = 0, Counter[int]()
    for frame in frames:
        partition = frame.partition % partitions
        for batch in packers[partition].add(RecordBatch(frame.events, frame.batch)):
            ready.append((partition, batch.data))
            size += len(batch.data)
        events[partition] += frame.events
        if size >= LOAD_BYTES:
            await broker.append(topic, ready)
            ready, size = [], 0
    ready += [(n, batch.data) for n, packer in enumerate(packers) for batch in packer.rest()]
    if ready:
        await broker.append(topic, ready)
    return events


def _answer(waiting: _QueuedBatch, answer: ProduceResult) -> None:
    if not waiting.answer.done():  # its connection may have ended
        waiting.answer.set_result(answer)
