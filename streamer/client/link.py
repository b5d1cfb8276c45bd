"""One connection to the broker that says of a batch whether it arrived, and can be dropped at any moment."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from aiokafka.errors import KafkaConnectionError, MessageSizeTooLargeError

from streamer.client.publish import Outgoing, Publisher
from streamer.sinks.partitioner import partition_of_key

STOP_SECONDS = 3.0


class Link(Publisher):
    """A publisher that says of each batch whether it arrived; not to be trusted once one did not."""

    async def start(self) -> None:
        """As Publisher.start; from here on metadata are asked for all topics: see `_count_partitions`."""
        await super().start()
        await self._producer.client.force_metadata_update()

    async def deliver(self, records: Sequence[Outgoing], patience_seconds: float) -> Exception | None:
        """Send these; None when all are acknowledged, else the first thing that went wrong.

        Some may have arrived nevertheless, or arrive later.
        """
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
        """Disconnect without waiting for what is on its way."""
        with suppress(Exception):
            async with asyncio.timeout(STOP_SECONDS):
                accumulator = self._producer._message_accumulator
                accumulator.fail_all(KafkaConnectionError("dropped"))
                await self._producer.client.close()
                await self._producer.stop()

    async def _hand_over(self, record: Outgoing) -> asyncio.Future[Any]:
        place = partition_of_key(record.key or record.value, self._partitions)
        ack: asyncio.Future[Any] = await self._producer.send(
            self._topic, key=record.key, value=record.value, partition=place
        )
        return ack


def too_large(error: Exception | None) -> bool:
    """Whether the broker refuses the batch for its size: no connection will change that."""
    return isinstance(error, MessageSizeTooLargeError)


def _heard(ack: asyncio.Future[Any]) -> None:
    """Nobody waits for it any more: its exception is not an accident."""
    if not ack.cancelled():
        ack.exception()
