"""Runs folded from the event topic while they go on: one fold, to which each new event is added."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection
from contextlib import suppress

from streamer.aggregate.run_state import RunState
from streamer.fold import CannotBeFolded
from streamer.kafka.log import ends_of
from streamer.kafka.names import Names
from streamer.kafka.partitioner import partition_of
from streamer.kafka.partitions import partitions_of
from streamer.kafka.reader import PartitionReader, following_wait_ms
from streamer.pipeline import Pipeline
from streamer.score import PriceTable
from streamer.settings import Settings


class FollowedRuns:
    """Some runs as they stand in the event topic.

    Args:
        settings: where the broker is.
        wanted: ids that the runs may have; other runs are left alone.
        prices: price table (R2).
    """

    def __init__(self, settings: Settings, wanted: Collection[str], prices: PriceTable) -> None:
        self._settings, self._wanted = settings, frozenset(wanted)
        self._pipeline = Pipeline(prices=prices, owns=self._wanted.__contains__, takes_changes=False)

    def states(self) -> dict[str, RunState]:
        """The runs that exist, by id.

        Raises:
            CannotBeFolded: an exception set one of them apart.
        """
        for failure in self._pipeline.failed.values():
            raise CannotBeFolded(failure)
        known = {run_id: self._pipeline.run(run_id).state for run_id in self._pipeline.runs()}
        return {run_id: state for run_id, state in known.items() if state.exists}

    async def looks(self, seconds: float) -> AsyncGenerator[None]:
        """A first look once everything that the log holds now is folded; then one after news, without end.

        Args:
            seconds: at least so long between two looks.

        Raises:
            TopicMissing, TopicUnreadable, KafkaError: see `streamer.kafka.log`; after the first look it
                waits for a broker that is away.
        """
        topic = Names(self._settings.namespace).trial_events
        count = len(await partitions_of(self._settings, topic))
        places = [(topic, number) for number in {partition_of(run_id, count) for run_id in self._wanted}]
        ends = await ends_of(self._settings, places)
        wait_ms = following_wait_ms(self._settings)
        async with PartitionReader(self._settings, places, wait_ms=wait_ms) as reader:
            async for batch in reader.read({}, ends):
                self._pipeline.fold(batch)
            yield
            news = asyncio.Event()
            reading = asyncio.create_task(self._read_on(reader, ends, news))
            try:
                while True:
                    await _either(reading, news)
                    news.clear()
                    yield
                    await asyncio.sleep(seconds)
            finally:
                reading.cancel()
                with suppress(asyncio.CancelledError):
                    await reading

    async def _read_on(
        self, reader: PartitionReader, start: dict[tuple[str, int], int], news: asyncio.Event
    ) -> None:
        async for batch in reader.read(start, None, patience_seconds=None):
            if self._pipeline.fold(batch).touched:
                news.set()


async def _either(reading: asyncio.Task[None], news: asyncio.Event) -> None:
    """Wait for news; raises what ended the reading."""
    waiting = asyncio.create_task(news.wait())
    try:
        await asyncio.wait({reading, waiting}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
    if reading.done():
        reading.result()
