"""The batches of the event topic, as the processor takes them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import faust

from streamer.worker.faust.batches import FetchedBatch


class BatchStream:
    """Batches in their order of arrival."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __aiter__(self) -> AsyncIterator[FetchedBatch]:
        """Wait for one batch after the other."""
        batches: AsyncIterator[FetchedBatch] = aiter(self._stream)
        return batches

    @property
    def drained(self) -> bool:
        """True if the next batch has not arrived yet."""
        return bool(self._stream.channel.queue.empty())


class AsFetched(faust.Schema[Any, Any]):
    """Schema of the event topic: nothing is decoded here, since bad bytes are the pipeline's business."""

    def loads_key(self, app: Any, message: Any, **_: Any) -> Any:
        """Batches have no key."""
        return message.key

    def loads_value(self, app: Any, message: Any, **_: Any) -> Any:
        """The batch itself."""
        return message.value


def process_batches(
    app: faust.App, topic: str, partitions: int, process: Callable[[BatchStream], Awaitable[None]]
) -> None:
    """Let `process` take the batches of a topic for as long as the app runs."""

    async def fold(stream: Any) -> None:
        await process(BatchStream(stream))

    events = app.topic(topic, schema=AsFetched(), partitions=partitions)
    app.agent(events, name="streamer.fold")(fold)
