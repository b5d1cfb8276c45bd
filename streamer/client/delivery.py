"""Takes events from any thread and brings them to the broker, over the disk while it is away.

An event is in one of three places: in memory (bounded; from `accept` until it is acknowledged or on the
disk), in the spill, or acknowledged. Two tasks move them. `_intake` takes what is in memory: to the broker if
the link is known to be good, else to the disk. `_send_kept` connects, sends what is on the disk, and says
that the link is good again.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from schemas.decode import Reason
from streamer.client.link import Link, too_large
from streamer.client.outbound import reread
from streamer.client.publish import Outgoing
from streamer.client.publishing import MAX_WAITING_BYTES, Counts, EventsLost, NotAccepted
from streamer.client.spill import REFUSED, Chunk, Spill
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

    Attributes:
        rejected: events that were none, or that the broker refused for good.
    """

    def __init__(self, settings: Settings, directory: Path) -> None:
        self.rejected = 0
        self._broker_problem: str | None = None
        self._disk_problem: str | None = None
        self._settings = settings
        self._spill = Spill(directory)
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._waiting: deque[Outgoing] = deque()
        self._in_hand: list[Outgoing] = []
        self._bytes = self._in_memory = self._sent = self._spilled = 0
        self._awake = self._closed = False
        self._final: Counts | None = None
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()
        self._progress = asyncio.Event()
        self._link: Link | None = None
        self._delay = FIRST_RETRY_SECONDS
        self._prepare()
        self._tasks = [asyncio.create_task(work) for work in (self._intake(), self._send_kept())]

    def accept(self, record: Outgoing) -> None:
        """Take an event; never waits.

        Raises:
            NotAccepted: memory is full.
            RuntimeError: closed.
        """
        size = len(record.value)
        with self._lock:
            if self._closed:
                raise RuntimeError("the publisher is closed; events are published before close()")
            if self._bytes + size > MAX_WAITING_BYTES:
                raise NotAccepted(self._in_memory, self.problem)
            self._waiting.append(record)
            self._bytes += size
            self._in_memory += 1
            wake, self._awake = not self._awake, True
        if wake:
            self._loop.call_soon_threadsafe(self._wake.set)

    def reject(self) -> None:
        """Count an event that was none."""
        with self._lock:
            self.rejected += 1

    @property
    def counts(self) -> Counts:
        """Where the events are at this moment; after `close`, where they were then."""
        if self._final is not None:
            return self._final
        in_memory = self._in_memory
        files = tuple(self._spill.files)
        return Counts(self._sent, self._spilled, self.rejected, in_memory + self._spill.unsent, files)

    @property
    def pending(self) -> int:
        """Events that are not acknowledged."""
        return self._in_memory + self._spill.unsent

    @property
    def problem(self) -> str | None:
        """Why events do not arrive or could not be kept at the moment, None if all is well."""
        return " and ".join(filter(None, (self._broker_problem, self._disk_problem))) or None

    async def flush(self, seconds: float | None) -> bool:
        """Wait until everything is acknowledged; False if it is not in time, or when `close` ends."""
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
        with self._lock:
            self._closed = True
        await self.flush(seconds)
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
            self._disk_refuses(error)

    async def _intake(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            with self._lock:
                self._awake = False
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
                    self._settle(batch)
                    return
                self._link = None
                self._trouble(error)
            if self._keep(batch):
                return
            await asyncio.sleep(FIRST_RETRY_SECONDS)

    def _keep(self, batch: Sequence[Outgoing]) -> bool:
        try:
            self._spill.append(batch)
        except OSError as error:
            self._disk_refuses(error)
            return False
        finally:
            self._changed.set()
        self._disk_problem = None
        self._spilled += len(batch)
        self._settle(batch)
        return True

    def _settle(self, batch: Sequence[Outgoing]) -> None:
        size = sum(len(record.value) for record in batch)
        with self._lock:
            self._in_memory -= len(batch)
            self._bytes -= size
        self._progress.set()

    def _arrived(self, count: int) -> None:
        self._sent += count
        self._delay = FIRST_RETRY_SECONDS

    async def _send_kept(self) -> None:
        while True:
            link = Link(self._settings)
            try:
                await link.connect()
                await self._use(link)
            except Exception as error:
                self._trouble(error)
            finally:
                self._link = None
                await link.drop()
            await asyncio.sleep(self._delay)
            self._delay = min(2 * self._delay, LAST_RETRY_SECONDS)

    async def _use(self, link: Link) -> None:
        """Send what is on the disk, until the link fails.

        A link that has stalled is not used again, though it might recover: the embedded broker, restarted and
        empty, would take events of a producer that has not noticed, and create the topic as it likes.
        """
        self._prepare()
        while not link.broken:
            if chunk := self._spill.read():
                await self._resend(link, chunk)
            if self._spill.unsent <= CAUGHT_UP_EVENTS and not link.broken:
                self._good(link)
            if not self._spill.unsent:
                await self._changed.wait()
                self._changed.clear()

    async def _resend(self, link: Link, chunk: Chunk) -> None:
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
        self.reject()
        log.error("An event was put aside in %s: %s", self._spill.directory / REFUSED, reason)

    def _good(self, link: Link) -> None:
        self._link = link
        if self._broker_problem is not None:
            log.warning("The broker at %s takes events again", self._settings.bootstrap)
            self._broker_problem = None

    def _trouble(self, error: Exception) -> None:
        """Say once per outage what is wrong."""
        said = " ".join(str(error).split()) or type(error).__name__
        problem = f"the broker at {self._settings.bootstrap} does not take events: {said}"
        if self._broker_problem is None:
            log.warning("%s. They are kept in %s until it does", problem, self._spill.directory)
        self._broker_problem = problem

    def _disk_refuses(self, error: OSError) -> None:
        """Say once what is wrong."""
        problem = f"cannot keep events in {self._spill.directory}: {error.strerror or error}"
        if self._disk_problem is None:
            log.error("%s. Until it is mended, or spill_dir names another one, memory has to do", problem)
        self._disk_problem = problem
