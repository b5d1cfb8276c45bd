"""A publisher that never stops: through outages it tries again until every event is acknowledged."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from streamer.storage.kafka import MAX_MESSAGE_BYTES
from streamer.storage.outbox import LoopThread
from tests.faults.traffic import Message
from tests.support.worker_process import wait_for

TICK_SECONDS = 0.1
PER_TICK = 4
PER_ROUND = 200
PATIENCE_MS = 15_000
DRAIN_SECONDS = 120.0


class Publisher:
    """Publishes in a thread of its own, with acks=all.

    Attributes:
        acknowledged: (partition, offset) of every acknowledged record -> its value, until the checker
            takes them.
        every: how often each value was acknowledged.
        ends: offset of the last acknowledged record in the log of today, by partition.
        failed: attempts that were not acknowledged and made again.
        total: records acknowledged.
        idempotent: for the next connection.

    Args:
        more: further events, so many of them; asked ten times a second.
    """

    def __init__(
        self, threads: LoopThread, bootstrap: str, topic: str, more: Callable[[int], list[Message]]
    ) -> None:
        self._threads, self._bootstrap, self._topic, self._more = threads, bootstrap, topic, more
        self._pending: deque[Message] = deque()
        self._flying = 0
        self._held = False
        self._stopped = False
        self._producer: AIOKafkaProducer | None = None
        self._running: Any = None
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.every: Counter[bytes] = Counter()
        self._awaited: dict[bytes, int | None] = {}
        self.ends: dict[int, int] = {}
        self.failed = 0
        self.total = 0
        self.idempotent = True

    def start(self) -> None:
        """Begin."""
        self._running = self._threads.submit(self._run())

    def stop(self) -> None:
        """End; what was not acknowledged is given up."""
        self._stopped = True
        self._running.result(60)

    @property
    def unacknowledged(self) -> int:
        """Events that are sent or wait to be."""
        return len(self._pending) + self._flying

    def send(self, messages: Iterable[Message]) -> None:
        """Publish these soon, in this order."""
        self._threads.loop.call_soon_threadsafe(self._pending.extend, list(messages))

    def send_and_wait(self, messages: list[Message], seconds: float = DRAIN_SECONDS) -> list[int]:
        """Publish these, no two alike, and wait; the offset of each."""
        values = [message.value for message in messages]
        self._awaited.update(dict.fromkeys(values))
        self.send(messages)
        acknowledged = lambda: None not in [self._awaited[value] for value in values]  # noqa: E731
        wait_for(acknowledged, "events are acknowledged", seconds)
        return [self._awaited.pop(value) or 0 for value in values]

    def hold(self, seconds: float = DRAIN_SECONDS) -> None:
        """Invent nothing more, and wait until everything is acknowledged."""
        self._held = True
        self._threads.submit(asyncio.sleep(0)).result(10)
        wait_for(lambda: not self.unacknowledged, "everything published is acknowledged", seconds)

    def resume(self) -> None:
        """Go on."""
        self._held = False

    def log_begins_again(self) -> None:
        """Offsets of the log before say nothing of this one, those that are still to be learnt included.

        A round ends with its last answer. That may come from the new broker, and the first from the old one.
        """
        self.ends = {}

    async def _run(self) -> None:
        inventing = asyncio.ensure_future(self._invent())
        while not self._stopped:
            if self._pending:
                await self._round()
            else:
                await asyncio.sleep(TICK_SECONDS / 10)
        inventing.cancel()
        await self._disconnect()

    async def _invent(self) -> None:
        while True:
            if not self._held and len(self._pending) < 5 * PER_ROUND:
                self._pending.extend(self._more(PER_TICK))
            await asyncio.sleep(TICK_SECONDS)

    async def _round(self) -> None:
        messages = [self._pending.popleft() for _ in range(min(PER_ROUND, len(self._pending)))]
        self._flying = len(messages)
        try:
            left = await self._send(messages)
        except (KafkaError, OSError, TimeoutError, asyncio.InvalidStateError):
            left = messages
        self._pending.extendleft(reversed(left))
        self._flying = 0
        if left:
            self.failed += len(left)
            await self._disconnect()
            await asyncio.sleep(TICK_SECONDS)

    async def _send(self, messages: list[Message]) -> list[Message]:
        """Those that were not acknowledged."""
        producer, ends = await self._connected(), self.ends
        sends = (producer.send(self._topic, m.value, key=m.key, partition=m.partition) for m in messages)
        futures = [await send for send in sends]
        acks = await asyncio.gather(*futures, return_exceptions=True)
        left = []
        for message, ack in zip(messages, acks, strict=True):
            if isinstance(ack, BaseException):
                left.append(message)
                continue
            self.acknowledged[ack.partition, ack.offset] = message.value
            self.every[message.value] += 1
            if message.value in self._awaited:
                self._awaited[message.value] = ack.offset
            ends[ack.partition] = max(ack.offset, ends.get(ack.partition, -1))
            self.total += 1
        return left

    async def _connected(self) -> AIOKafkaProducer:
        if self._producer is None:
            producer = AIOKafkaProducer(
                bootstrap_servers=self._bootstrap.split(","),
                acks="all",
                enable_idempotence=self.idempotent,
                max_request_size=MAX_MESSAGE_BYTES,
                request_timeout_ms=PATIENCE_MS,
            )
            try:
                await producer.start()
            except BaseException:
                await producer.stop()
                raise
            self._producer = producer
        return self._producer

    async def _disconnect(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(producer.stop(), 10)


SERIAL = itertools.count(1)
"""Numbers poison, so that no two are alike."""
