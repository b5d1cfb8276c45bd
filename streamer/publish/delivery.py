"""Takes events from any thread and brings them to the broker, over the disk while it is away.

An event is in one of three places: in memory (bounded; from `accept` until it is acknowledged or on the
disk), in the spill, or acknowledged. `Inbox` checks what is in memory, in a thread of its own. Two tasks
move it on. `_place_all` takes what was checked: to the broker if the link is known to be good, else to the
disk. `_send_kept` connects, sends what is on the disk, and says that the link is good again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from streamer.publish.capture import CapturedEvent
from streamer.publish.connection import BrokerConnection, too_large
from streamer.publish.delivery_status import DeliveryStatus
from streamer.publish.inbox import Inbox, Refused, Validated
from streamer.publish.invalid_events import InvalidEvent
from streamer.publish.publisher import Outgoing
from streamer.publish.results import Counts, EventsLost
from streamer.publish.spill import REFUSED, Chunk, Spill
from streamer.publish.validation import reread
from streamer.schemas.decode import Reason
from streamer.settings import Settings

log = logging.getLogger("streamer.client")

BATCH_BYTES = 1024 * 1024
"""Sent at once: small enough to be acknowledged long before STALL_SECONDS."""

STALL_SECONDS = 1.0
"""What is not acknowledged after this long goes to the disk: the longest that an event is in memory alone."""

CAUGHT_UP_EVENTS = 1_000
"""With so few on the disk new ones go to the broker directly again, so that the disk is emptied for good."""

PATIENCE_SECONDS = 10.0
"""How long to wait for acknowledgements of what is on the disk already."""

FIRST_RETRY_SECONDS = 0.1
LAST_RETRY_SECONDS = 2.0


class Delivery:
    """Lives in one event loop; only `accept`, `counts`, `pending` and `problem` are for other threads.

    Args:
        settings: where the broker is.
        directory: where events wait while it is away.
        tell: called in the loop with each invalid event.

    Attributes:
        refused: where invalid events are put aside, and events that the broker refused for good.
    """

    def __init__(self, settings: Settings, directory: Path, tell: Callable[[InvalidEvent], object]) -> None:
        self.refused = directory / REFUSED
        self._tell = tell
        self._settings = settings
        self._spill = Spill(directory)
        self._status = DeliveryStatus(settings.bootstrap, directory)
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Outgoing] = deque()
        self._in_hand: list[Outgoing] = []
        self._sent = self._spilled = self._rejected = 0
        self._final: Counts | None = None
        self._checked = asyncio.Event()
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()
        self._progress = asyncio.Event()
        self._link: BrokerConnection | None = None
        self._delay = FIRST_RETRY_SECONDS
        self._prepare()
        self._inbox = Inbox(self._hand_on, lambda: self.problem)
        self._tasks = [asyncio.create_task(work) for work in (self._place_all(), self._send_kept())]

    def accept(self, taken: CapturedEvent) -> None:
        """Take an event; never waits.

        Raises:
            NotAccepted: memory is full.
            RuntimeError: closed.
        """
        self._inbox.accept(taken)

    def count_unfit(self) -> None:
        """Count an invalid event that its publisher learned of at once."""
        self._inbox.count_unfit()

    @property
    def counts(self) -> Counts:
        """Where the events are at this moment; after `close`, where they were then."""
        if self._final is not None:
            return self._final
        pending, files = self.pending, tuple(self._spill.files)
        return Counts(self._sent, self._spilled, self._rejected + self._inbox.unfit, pending, files)

    @property
    def pending(self) -> int:
        """Events that are not acknowledged."""
        return self._inbox.waiting + self._spill.unsent

    @property
    def problem(self) -> str | None:
        """Why events do not arrive or could not be kept at the moment, None if all is well."""
        return self._status.text

    async def flush(self, seconds: float | None) -> bool:
        """Wait until everything is acknowledged; False if it is not in time, or when `close` ends."""
        self._inbox.hurry()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.pending and self._final is None:
                    self._progress.clear()
                    await self._progress.wait()
        return not self.pending

    async def close(self, seconds: float) -> Counts:
        """Flush, keep what is not acknowledged on the disk, let go of everything.

        Raises:
            EventsLost: the disk did not take it either.
        """
        self._inbox.close()
        await self.flush(seconds)
        await self._checked.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        left = [*self._in_hand, *self._waiting]
        kept = not left or self._keep(left)
        self._final = counts = self.counts
        self._progress.set()
        self._spill.close()
        if not kept:
            raise EventsLost(len(left), self.problem)
        if counts.pending:
            log.warning(
                "%d events are not at the broker (%s). They are in %s; the next publisher for this broker "
                "and namespace sends them, and so does: streamer publish FILE",
                counts.pending,
                self.problem or "time ran out",
                ", ".join(map(str, counts.files)),
            )
        return counts

    def forget(self) -> None:
        """Let go of the files in a forked process."""
        self._spill.forget()

    def _prepare(self) -> None:
        try:
            self._spill.prepare()
        except OSError as error:
            self._status.disk_fails(error)

    def _hand_on(self, checked: Validated | None) -> None:
        """From the thread that checks; there is no loop any more if the process is ending."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._sort, checked)

    def _sort(self, checked: Validated | None) -> None:
        if checked is None:
            self._checked.set()
            return
        for one in checked:
            if isinstance(one, Outgoing):
                self._waiting.append(one)
            else:
                self._put_aside(one)
        self._wake.set()

    def _put_aside(self, refused: Refused) -> None:
        try:
            self._refuse(refused.value, str(refused.error))
        except OSError as error:
            self._rejected += 1
            self._status.disk_fails(error)
            log.error("An event is none and cannot be put aside: %s", refused.error)
        self._tell(refused.error)
        self._finish([refused])

    async def _place_all(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while batch := self._take():
                self._in_hand = batch
                await self._place(batch)
                self._in_hand = []

    def _take(self) -> list[Outgoing]:
        batch, size = [], 0
        while self._waiting and size < BATCH_BYTES:
            record = self._waiting.popleft()
            size += len(record.value)
            batch.append(record)
        return batch

    async def _place(self, batch: list[Outgoing]) -> None:
        """To the broker if it takes them at once, else to the disk; if that takes none, on and on."""
        while True:
            link = self._link
            if link is not None:
                error = await link.deliver(batch, STALL_SECONDS)
                if error is None:
                    self._arrived(len(batch))
                    self._finish(batch)
                    return
                self._link = None
                self._status.broker_fails(error)
            if self._keep(batch):
                return
            await asyncio.sleep(FIRST_RETRY_SECONDS)

    def _keep(self, batch: Sequence[Outgoing]) -> bool:
        try:
            self._spill.append(batch)
        except OSError as error:
            self._status.disk_fails(error)
            return False
        finally:
            self._changed.set()
        self._status.disk_is_well()
        self._spilled += len(batch)
        self._finish(batch)
        return True

    def _finish(self, batch: Validated) -> None:
        self._inbox.left(len(batch), sum(len(one.value) for one in batch))
        self._progress.set()

    def _arrived(self, count: int) -> None:
        self._sent += count
        self._delay = FIRST_RETRY_SECONDS

    async def _send_kept(self) -> None:
        while True:
            link = BrokerConnection(self._settings)
            try:
                await link.connect()
                await self._use(link)
            except Exception as error:
                self._status.broker_fails(error)
            finally:
                self._link = None
                await link.drop()
            await asyncio.sleep(self._delay)
            self._delay = min(2 * self._delay, LAST_RETRY_SECONDS)

    async def _use(self, link: BrokerConnection) -> None:
        """Send what is on the disk, until the link fails.

        A link that has stalled is not used again, though it might recover. The embedded broker, restarted and
        empty, would take events of a producer that has not noticed, and create the topic with its own
        defaults.
        """
        self._prepare()
        while not link.broken:
            if chunk := self._spill.read():
                await self._resend(link, chunk)
            if self._spill.unsent <= CAUGHT_UP_EVENTS and not link.broken:
                self._link = link
                self._status.broker_is_well()
            if not self._spill.unsent:
                await self._changed.wait()
                self._changed.clear()

    async def _resend(self, link: BrokerConnection, chunk: Chunk) -> None:
        """Send lines of the disk; those that are refused for good are put aside."""
        read = [(line, reread(line)) for line in chunk.lines if line]
        records = [record for _, record in read if isinstance(record, Outgoing)]
        refused = [(line, reason.message) for line, reason in read if isinstance(reason, Reason)]
        error = await link.deliver(records, PATIENCE_SECONDS) if records else None
        if too_large(error):
            error = None
            for record in records:
                alone = await link.deliver([record], PATIENCE_SECONDS)
                if too_large(alone):
                    refused.append((record.value, "the broker says that it is too large"))
                else:
                    error = error or alone
        if error is not None:
            raise error
        for line, reason in refused:
            self._refuse(line, reason)
        self._spill.confirm(chunk)
        self._progress.set()
        self._arrived(len(read) - len(refused))

    def _refuse(self, line: bytes, reason: str) -> None:
        self._spill.refuse(line)
        self._rejected += 1
        log.error("An event was put aside in %s: %s", self.refused, reason)
