"""The newest scored trials of a run, from the log: Redis has none."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import orjson
from aiokafka import TopicPartition

from schemas.identity import encode_id
from streamer.client.log import FETCH_BYTES, ConsumerRecord, partitions_of
from streamer.client.subscribe import EMBEDDED_FETCH_WAIT_MS, FETCH_WAIT_MS, Version
from streamer.kafka.consumer import AIOKafkaConsumer
from streamer.kafka.names import Names
from streamer.kafka.partitioner import partition_of
from streamer.settings import Settings
from streamer.web.models import TrialRow
from streamer.web.trial_list import row_of

KEPT = 200
"""So many trials are kept."""

ENOUGH = 50
"""So many are looked for in what the log holds already."""

FIRST_LOOK = 2_000
"""Records before the end of the partition that are read first; other runs may have written them."""

FURTHER = 8
"""The next look goes so many times as far back."""


class Newest:
    """The newest trials of one run, oldest first.

    Args:
        run_id: the run.
    """

    def __init__(self, run_id: str) -> None:
        self._prefix = f"{encode_id(run_id)}|".encode()
        self._held: dict[str, tuple[Version, int, TrialRow]] = {}

    @property
    def rows(self) -> list[TrialRow]:
        """Newest first; what was folded at once by revision, which mostly is the time of writing."""
        by_age = sorted(self._held.values(), key=lambda held: held[:2], reverse=True)
        return [row for _, _, row in by_age]

    def take(self, record: ConsumerRecord) -> bool:
        """Take a record; False if it is about another run, or older than what is held."""
        if record.key is None or not record.key.startswith(self._prefix):
            return False
        key = record.key.decode()
        if record.value is None:
            return self._held.pop(key, None) is not None
        trial: dict[str, Any] = orjson.loads(record.value)
        version = (trial["epoch"], trial["state_version"])
        if key in self._held and version < self._held[key][0]:
            return False
        self._held.pop(key, None)
        self._held[key] = version, trial["revision"], row_of(key, trial)
        if len(self._held) > KEPT:
            del self._held[next(iter(self._held))]
        return True


async def newest_trials(settings: Settings, run_id: str) -> AsyncIterator[list[TrialRow]]:
    """The newest trials, newest first: once as the log has them, then whenever some come; without end.

    Only as much of the log is read as it takes to find `ENOUGH`.

    Raises:
        TopicMissing: no worker has created the topics.
        aiokafka.errors.KafkaError: the broker cannot be reached, or refuses.
    """
    topic = Names(settings.namespace).scored_trials
    numbers = await partitions_of(settings, topic)
    place = TopicPartition(topic, partition_of(run_id, len(numbers)))
    consumer = AIOKafkaConsumer(
        **settings.consumer_options(),
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=EMBEDDED_FETCH_WAIT_MS if settings.embedded else FETCH_WAIT_MS,
        max_partition_fetch_bytes=FETCH_BYTES,
    )
    try:
        await consumer.start()
        consumer.assign([place])
        newest = await _as_it_stands(consumer, place, run_id)
        yield newest.rows
        while True:
            fetched = await consumer.getmany(place, timeout_ms=FETCH_WAIT_MS)
            if [record for record in _records(fetched) if newest.take(record)]:
                yield newest.rows
    finally:
        await consumer.stop()


async def _as_it_stands(consumer: AIOKafkaConsumer, place: TopicPartition, run_id: str) -> Newest:
    """Go back further and further, until there are enough, or all has been read.

    The end may be told too low (the embedded broker does); what lies behind it is followed anyway.
    """
    begin = (await consumer.beginning_offsets([place]))[place]
    end = (await consumer.end_offsets([place]))[place]
    back = FIRST_LOOK
    while True:
        newest, start = Newest(run_id), max(begin, end - back)
        consumer.seek(place, start)
        while await consumer.position(place) < end:
            for record in _records(await consumer.getmany(place, timeout_ms=FETCH_WAIT_MS)):
                newest.take(record)
        if start == begin or len(newest.rows) >= ENOUGH:
            return newest
        back *= FURTHER


def _records(fetched: Mapping[TopicPartition, list[ConsumerRecord]]) -> list[ConsumerRecord]:
    return [record for records in fetched.values() for record in records]
