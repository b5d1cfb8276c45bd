"""An owner's answer to others who write over it: what they put over newer summaries is published again.

A worker that was cut off from its group, though not stopped, may go on for a while after its partitions
went to another one. Its pages do no harm. Its summaries, older than the owner's, would stand last in the
public topics until the run changes again.

An operator writes among the pages, too: requests to fold a run again (`streamer runs repair`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import aclosing, suppress
from typing import Any

import orjson

from streamer.kafka.errors import KafkaError
from streamer.kafka.log import records_between
from streamer.kafka.quarantine import run_to_repair
from streamer.schemas.identity import run_of_key
from streamer.settings import Settings
from streamer.versions import Version, is_older, version_of
from streamer.worker.faust.app import StreamerApp
from streamer.worker.faust.producer import Producer, ProducerRecord
from streamer.worker.faust.tables import StateTable, Tables
from streamer.worker.faust.topic_partition import TopicPartition
from streamer.worker.processing.partition import Partition
from streamer.worker.processing.processor import Processor

log = logging.getLogger(__name__)


class Fencing:
    """Looks at what others have appended to the tables of the partitions this worker owns."""

    def __init__(
        self, app: StreamerApp, settings: Settings, tables: Tables, processor: Processor, producer: Producer
    ) -> None:
        self._app = app
        self._settings = settings
        self._tables = {table.topic: table for table in tables.all()}
        self._pages = tables.trials
        self._processor = processor
        self._producer = producer

    async def republish_overwritten(self) -> None:
        """Publish again what others have put older values over; later, if the broker is away."""
        with suppress(KafkaError):
            await self._look()

    async def _look(self) -> None:
        owned = [p.number for p in self._processor.partitions.values() if p.caught_up]
        places = [TopicPartition(topic, number) for topic in self._tables for number in owned]
        if not places:
            return
        for place, end in (await self._app.event_consumer.highwaters(*places)).items():
            for start, stop in self._producer.take_foreign_ranges(place.topic, place.partition, end):
                try:
                    keys = {record.key: record.value for record in await self._read(place, start, stop)}
                except KafkaError:
                    self._producer.note_foreign_range(place.topic, place.partition, start, stop)
                    raise
                await self._answer(self._tables[place.topic], place.partition, keys)

    async def _answer(self, table: StateTable, number: int, written: dict[bytes, bytes | None]) -> None:
        async with self._processor.lock:
            partition = self._processor.partitions.get(number)
            if partition is None:
                return
            if table is self._pages:
                _note_requests(partition, written)
                return
            outs = []
            for raw, value in written.items():
                key = raw.decode("utf-8")
                run_id = run_of_key(key)
                known = partition.pipeline.knows(run_id) or partition.pipeline.holds(run_id)
                if (known or run_id in partition.closed) and is_overwritten(value, table.get(key)):
                    outs.append(ProducerRecord(table.topic, number, raw, table.get(key)))
            if outs:
                log.warning(
                    "%d summaries on %s were overwritten by older ones: again", len(outs), table.topic
                )
                await self._producer.write(outs)

    async def _read(self, place: TopicPartition, start: int, stop: int) -> list[Any]:
        async with aclosing(records_between(self._settings, place, start, stop)) as batches:
            return [record async for batch in batches for record in batch]


def _note_requests(partition: Partition, written: Mapping[bytes, bytes | None]) -> None:
    """Requests to fold runs again; pages that a zombie writes do no harm."""
    for raw, value in written.items():
        run_id = run_to_repair(raw.decode("utf-8", "replace"))
        if run_id is not None and value is not None:
            partition.repairs[run_id] = value.decode("utf-8", "replace")


def is_overwritten(written: bytes | None, own: bytes | None) -> bool:
    """True if another writer's value says less than, or other than, the owner's.

    >>> old, new = (b'{"epoch": 1, "state_version": %d}' % n for n in (3, 7))
    >>> [is_overwritten(*pair) for pair in ((old, new), (new, old), (new, new), (None, new), (old, None))]
    [True, False, False, True, True]
    """
    if written is None or own is None:
        return written != own
    return written != own and not is_older(_version(own), _version(written))


def _version(value: bytes) -> Version:
    return version_of(orjson.loads(value))
