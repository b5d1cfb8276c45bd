"""A run folded in this process and written to Redis and to the log, as a worker would."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, Self

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from streamer.folding.fold import Pipeline
from streamer.folding.slots import RunUpdate
from streamer.schemas.wire import NO_TIMESTAMP, Reason, Record, decode
from streamer.settings import Settings
from streamer.storage.kafka import Names, partition_of
from streamer.storage.redis import RedisSink
from tests.support.events import Event

PARTITIONS = 2


class StandingClock:
    """A clock that stands until it is moved."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Feed:
    """Folds events; with a `log` they and the scored trials go there too, or these alone without `events`.

    `start` is the time of the first portion's records; each portion is a minute after the one before. None:
    the folded records have no time, and those of the log the time of writing.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        log: bool = False,
        events: bool = True,
        epoch: int = 1,
        start: datetime | None = None,
    ) -> None:
        self.settings = settings
        self.pipeline = Pipeline(epoch=epoch)
        self._topic = Names(settings.namespace).scored_trials
        self._events = Names(settings.namespace).trial_events if events else None
        self._log = log
        self._offset = 0
        self._milliseconds = None if start is None else int(start.timestamp() * 1000)
        self._producer: AIOKafkaProducer | None = None

    async def __aenter__(self) -> Self:
        self._sink = RedisSink.from_settings(self.settings, self)
        if self._log:
            admin = AIOKafkaAdminClient(**self.settings.kafka_options())
            await admin.start()
            topics = (self._topic, self._events)
            await admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in topics if topic])
            await admin.close()
            self._producer = AIOKafkaProducer(**self.settings.kafka_options())
            await self._producer.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._sink.close()
        if self._producer is not None:
            await self._producer.stop()

    async def take(self, events: Iterable[Event | bytes]) -> None:
        """Fold some events as one batch; on return Redis and the log have what follows from them."""
        values = [event if isinstance(event, bytes) else json.dumps(event).encode() for event in events]
        at = NO_TIMESTAMP if self._milliseconds is None else self._milliseconds
        records = [Record(value, self._offset + number, timestamp=at) for number, value in enumerate(values)]
        self._offset += len(records)
        touched = self.pipeline.fold(records).touched
        updates = [self.pipeline.run(run_id).take_changes() for run_id in sorted(touched)]
        await self._sink.write(updates)
        if self._producer is not None:
            for record in records:
                event = decode(record.value)
                if self._events is not None and not isinstance(event, Reason):
                    await self._send(self._events, event.run_id, event.run_id, record.value)
            for update in updates:
                for scored in update.scored:
                    await self._send(self._topic, update.run_id, scored.key, scored.value)
            await self._producer.flush()
        if self._milliseconds is not None:
            self._milliseconds += 60_000

    async def _send(self, topic: str, run_id: str, key: str, value: bytes | None) -> None:
        assert self._producer is not None
        partition = partition_of(run_id, PARTITIONS)
        await self._producer.send(
            topic, value, key=key.encode(), partition=partition, timestamp_ms=self._milliseconds
        )

    def digests(self, run_id: str) -> dict[tuple[str, str, str], str]:
        """(type, tier or "", agent:model or "") to digest, of all that streams tell of a run.

        They tell nothing of comparisons.
        """
        changes = self.pipeline.run(run_id).summaries()
        summaries = [change.summary or {} for change in changes if change.kind != "comparison"]
        return {place_of(summary): summary["digest"] for summary in summaries}

    def run_ids(self) -> list[str]:
        return self.pipeline.runs()

    def current(self, run_id: str) -> RunUpdate:
        if not self.pipeline.knows(run_id):
            return RunUpdate(run_id)
        run = self.pipeline.run(run_id)
        return RunUpdate(run_id, run.summaries(), run.in_flight_taken)


def fed(settings: Settings, run: Iterable[Event], **options: Any) -> None:
    """Write runs as a worker would; in a thread of its own, since Playwright has the loop of this one."""

    async def write() -> None:
        async with Feed(settings, **options) as feed:
            await feed.take(run)

    with ThreadPoolExecutor(1) as threads:
        threads.submit(asyncio.run, write()).result()


def place_of(summary: Event) -> tuple[str, str, str]:
    """What a summary, or the news that one is gone, is about."""
    return summary["type"], summary.get("tier") or "", summary.get("agent_model") or ""
