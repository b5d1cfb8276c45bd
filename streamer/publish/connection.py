"""One connection to the broker that says of a batch whether it arrived, and can be dropped at any moment."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from streamer.kafka.errors import TOO_LARGE, KafkaConnectionError
from streamer.publish.publisher import Outgoing, Publisher

STOP_SECONDS = 3.0


class BrokerConnection(Publisher):
    """A publisher that says of each batch whether it arrived.

    Attributes:
        broken: a batch did not arrive; later ones may, but see `Delivery`.
    """

    broken = False
    _starting: asyncio.Task[None]
    _dropping: asyncio.Task[None]

    async def start(self) -> None:
        """As Publisher.start; from here on metadata are asked for all topics: see `_count_partitions`."""
        await super().start()
        await self._producer.client.force_metadata_update()

    async def connect(self) -> None:
        """Start. A cancelled caller goes its way, and the start comes to its own end: it holds a socket."""
        self._starting = asyncio.create_task(self.start())
        await asyncio.shield(self._starting)

    async def deliver(self, records: Sequence[Outgoing], patience_seconds: float) -> Exception | None:
        """Send these; None when all are acknowledged, else the first thing that went wrong.

        Some may have arrived nevertheless, or arrive later.
        """
        error = await self._deliver(records, patience_seconds)
        self.broken = self.broken or not (error is None or too_large(error))
        return error

    async def _deliver(self, records: Sequence[Outgoing], patience_seconds: float) -> Exception | None:
        acks: list[asyncio.Future[Any]] = []
        try:
            async with asyncio.timeout(patience_seconds):
                for record in records:
                    acks.append(await self._hand_over(record))
                await asyncio.wait(acks)
        except TimeoutError:
            return TimeoutError(f"no acknowledgement within {patience_seconds:g} s")
        except Exception as error:  # whatever it is, the events are not there
            return error
        finally:
            for ack in acks:
                ack.add_done_callback(_heard)
        failures = (ack.exception() for ack in acks)
        return next((failure for failure in failures if isinstance(failure, Exception)), None)

    async def drop(self) -> None:
        """Disconnect without waiting for what is on its way; a start that hangs is dropped when it ends."""
        self._dropping = asyncio.create_task(self._drop())
        if self._starting.done():
            await asyncio.shield(self._dropping)

    async def _drop(self) -> None:
        await asyncio.wait([self._starting])
        if self._starting.cancelled() or self._starting.exception():
            return  # which has cleaned up
        with suppress(Exception):
            async with asyncio.timeout(STOP_SECONDS):
                accumulator = self._producer._message_accumulator
                accumulator.fail_all(KafkaConnectionError("dropped"))
                await self._producer.client.close()
                await self._producer.stop()


def too_large(error: Exception | None) -> bool:
    """Whether the broker refuses the batch for its size: no connection will change that."""
    return isinstance(error, TOO_LARGE)


def _heard(ack: asyncio.Future[Any]) -> None:
    """The result is not awaited any more: its exception is not an accident."""
    if not ack.cancelled():
        ack.exception()
