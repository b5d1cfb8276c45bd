"""How far the workers are behind the event topic."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from aiokafka import TopicPartition

from streamer.client.log import partitions_of
from streamer.kafka.consumer import AIOKafkaConsumer
from streamer.kafka.ends import stable_end
from streamer.kafka.names import Names
from streamer.settings import Settings

FETCH_WAIT_MS = 20
"""How long the broker may hold the fetches at the ends, which find nothing."""

PATIENCE_SECONDS = 15.0
REQUEST_MS = 15_000


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """One partition of the event topic.

    Attributes:
        beginning: offset of the first record that is still there; above 0: the log was truncated.
        end: offset after the last record; transactions that are open left out.
        committed: offset up to which the workers are done, None if they never said.

    >>> PartitionLag(0, beginning=0, end=7, committed=5).lag, PartitionLag(0, 3, 7, None).lag
    (2, 4)
    """

    partition: int
    beginning: int
    end: int
    committed: int | None

    @property
    def lag(self) -> int:
        """Records that are in the log and not done; >= 0."""
        return max(0, self.end - max(self.beginning, self.committed or 0))


async def read_lags(settings: Settings) -> list[PartitionLag]:
    """Every partition of the event topic, by number.

    Raises:
        TopicMissing: there is no event topic.
        TimeoutError: the broker does not answer.
        aiokafka.errors.KafkaError: the broker cannot be reached, or refuses.
    """
    names = Names(settings.namespace)
    consumer = AIOKafkaConsumer(
        **settings.consumer_options(),
        group_id=names.group,  # to read what it committed; assigning by hand does not join it
        enable_auto_commit=False,
        fetch_max_wait_ms=FETCH_WAIT_MS,
        max_partition_fetch_bytes=1,
        request_timeout_ms=REQUEST_MS,
    )
    try:
        numbers = sorted(await partitions_of(settings, names.trial_events))
        places = [TopicPartition(names.trial_events, number) for number in numbers]
        await consumer.start()
        consumer.assign(places)
        beginnings = await consumer.beginning_offsets(places)
        committed = {place: await consumer.committed(place) for place in places}
        async with asyncio.timeout(PATIENCE_SECONDS):
            ends = await _ends(consumer, places)
        return [PartitionLag(p.partition, beginnings[p], ends[p], committed[p]) for p in places]
    finally:
        await consumer.stop()


async def _ends(consumer: AIOKafkaConsumer, places: list[TopicPartition]) -> dict[TopicPartition, int]:
    """Ends as told by fetches at the reported ends: ListOffsets of the embedded broker stops short."""
    for place, end in (await consumer.end_offsets(places)).items():
        consumer.seek(place, end)
    ends: dict[TopicPartition, int] = {}
    while len(ends) < len(places):
        await consumer.getmany(timeout_ms=FETCH_WAIT_MS)
        for place in places:
            end = stable_end(consumer, place)
            if end is not None:
                ends[place] = end
                consumer.pause(place)
    return ends
