"""Brings the events of `POST /api/events` to the broker, and takes only as many as memory has room for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from streamer.publish.connection import BrokerConnection, too_large
from streamer.publish.delivery import BATCH_BYTES, PATIENCE_SECONDS
from streamer.publish.publisher import Outgoing
from streamer.settings import Settings
from streamer.web.event_bodies import MAX_BODY_BYTES, BodyKind, EventsRead, read_events
from streamer.web.problems import Refused

MAX_HELD_BYTES = 4 * MAX_BODY_BYTES
"""Bodies that are read or wait for the broker, all together."""

MAX_BATCHES = 8
"""Batches on their way to the broker at once, some 8 MiB: few enough that each arrives in its time."""

CONNECT_SECONDS = 10.0


class TooBusy(Refused):
    """Other bodies fill the memory."""

    status = 429
    again = True

    def __init__(self) -> None:
        super().__init__(
            f"{MAX_HELD_BYTES // 2**20} MiB of events wait for the broker already. Nothing of this body was "
            "published. Send it again later"
        )


class NotPublished(Refused):
    """The broker did not acknowledge all events."""

    status = 503
    again = True

    def __init__(self, bootstrap: str, error: Exception) -> None:
        said = " ".join(str(error).split()) or type(error).__name__
        super().__init__(
            f"The broker at {bootstrap} did not acknowledge all events: {said.rstrip('.')}. Send the same "
            "body again: duplicates do not count"
        )


class RefusedForSize(Refused):
    """The broker's limit is lower than ours."""

    status = 413

    def __init__(self, bootstrap: str) -> None:
        super().__init__(
            f"The broker at {bootstrap} refuses an event for its size, and others may be published. Send "
            "smaller events, or raise max.message.bytes of the event topic"
        )


class EventIntake:
    """One per process. It connects at the first body, and again after a failure.

    Args:
        settings: where the broker is.

    Attributes:
        held_bytes: size of the bodies that are read or wait for the broker.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.held_bytes = 0
        self._one_at_a_time = asyncio.Lock()
        self._on_the_way = asyncio.Semaphore(MAX_BATCHES)
        self._connecting: asyncio.Task[BrokerConnection] | None = None

    @contextmanager
    def room_for(self, size: int) -> Iterator[None]:
        """Room for a body of so many bytes, until its request is answered; TooBusy if there is none."""
        if self.held_bytes + size > MAX_HELD_BYTES:
            raise TooBusy
        self.held_bytes += size
        try:
            yield
        finally:
            self.held_bytes -= size

    async def read(self, kind: BodyKind, body: bytes) -> EventsRead:
        """`read_events` in a thread, one body after the other, so that viewers are served meanwhile."""
        async with self._one_at_a_time:
            return await asyncio.to_thread(read_events, kind, body)

    async def publish(self, records: Sequence[Outgoing]) -> None:
        """Publish these in their order; on return the broker has acknowledged all of them.

        Raises:
            NotPublished: it did not acknowledge some; any of them may have arrived nevertheless.
            RefusedForSize: it never takes a record of such a size.
        """
        try:
            link = await self._connected()
        except Exception as error:
            raise NotPublished(self._settings.bootstrap, error) from error
        for batch in _batches(records):
            async with self._on_the_way:
                failure = await link.deliver(batch, PATIENCE_SECONDS)
            if too_large(failure):
                raise RefusedForSize(self._settings.bootstrap)
            if failure is not None:
                await self._forget(link)
                raise NotPublished(self._settings.bootstrap, failure)

    async def close(self) -> None:
        """Disconnect."""
        connecting, self._connecting = self._connecting, None
        if connecting is not None:
            connecting.cancel()  # an attempt that is under way
            await asyncio.wait([connecting])
            if (link := _link_of(connecting)) is not None:
                await link.drop()

    async def _connected(self) -> BrokerConnection:
        """The connection that all requests share, or the attempt at one that is under way."""
        connecting = self._connecting
        if connecting is None:
            connecting = self._connecting = asyncio.create_task(self._connect())
        try:
            return await asyncio.shield(connecting)
        except Exception:
            if self._connecting is connecting:
                self._connecting = None
            raise

    async def _connect(self) -> BrokerConnection:
        link = BrokerConnection(self._settings)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await link.connect()
        except BaseException:
            await link.drop()
            raise
        return link

    async def _forget(self, link: BrokerConnection) -> None:
        """Use this connection no more: see `streamer.publish.delivery.Delivery`."""
        if self._connecting is not None and _link_of(self._connecting) is link:
            self._connecting = None
            await link.drop()


def _link_of(connecting: asyncio.Task[BrokerConnection]) -> BrokerConnection | None:
    """What an attempt has led to; None: it goes on, or failed."""
    failed = not connecting.done() or connecting.cancelled() or connecting.exception() is not None
    return None if failed else connecting.result()


def _batches(records: Sequence[Outgoing]) -> Iterator[list[Outgoing]]:
    """The records in their order, some at a time: each batch has its own time to be acknowledged."""
    batch: list[Outgoing] = []
    size = 0
    for record in records:
        batch.append(record)
        size += len(record.value)
        if size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
